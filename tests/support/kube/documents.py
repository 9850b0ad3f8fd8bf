"""The table of objects in tests/data/documents.yaml, on which a directory and an API server must agree."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from knative.resources.kinds import OURS

_TABLE = Path(__file__).parents[2] / "data" / "documents.yaml"
_API_VERSIONS = {kind.name: kind.api_version for kind in OURS}
_BROKER_CLASS = {"eventing.knative.dev/broker.class": "Kafka"}


@dataclass(frozen=True, slots=True)
class Case:
    """One object. `field`: what its refusal names, "" = it is valid; `only_here`: why an API server accepts it."""

    name: str
    document: dict[str, Any]
    field: str
    only_here: str

    @property
    def kind(self) -> str:
        return str(self.document["kind"])

    def __str__(self) -> str:
        return f"{self.kind}, {self.name}"


def read_cases() -> list[Case]:
    table = yaml.safe_load(_TABLE.read_text())
    return [_case(kind, entry) for kind, entries in table.items() for entry in entries]


def _case(kind: str, entry: dict[str, Any]) -> Case:
    annotations = {**(_BROKER_CLASS if kind == "Broker" else {}), **entry.pop("annotations", {})}
    metadata = {"name": "orders", **entry.pop("metadata", {}), **({"annotations": annotations} if annotations else {})}
    document = {"apiVersion": entry.pop("apiVersion", _API_VERSIONS[kind]), "kind": kind, "metadata": metadata}
    if "spec" in entry:
        document["spec"] = entry.pop("spec")
    case = Case(entry.pop("name"), document, entry.pop("field", ""), entry.pop("only_here", ""))
    assert not entry, f"{case} has unknown keys: {', '.join(entry)}"
    return case
