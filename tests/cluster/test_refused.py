"""What the API server refuses is named for what it is: a condition says which verbs and resource to grant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.local.kafka import EmbeddedKafka
from tests.support.kube.cluster import KubeCluster
from tests.support.kube.manifests import controller_role
from tests.support.kube.penstock import EVENTING, KAFKA_CLASS, PenstockInCluster

pytestmark = [pytest.mark.cluster, pytest.mark.integration]

INGRESS = {"PENSTOCK_INGRESS_URL": "http://ingress.test"}


@pytest.fixture
def penstock(kube: KubeCluster, kafka: EmbeddedKafka, tmp_path: Path) -> PenstockInCluster:
    return PenstockInCluster(kube, kafka.bootstrap, tmp_path)


def _may_not(penstock: PenstockInCluster, *resources: str) -> None:
    """The controller's role is that of the manifests, without these resources."""
    path = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{penstock.name}"
    rules = [
        {**rule, "resources": left}
        for rule in controller_role("ClusterRole")["rules"]
        if (left := [resource for resource in rule["resources"] if resource not in resources])
    ]
    penstock.kube.admin.merge(path, {"rules": rules}).must()


def _message(penstock: PenstockInCluster, kind: str, name: str, type_: str) -> str:
    conditions: list[dict[str, Any]] = penstock.read(kind, name)["status"]["conditions"]
    return next(str(one["message"]) for one in conditions if one["type"] == type_)


def test_config_maps_that_may_not_be_read(penstock: PenstockInCluster) -> None:
    """This is not a ConfigMap that is missing."""
    metadata = {"namespace": penstock.namespace, "name": "config"}
    data = {"default.topic.partitions": "1"}
    penstock.kube.admin.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}).must()
    _may_not(penstock, "configmaps")
    with penstock.worker("controller", INGRESS) as controller:
        spec = {"config": {"apiVersion": "v1", "kind": "ConfigMap", "name": "config"}}
        penstock.create(EVENTING, "Broker", "main", spec, annotations=KAFKA_CLASS)
        refused = ("False", "ConfigMapForbidden")
        penstock.wait("it says so", lambda: penstock.condition("Broker", "main", "TopicReady") == refused)
        message = _message(penstock, "Broker", "main", "TopicReady")
        assert f"grant the verbs list and watch on configmaps in namespace {penstock.namespace}" in message
        _may_not(penstock)
        penstock.wait_ready("Broker", "main")
        assert controller.terminate() == 0, controller.tail()
