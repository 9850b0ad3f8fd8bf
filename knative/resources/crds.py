"""The CustomResourceDefinitions of our kinds, as plain values."""

from __future__ import annotations

from typing import Any

from knative.resources.openapi import kind_schema
from knative.resources.schema import Column, Kind

_ADDED = {"app.kubernetes.io/name": "penstock", "knative.dev/crd-install": "true"}


def crd(kind: Kind) -> dict[str, Any]:
    """Returns the definition of one kind. All its versions have one schema; the preferred one is stored."""
    names: dict[str, Any] = {
        "kind": kind.name,
        "listKind": f"{kind.name}List",
        "plural": kind.plural,
        "singular": kind.name.lower(),
    }
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    if kind.categories:
        names["categories"] = list(kind.categories)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}", "labels": {**_ADDED, **kind.labels}},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": names,
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": version == kind.versions[0],
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [_column(column) for column in kind.columns],
                    "schema": {"openAPIV3Schema": kind_schema(kind)},
                }
                for version in kind.versions
            ],
        },
    }


def _column(column: Column) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.path}
    return {**fields, "priority": 1} if column.wide else fields
