"""The controller at work against the rules of the manifests: nothing is refused, nothing is allowed without need."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.local.kafka import EmbeddedKafka
from tests.cluster.event_types import event_types
from tests.support.kube.audit import compare, service_account
from tests.support.kube.client import resource_path
from tests.support.kube.cluster import KubeCluster
from tests.support.kube.manifests import controller_role, controller_rules
from tests.support.kube.penstock import EVENTING, KAFKA_CLASS, MESSAGING, PenstockInCluster
from tests.system.sending import post

RESETS = "kafka.eventing.knative.dev/v1alpha1"
pytestmark = [pytest.mark.cluster, pytest.mark.integration]


def test_controller_needs_exactly_what_its_roles_allow(kube: KubeCluster, kafka: EmbeddedKafka, tmp_path: Path) -> None:
    penstock = PenstockInCluster(kube, kafka.bootstrap, tmp_path)
    added = ("True", "")
    env = {"PENSTOCK_INGRESS_URL": "http://ingress.test", "PENSTOCK_CHANNEL_SERVICES": "ingress.test"}
    with penstock.worker(env=env) as controller, event_types(kube, "enabled") as listed:
        penstock.create("v1", "Service", "billing", {"ports": [{"port": 80}]})
        penstock.create("v1", "ConfigMap", "config")
        penstock.channel("orders")
        path = resource_path("v1", "services", namespace=penstock.namespace, name="orders-kn-channel")
        penstock.wait("the Service of the channel", lambda: kube.admin.get(path).ok)
        kube.admin.merge(path, {"spec": {"externalName": "elsewhere.test"}}).must()
        penstock.wait(
            "it is put right",
            lambda: kube.admin.get(path).must()["spec"]["externalName"] == "ingress.test",
        )
        target = f"/channels/{penstock.namespace}/orders"
        penstock.wait(
            "an EventType",
            lambda: post(controller.port, target, "one").status == 202 and bool(listed(penstock.namespace)),
        )
        service = {"ref": {"apiVersion": "v1", "kind": "Service", "name": "billing"}}
        penstock.subscription("billing", "orders", service)
        config = {"config": {"apiVersion": "v1", "kind": "ConfigMap", "name": "config"}}
        penstock.create(EVENTING, "Broker", "default", config, annotations=KAFKA_CLASS)
        penstock.create(EVENTING, "Trigger", "mine", {"broker": "default", "subscriber": service})
        late = {"ref": {"apiVersion": "v1", "kind": "Service", "name": "late"}}
        penstock.subscription("late", "orders", late)  # and an Event about it
        penstock.wait(
            "both are added",
            lambda: (
                penstock.condition("Subscription", "billing", "AddedToChannel") == added
                and penstock.condition("Trigger", "mine", "SubscriberResolved") == added
            ),
        )
        mine = {"apiVersion": MESSAGING, "kind": "Subscription", "name": "billing"}
        penstock.create(RESETS, "ResetOffset", "again", {"offset": {"time": "earliest"}, "ref": mine})
        penstock.wait_ready("ResetOffset", "again")
        penstock.wait("an Event", lambda: bool(penstock.events("Subscription", "late")))
        for kind, name in (
            ("Trigger", "mine"),
            ("Broker", "default"),
            ("Subscription", "billing"),
            ("Subscription", "late"),
            ("KafkaChannel", "orders"),
        ):
            penstock.delete(kind, name)
            penstock.wait_gone(kind, name)
        assert controller.terminate() == 0, controller.tail()
    user = service_account(penstock.namespace, "controller")
    comparison = compare(
        [{"kind": "ClusterRole", "rules": controller_rules()}, controller_role("Role")], kube.requests(), user
    )
    assert [str(request) for request in comparison.refused] == []
    assert [str(grant) for grant in comparison.unused] == []
