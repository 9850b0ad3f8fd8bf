"""A namespace is deleted with everything in it while its events are delivered: it ends, and nothing of it is left."""

from __future__ import annotations

from copy import copy
from pathlib import Path

import pytest

from app.local.kafka import EmbeddedKafka
from controller.kafka.topics import observe_topics
from controller.plan.actions import GroupState
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tests.support.groups import group_states
from tests.support.kube.cluster import KubeCluster
from tests.support.kube.penstock import EVENTING, KAFKA_CLASS, PenstockInCluster
from tests.support.subscriber import ScriptedSubscriber, says
from tests.system.sending import post

pytestmark = [pytest.mark.cluster, pytest.mark.integration]


def test_deleted_namespace_leaves_nothing(kube: KubeCluster, kafka: EmbeddedKafka, tmp_path: Path) -> None:
    penstock = PenstockInCluster(kube, kafka.bootstrap, tmp_path)
    theirs = copy(penstock)
    theirs.namespace = f"{penstock.namespace}-theirs"
    kube.create_namespace(theirs.namespace)
    namespace = f"/api/v1/namespaces/{theirs.namespace}"
    env = {
        "PENSTOCK_RESOURCES": f"cluster:{penstock.namespace},{theirs.namespace}",
        "PENSTOCK_INGRESS_URL": "http://ingress.test",
    }
    with ScriptedSubscriber() as subscriber, penstock.worker(env=env) as worker:
        worker.wait_ready()
        penstock.channel("ours")
        theirs.create("v1", "ConfigMap", "config")
        config = {"config": {"apiVersion": "v1", "kind": "ConfigMap", "name": "config"}}
        theirs.create(EVENTING, "Broker", "default", config, annotations=KAFKA_CLASS)
        theirs.channel("orders")
        theirs.create("v1", "Service", "late", {"ports": [{"port": 80}]})
        to = {"uri": subscriber.script("/all", says(202))}
        uids = [theirs.subscription(name, "orders", to)["metadata"]["uid"] for name in ("billing", "audit")]
        spec = {"broker": "default", "subscriber": to}
        uids.append(theirs.create(EVENTING, "Trigger", "mine", spec)["metadata"]["uid"])
        theirs.subscription("waits", "orders", {"ref": {"apiVersion": "v1", "kind": "Service", "name": "missing"}})
        theirs.wait_ready("Subscription", "billing", "audit")
        theirs.wait_ready("Trigger", "mine")
        topics = [theirs.topic("orders"), f"{penstock.name}-b.{theirs.namespace}.default"]
        topics += [f"{topic}.dlq" for topic in topics]
        admin = KafkaAdmin({"bootstrap.servers": kafka.bootstrap}, 60.0)
        assert observe_topics(admin, topics).keys() == set(topics)
        target = f"/channels/{theirs.namespace}/orders"
        penstock.wait("an event is stored", lambda: post(worker.port, target, "one").status == 202)
        kube.admin.delete(namespace).must()
        penstock.wait("the namespace is gone", lambda: kube.admin.get(namespace).status == 404)
        assert observe_topics(admin, topics) == {}
        groups = [f"kafka.{uid}" for uid in uids]
        assert set(group_states(admin, groups).values()) == {GroupState.ABSENT}
        assert post(worker.port, target, "two").status == 404
        penstock.channel("next")
        penstock.wait("others are served", lambda: penstock.is_published("ours") and penstock.is_published("next"))
        assert worker.terminate() == 0, worker.tail()
