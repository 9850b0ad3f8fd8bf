"""What the API server refuses is named for what it is: a condition says which verbs and resource to grant."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.support.kube.manifests import controller_rules
from tests.support.kube.penstock import EVENTING, KAFKA_CLASS, LIMIT_S, PenstockInCluster
from tests.support.processes import Worker, get

pytestmark = [pytest.mark.cluster, pytest.mark.integration]

FINALIZER = ("False", "FinalizerForbidden")
_TROUBLES = re.compile(r'^penstock_api_server_troubles{what="(\w+)"} (\S+)$', re.MULTILINE)
INGRESS = {"PENSTOCK_INGRESS_URL": "http://ingress.test"}


def _may_not(penstock: PenstockInCluster, *resources: str) -> None:
    """The controller's role is that of the manifests, without these resources."""
    path = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{penstock.name}"
    rules = [
        {**rule, "resources": left}
        for rule in controller_rules()
        if (left := [resource for resource in rule["resources"] if resource not in resources])
    ]
    penstock.kube.admin.merge(path, {"rules": rules}).must()


def _message(penstock: PenstockInCluster, kind: str, name: str, type_: str) -> str:
    conditions: list[dict[str, Any]] = penstock.read(kind, name)["status"]["conditions"]
    return next(str(condition["message"]) for condition in conditions if condition["type"] == type_)


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


def test_finalizer_that_may_not_be_written(penstock: PenstockInCluster) -> None:
    """Without it a channel could vanish with its topics left behind, so it is not served, and says so."""
    _without_verb(penstock, "patch", "kafkachannels")
    with penstock.worker("controller", INGRESS) as controller:
        controller.wait_ready()
        penstock.channel("orders")
        penstock.wait("it says so", lambda: penstock.condition("KafkaChannel", "orders") == FINALIZER)
        message = _message(penstock, "KafkaChannel", "orders", "Ready")
        assert "grant the verb patch on kafkachannels.messaging.knative.dev to the controller" in message
        penstock.wait("an Event", lambda: ("Warning", FINALIZER[1]) in penstock.events("KafkaChannel", "orders"))
        penstock.wait("the metric", lambda: _troubles(controller)["finalizer"] == 1)
        penstock.wait("doctor", lambda: "cluster finalizer of KafkaChannel" in _rejected(penstock))
        _may_not(penstock)
        penstock.wait_ready("KafkaChannel", "orders")
        penstock.wait("the metric", lambda: _troubles(controller)["finalizer"] == 0)
        assert controller.terminate() == 0, controller.tail()


def test_service_of_a_channel_that_may_not_be_written(penstock: PenstockInCluster) -> None:
    """The channel is served by its other addresses."""
    _without_verb(penstock, "create", "services")
    env = {**INGRESS, "PENSTOCK_CHANNEL_SERVICES": "ingress.test"}
    with penstock.worker("controller", env) as controller:
        controller.wait_ready()
        penstock.channel("orders")
        refused = ("True", "ServiceNotWritten")
        penstock.wait("it says so", lambda: penstock.condition("KafkaChannel", "orders") == refused)
        message = _message(penstock, "KafkaChannel", "orders", "Addressable")
        assert "grant the verbs create and patch on services to the controller" in message
        penstock.wait("the metric", lambda: _troubles(controller)["service"] == 1)
        with penstock.command("status", "-o", "json") as status:
            assert status.wait(LIMIT_S) == 0, status.output() + status.tail()
            (row,) = json.loads(status.output())["channels"]
            assert (row["ready"], row["reason"]) == ("True", "ServiceNotWritten")
        _may_not(penstock)
        penstock.wait("it is written", lambda: penstock.condition("KafkaChannel", "orders") == ("True", ""))
        penstock.wait("the metric", lambda: _troubles(controller)["service"] == 0)
        assert controller.terminate() == 0, controller.tail()


def test_status_that_may_not_be_written(penstock: PenstockInCluster) -> None:
    _may_not(penstock, "kafkachannels/status")
    with penstock.worker("controller", INGRESS) as controller:
        controller.wait_ready()
        penstock.channel("orders")
        penstock.wait("an Event", lambda: ("Warning", "StatusForbidden") in penstock.events("KafkaChannel", "orders"))
        penstock.wait("the metric", lambda: _troubles(controller)["status"] == 1)
        penstock.wait("doctor", lambda: "cluster status of KafkaChannel" in _rejected(penstock))
        _may_not(penstock)
        penstock.wait_ready("KafkaChannel", "orders")
        penstock.wait("the metric", lambda: _troubles(controller)["status"] == 0)
        assert controller.terminate() == 0, controller.tail()


def test_list_that_may_not_be_read(penstock: PenstockInCluster) -> None:
    """What was read before is served. A process that does nothing but reconcile is not ready; ingress still is."""
    with penstock.worker("controller", INGRESS) as controller, penstock.worker("all", INGRESS) as worker:
        controller.wait_ready()
        worker.wait_ready()
        penstock.channel("orders")
        penstock.wait_ready("KafkaChannel", "orders")
        _may_not(penstock, "kafkachannels")
        penstock.wait("it is not ready", lambda: _readiness(controller)[0] == 503)
        (trouble,) = _readiness(controller)[1]["api_server"]
        assert (trouble["what"], "cannot list resource" in trouble["why"] or "cannot watch" in trouble["why"]) == (
            "watch",
            True,
        )
        assert trouble["object"].endswith("/kafkachannels")
        assert trouble["since"].startswith("20")
        penstock.wait("the other one says it too", lambda: "api_server" in _readiness(worker)[1])
        assert _readiness(worker)[0] == 200
        _may_not(penstock)
        penstock.wait("it is ready again", lambda: _readiness(controller)[0] == 200)
        assert worker.terminate() == 0, worker.tail()
        assert controller.terminate() == 0, controller.tail()


def test_broker_of_a_class_that_nobody_serves(penstock: PenstockInCluster) -> None:
    annotations = {"eventing.knative.dev/broker.class": "KafkaNamespaced"}
    with penstock.worker("controller", INGRESS) as controller:
        penstock.create(EVENTING, "Broker", "main", {}, annotations=annotations)
        penstock.wait("it says so", lambda: penstock.condition("Broker", "main") == ("False", "ClassNotServed"))
        assert "create it again with" in _message(penstock, "Broker", "main", "Ready")
        assert "finalizers" not in penstock.read("Broker", "main")["metadata"]
        assert controller.terminate() == 0, controller.tail()


def _without_verb(penstock: PenstockInCluster, verb: str, resource: str) -> None:
    path = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{penstock.name}"
    rules = [
        {**rule, "verbs": [other for other in rule["verbs"] if other != verb]}
        if resource in rule["resources"]
        else rule
        for rule in controller_rules()
    ]
    penstock.kube.admin.merge(path, {"rules": rules}).must()


def _readiness(worker: Worker) -> tuple[int, dict[str, Any]]:
    code, body = get(worker.admin_port, "/readyz")
    return code, json.loads(body)


def _troubles(worker: Worker) -> dict[str, float]:
    text = get(worker.admin_port, "/metrics")[1].decode()
    return {what: float(value) for what, value in _TROUBLES.findall(text)}


def _rejected(penstock: PenstockInCluster) -> str:
    """What `penstock doctor` says of the controller's report."""
    with penstock.command("doctor", "-o", "json") as command:
        command.wait(LIMIT_S)
        return " ".join(row["found"] for row in json.loads(command.output()) if row["check"] == "rejected")
