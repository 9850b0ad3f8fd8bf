"""Knative's kind EventType, and the ConfigMap of its features, as far as they matter here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.kube.client import path_of, resource_path
from tests.support.kube.cluster import START_LIMIT_S, KubeCluster
from tests.support.kube.manifests import definition
from tests.support.processes import wait_until

_TEXT = {"type": "string"}
_REFERENCE = {"type": "object", "properties": dict.fromkeys(("apiVersion", "kind", "name", "namespace"), _TEXT)}
_SPEC = {
    "type": "object",
    "properties": {**dict.fromkeys(("type", "source", "description"), _TEXT), "reference": _REFERENCE},
}

_COLUMNS = {"Type": ".spec.type", "Source": ".spec.source", "Reference Name": ".spec.reference.name"}
DEFINITION = definition(
    "eventing.knative.dev/v1beta2",
    "EventType",
    {"type": "object", "properties": {"spec": _SPEC}},
    additionalPrinterColumns=[{"name": name, "type": "string", "jsonPath": path} for name, path in _COLUMNS.items()],
)


Listed = Callable[[str], list[dict[str, Any]]]  #: the EventTypes of a namespace


@contextmanager
def event_types(kube: KubeCluster, flag: str = "disabled") -> Iterator[Listed]:
    """The kind is installed, and the features have this flag; afterwards both are gone."""
    admin = kube.admin
    admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "knative-eventing"}}).must()
    admin.apply(DEFINITION).must()

    def listed(namespace: str) -> list[dict[str, Any]]:
        path = resource_path("eventing.knative.dev/v1beta2", "eventtypes", namespace=namespace)
        return list(admin.get(path).must()["items"])

    everywhere = resource_path("eventing.knative.dev/v1beta2", "eventtypes")
    wait_until("the kind is served", lambda: admin.get(everywhere).ok, START_LIMIT_S)
    admin.apply(features(flag)).must()
    try:
        yield listed
    finally:
        admin.delete(path_of(features(flag))).must()
        admin.delete(path_of(DEFINITION)).must()


def features(value: str) -> dict[str, Any]:
    """The ConfigMap that asks for EventTypes, or not."""
    metadata = {"namespace": "knative-eventing", "name": "config-features"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"eventtype-auto-create": value}}
