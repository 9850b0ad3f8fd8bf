"""Many tenants in one cluster: what one of them has does not stop the others, and the controller keeps its Lease."""

from __future__ import annotations

from copy import copy
from typing import Any

import pytest

from tests.support.kube.penstock import EVENTING, KAFKA_CLASS, PenstockInCluster

pytestmark = [pytest.mark.cluster, pytest.mark.integration]

BROKERS = 300
NAMESPACES = 50
INGRESS = {"PENSTOCK_INGRESS_URL": "http://ingress.test"}


def _lease(penstock: PenstockInCluster) -> tuple[str, int]:
    """Who has the Lease, and how often it has changed hands; ("", 0) = nobody has had it."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{penstock.namespace}/leases/{penstock.name}-controller"
    answer = penstock.kube.admin.get(path)
    spec: dict[str, Any] = answer.body["spec"] if answer.ok else {}
    return str(spec.get("holderIdentity") or ""), int(spec.get("leaseTransitions") or 0)


def _broker(penstock: PenstockInCluster, name: str) -> None:
    """With a ConfigMap of the same name."""
    metadata = {"namespace": penstock.namespace, "name": name}
    data = {"default.topic.partitions": "1"}
    penstock.kube.admin.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}).must()
    spec = {"config": {"apiVersion": "v1", "kind": "ConfigMap", "name": name}}
    penstock.create(EVENTING, "Broker", name, spec, annotations=KAFKA_CLASS)


def _ready(penstock: PenstockInCluster, kind: str) -> int:
    items = penstock.kube.admin.get(penstock.path(kind)).must()["items"]
    conditions = [condition for item in items for condition in item.get("status", {}).get("conditions", ())]
    return sum((condition["type"], condition["status"]) == ("Ready", "True") for condition in conditions)


def test_tenant_with_many_brokers_does_not_stop_the_others(penstock: PenstockInCluster) -> None:
    theirs = copy(penstock)
    theirs.namespace = f"{penstock.namespace}-theirs"
    namespace = f"/api/v1/namespaces/{theirs.namespace}"
    penstock.kube.create_namespace(theirs.namespace)
    env = {**INGRESS, "PENSTOCK_RESOURCES": f"cluster:{penstock.namespace},{theirs.namespace}"}
    with penstock.worker("controller", env) as controller:
        controller.wait_ready()
        penstock.channel("first")
        penstock.wait_ready("KafkaChannel", "first")
        holder = _lease(penstock)
        for number in range(BROKERS):
            name = f"b{number}"
            _broker(theirs, name)
        penstock.channel("meanwhile")
        penstock.wait_ready("KafkaChannel", "meanwhile")
        penstock.wait("all Brokers are ready", lambda: _ready(theirs, "Broker") == BROKERS)
        assert _lease(penstock) == holder
        penstock.kube.admin.delete(namespace).must()
        penstock.channel("later")
        penstock.wait_ready("KafkaChannel", "later")
        penstock.wait("the namespace is gone", lambda: penstock.kube.admin.get(namespace).status == 404)
        assert _lease(penstock) == holder
        assert controller.terminate() == 0, controller.tail()


def test_controller_of_many_namespaces_keeps_its_lease(penstock: PenstockInCluster) -> None:
    """Each kind has a watch in each of them."""
    others = [f"{penstock.namespace}-{number}" for number in range(NAMESPACES - 1)]
    for other in others:
        penstock.kube.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}}).must()
    env = {**INGRESS, "PENSTOCK_RESOURCES": f"cluster:{','.join((penstock.namespace, *others))}"}
    with penstock.worker("controller", env) as controller:
        controller.wait_ready()
        penstock.channel("first")
        penstock.wait_ready("KafkaChannel", "first")
        holder = _lease(penstock)
        for number, other in enumerate(others):
            theirs = copy(penstock)
            theirs.namespace = other
            _broker(theirs, "default")
            if number == len(others) - 1:
                theirs.wait_ready("Broker", "default")
        penstock.channel("last")
        penstock.wait_ready("KafkaChannel", "last")
        assert _lease(penstock) == holder
        assert controller.terminate() == 0, controller.tail()
