"""KafkaChannels and Subscriptions in a real cluster, stand-alone: from objects to delivered events, and to nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from app.local.kafka import EmbeddedKafka
from controller.kafka.topics import observe_topics
from controller.plan.actions import GroupState
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tests.support.groups import group_states
from tests.support.kube.cluster import KubeCluster
from tests.support.kube.penstock import PenstockInCluster
from tests.support.processes import Worker
from tests.support.subscriber import ScriptedSubscriber, says
from tests.system.sending import post

pytestmark = [pytest.mark.cluster, pytest.mark.integration]

Make = Callable[[], PenstockInCluster]


@pytest.fixture
def make(kube: KubeCluster, kafka: EmbeddedKafka, tmp_path: Path) -> Make:
    return lambda: PenstockInCluster(kube, kafka.bootstrap, tmp_path)


def send(worker: Worker, penstock: PenstockInCluster, channel: str, event_id: str) -> None:
    """An event that is stored; an ingress knows a channel shortly after the controller."""
    target = f"/channels/{penstock.namespace}/{channel}"
    penstock.wait(f"{event_id} is accepted", lambda: post(worker.port, target, event_id).status == 202)


def ids(subscriber: ScriptedSubscriber, path: str) -> set[str]:
    return {request.attributes["id"] for request in subscriber.requests(path)}


def topics(kafka: EmbeddedKafka, *names: str) -> set[str]:
    return set(observe_topics(KafkaAdmin({"bootstrap.servers": kafka.bootstrap}, 60.0), names))


def group_is_gone(kafka: EmbeddedKafka, uid: str) -> bool:
    group = f"kafka.{uid}"
    states = group_states(KafkaAdmin({"bootstrap.servers": kafka.bootstrap}, 60.0), [group])
    return states == {group: GroupState.ABSENT}


def test_channel_and_its_subscriptions_from_created_to_deleted(make: Make, kafka: EmbeddedKafka) -> None:
    penstock = make()
    with ScriptedSubscriber() as subscriber, penstock.worker() as worker:
        worker.wait_ready()
        uri = {"uri": subscriber.script("/billing", says(202))}
        other = {"uri": subscriber.script("/audit", says(202))}
        penstock.channel("orders", 2)
        billing = penstock.subscription("billing", "orders", uri)
        penstock.subscription("audit", "orders", other)
        penstock.wait_ready("Subscription", "billing", "audit")
        penstock.wait_ready("KafkaChannel", "orders")
        status = penstock.read("KafkaChannel", "orders")["status"]
        topic = status["annotations"]["penstock.dev/topic"]
        dlq_topic = status["annotations"]["penstock.dev/dead-letter-topic"]
        assert topics(kafka, topic, dlq_topic) == {topic, dlq_topic}
        assert {row["ready"] for row in status["subscribers"]} == {"True"}
        host = f"orders-kn-channel.{penstock.namespace}.svc.cluster.local"
        assert status["address"]["url"] == f"http://{host}"
        send(worker, penstock, "orders", "one")
        penstock.wait("both have it", lambda: "one" in ids(subscriber, "/billing") & ids(subscriber, "/audit"))

        moved = subscriber.script("/moved", says(202))
        change = {"spec": {"subscriber": {"uri": moved}}}
        penstock.kube.admin.merge(penstock.path("Subscription", "billing"), change).must()
        penstock.wait_ready("Subscription", "billing")
        send(worker, penstock, "orders", "two")
        penstock.wait("the new address has it", lambda: "two" in ids(subscriber, "/moved"))
        assert "two" not in ids(subscriber, "/billing")

        penstock.delete("Subscription", "billing")
        penstock.wait_gone("Subscription", "billing")
        assert group_is_gone(kafka, billing["metadata"]["uid"])
        send(worker, penstock, "orders", "three")
        penstock.wait("the other one has it", lambda: "three" in ids(subscriber, "/audit"))
        assert "three" not in ids(subscriber, "/moved")

        penstock.delete("KafkaChannel", "orders")
        penstock.wait_gone("KafkaChannel", "orders")
        assert topics(kafka, topic, dlq_topic) == set()
        penstock.wait(
            "what is left says why",
            lambda: penstock.condition("Subscription", "audit") == ("False", "ChannelNotFound"),
        )
        assert penstock.events("KafkaChannel", "orders")[-1:] == [("Normal", "Ready")]
        assert worker.terminate() == 0, worker.tail()


def test_fifty_subscriptions_at_once_and_twenty_five_deleted(make: Make, kafka: EmbeddedKafka) -> None:
    penstock = make()
    with ScriptedSubscriber() as subscriber, penstock.worker() as worker:
        worker.wait_ready()
        penstock.channel("orders")
        uris = {f"s{n}": subscriber.script(f"/s{n}", says(202)) for n in range(50)}
        made = {name: penstock.subscription(name, "orders", {"uri": uri}) for name, uri in uris.items()}
        penstock.wait_ready("Subscription", *uris)
        deleted = [f"s{n}" for n in range(0, 50, 2)]
        for name in deleted:
            penstock.delete("Subscription", name)
        penstock.wait_gone("Subscription", *deleted)
        assert all(group_is_gone(kafka, made[name]["metadata"]["uid"]) for name in deleted)
        send(worker, penstock, "orders", "one")
        left = [name for name in uris if name not in deleted]
        penstock.wait("all that are left have it", lambda: all(ids(subscriber, f"/{name}") == {"one"} for name in left))
        assert [name for name in deleted if ids(subscriber, f"/{name}")] == []
        assert worker.terminate() == 0, worker.tail()


def test_service_that_comes_late_is_waited_for(make: Make) -> None:
    penstock = make()
    with penstock.worker("controller") as controller:
        penstock.channel("orders")
        ref = {"ref": {"apiVersion": "v1", "kind": "Service", "name": "billing"}}
        penstock.subscription("billing", "orders", ref)
        missing = ("False", "SubscriberNotResolved")
        penstock.wait("it says what is missing", lambda: penstock.condition("Subscription", "billing") == missing)
        penstock.create("v1", "Service", "billing", {"ports": [{"port": 80}]})
        resolved = ("True", "")
        penstock.wait(
            "it is resolved",
            lambda: penstock.condition("Subscription", "billing", "ReferencesResolved") == resolved,
        )
        uri = penstock.read("Subscription", "billing")["status"]["physicalSubscription"]["subscriberUri"]
        assert uri == f"http://billing.{penstock.namespace}.svc.cluster.local/"
        assert penstock.events("Subscription", "billing") == [("Warning", "SubscriberNotResolved")]
        assert controller.terminate() == 0, controller.tail()


def test_object_that_cannot_be_served_says_why_and_the_rest_is_served(make: Make) -> None:
    penstock = make()
    with penstock.worker("controller") as controller:
        penstock.create(
            "messaging.knative.dev/v1beta1", "KafkaChannel", "wrong", {}, annotations={"penstock.dev/hosts": "a b"}
        )
        penstock.channel("orders")
        penstock.wait(
            "the reason is in its status",
            lambda: penstock.condition("KafkaChannel", "wrong") == ("False", "SpecInvalid"),
        )
        penstock.wait(
            "the other one is published",
            lambda: penstock.condition("KafkaChannel", "orders", "ContractPublished") == ("True", ""),
        )
        lease = penstock.kube.admin.get(
            f"/apis/coordination.k8s.io/v1/namespaces/{penstock.namespace}/leases/{penstock.name}-controller"
        ).must()
        assert lease["spec"]["holderIdentity"]
        assert controller.terminate() == 0, controller.tail()
        assert json.dumps(penstock.read("KafkaChannel", "wrong")["metadata"].get("finalizers")) == "null"


def test_controller_that_ends_when_it_is_done(make: Make) -> None:
    """`penstock controller --once`, for pipelines; what it does not do, the next one does."""
    penstock = make()
    penstock.channel("orders", 2)
    penstock.subscription("billing", "orders", {"uri": "http://127.0.0.1:9/"})
    for _ in range(2):
        with penstock.command("controller", "--once", "--timeout", "200") as done:
            assert done.wait(300) == 0, done.tail()
            assert "Reconciled" in done.tail()
    assert penstock.condition("KafkaChannel", "orders", "ContractPublished") == ("True", "")
    assert penstock.condition("Subscription", "billing", "AddedToChannel") == ("True", "")
    assert penstock.condition("Subscription", "billing") == ("Unknown", "SubscriberNotServed")
    with penstock.command("status") as status:
        assert status.wait(300) == 3, status.tail()
        assert f"{penstock.namespace}/billing" in status.output()


def test_controller_without_permissions_says_that_it_was_not_elected_for_this(make: Make) -> None:
    penstock = make()
    nobody = str(penstock.kube.service_account_kubeconfig(penstock.namespace, "default"))
    with penstock.command("controller", "--once", "--timeout", "5", env={"PENSTOCK_KUBECONFIG": nobody}) as done:
        assert done.wait(300) == 3, done.tail()
        said = done.tail().splitlines()[-1]
        assert 'cannot get resource "leases"' in said
        assert "check the API server, CRDs and RBAC with `penstock doctor`" in said
        assert "another controller leads" not in said
