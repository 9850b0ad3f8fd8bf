"""The output of `kubectl get` in the docs is what the API server prints for such objects."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from knative.resources.kinds import OURS
from tests.support.kube.client import path_of, printed
from tests.support.kube.cluster import KubeCluster
from tests.support.processes import REPOSITORY

PAGE = REPOSITORY / "docs" / "reference" / "resources.md"
READY = {"type": "Ready", "status": "True"}
INGRESS = "http://penstock-ingress.penstock.svc.cluster.local"
SINK = {"ref": {"apiVersion": "v1", "kind": "Service", "name": "billing"}}


def _ready(**more: Any) -> dict[str, Any]:
    return {"conditions": [READY], **more}


def _because(status: str, reason: str, **more: Any) -> dict[str, Any]:
    return {"conditions": [{"type": "Ready", "status": status, "reason": reason}], **more}


OBJECTS: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("KafkaChannel", "orders", {}, _ready(address={"url": f"{INGRESS}/channels/shop/orders"})),
    ("KafkaChannel", "refunds", {}, _because("False", "TopicConflict")),
    ("Subscription", "audit", {"channel": {"name": "orders"}, "subscriber": SINK}, _ready()),
    (
        "Subscription",
        "billing",
        {"channel": {"name": "orders"}, "subscriber": SINK},
        _because("Unknown", "SubscriberNotServed"),
    ),
    ("Broker", "main", {}, _ready(address={"url": f"{INGRESS}/shop/main"})),
    (
        "Trigger",
        "paid",
        {"broker": "main", "subscriber": SINK},
        _ready(subscriberUri="http://billing.shop.svc.cluster.local/"),
    ),
    (
        "ResetOffset",
        "again",
        {
            "offset": {"time": "2026-01-31T08:00:00Z"},
            "ref": {"apiVersion": "eventing.knative.dev/v1", "kind": "Trigger", "name": "paid"},
        },
        _because("True", "OffsetsMoved"),
    ),
]


def _shown(row: dict[str, str], kind: str) -> dict[str, str]:
    """A row as `kubectl get` of several kinds shows it, five minutes later."""
    group = next(crd.group for crd in OURS if crd.name == kind)
    return {**row, "Name": f"{kind.lower()}.{group}/{row['Name']}", "Age": "5m"}


def test_tables_in_the_docs_are_those_of_the_api_server(
    with_crds: KubeCluster, make_namespace: Callable[[], str]
) -> None:
    namespace, paths = make_namespace(), {}
    for kind, name, spec, status in OBJECTS:
        api_version = next(crd.api_version for crd in OURS if crd.name == kind)
        document = {"apiVersion": api_version, "kind": kind, "metadata": {"namespace": namespace, "name": name}}
        with_crds.admin.create({**document, "spec": spec}).must()
        with_crds.admin.merge(f"{path_of(document)}/status", {"status": status}).must()
        paths[kind] = path_of(document, with_name=False)
    tables = [[_shown(row, kind) for row in with_crds.admin.table(path)] for kind, path in paths.items()]
    example = re.search(r"```\n\$ kubectl get .*?\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert example is not None
    assert example[1].strip() == "\n\n".join(map(printed, tables))
