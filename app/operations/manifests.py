"""Writes what comes from the definition of the kinds: CRDs, and the page of their fields.

    knative/resources/kinds OURS -> knative/manifests/crds/{own,knative}/*.yaml, docs/reference/fields.md

`python -m app.operations.manifests [--check]`. With `--check` it writes nothing and exits with 1 if a file differs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from app.operations.fields_page import page
from app.settings.generated import REPOSITORY, write_or_check
from knative.resources.brokers import BROKER, TRIGGER
from knative.resources.channels import SUBSCRIPTION
from knative.resources.crds import crd
from knative.resources.kinds import OURS
from knative.resources.schema import Kind

CRDS = REPOSITORY / "knative" / "manifests" / "crds"
PAGE = REPOSITORY / "docs" / "reference" / "fields.md"

#: Knative eventing brings these itself.
OF_KNATIVE = (SUBSCRIPTION, BROKER, TRIGGER)
_HEADING = "# Generated from knative/resources by `make docs`; edits here are lost.\n"


class _Dumper(yaml.SafeDumper):
    """Block style without aliases, as people write manifests."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def files() -> dict[Path, str]:
    """Returns every generated file with its content."""
    return {**{crd_file(kind): _HEADING + to_yaml(crd(kind)) for kind in OURS}, PAGE: page(OURS)}


def crd_file(kind: Kind) -> Path:
    """Returns where the CRD of a kind is: `own` are those that every cluster needs."""
    return CRDS / ("knative" if kind in OF_KNATIVE else "own") / f"{kind.plural}.yaml"


def to_yaml(value: object) -> str:
    """Returns YAML in the order of `value`."""
    # The class is of PyYAML's own making, which has no types for it.
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True)


if __name__ == "__main__":
    raise SystemExit(write_or_check(files(), sys.argv[1:]))
