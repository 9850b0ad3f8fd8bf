"""The resources that `penstock dev` writes: a Trigger for each handler, and a Broker if none is named. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

#: The first line. A file without it belongs to somebody else.
MARK = "# Written by `penstock dev`, which removes it when it ends.\n"
_API = "eventing.knative.dev/v1"
_CLASS = {"eventing.knative.dev/broker.class": "Kafka"}


def resources(handlers: Sequence[Mapping[str, Any]], broker: str, url: str, *, own_broker: bool) -> str:
    """Returns YAML. `handlers`: name, filter and retry of each; `broker`: NAMESPACE/NAME; `url`: of the handlers."""
    namespace, _, name = broker.partition("/")
    documents: list[dict[str, Any]] = []
    if own_broker:
        documents.append(_document("Broker", namespace, name, {}, annotations=_CLASS))
    for handler in handlers:
        spec: dict[str, Any] = {"broker": name, "subscriber": {"uri": f"{url}/{handler['name']}"}}
        if handler["filter"] is not None:
            spec["filters"] = [{"cesql": handler["filter"]}]
        spec["delivery"] = {"retry": handler["retry"], "backoffPolicy": "exponential", "backoffDelay": "PT0.5S"}
        documents.append(_document("Trigger", namespace, handler["name"], spec))
    return MARK + yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True)


def _document(kind: str, namespace: str, name: str, spec: Mapping[str, Any], **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": _API,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": dict(spec),
    }
