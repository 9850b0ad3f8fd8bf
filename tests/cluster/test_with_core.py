"""Beside Knative's core, which writes the subscribers of a channel: as it does it, ghosts included."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from app.local.kafka import EmbeddedKafka
from controller.plan.actions import GroupState
from controller.source.cluster.objects import FINALIZER
from knative.contract.kafka_names import subscription_group
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tests.cluster.faulty_api import Faults, FaultyApi
from tests.support.groups import group_states
from tests.support.kube.client import path_of
from tests.support.kube.cluster import KubeCluster
from tests.support.kube.manifests import definition
from tests.support.kube.penstock import CHANNELS, MESSAGING, RESETS, PenstockInCluster
from tests.support.subscriber import ScriptedSubscriber, says
from tests.system.sending import post

pytestmark = [pytest.mark.cluster, pytest.mark.integration]

#: Core's kind, as far as it matters here: that it is there.
CHANNEL_KIND = definition("messaging.knative.dev/v1", "Channel", {"type": "object"})


def entry(uid: str, name: str, uri: str, generation: int = 1) -> dict[str, Any]:
    return {"uid": uid, "name": name, "generation": generation, "subscriberUri": uri}


def write(penstock: PenstockInCluster, *entries: dict[str, Any]) -> None:
    """As core does it: a merge patch of the whole array."""
    penstock.kube.admin.merge(penstock.path("KafkaChannel", "orders"), {"spec": {"subscribers": list(entries)}}).must()


def test_subscribers_are_what_core_wrote_without_ghosts(penstock: PenstockInCluster) -> None:
    with ScriptedSubscriber() as subscriber, penstock.worker(env={"PENSTOCK_SUBSCRIPTIONS": "core"}) as worker:
        worker.wait_ready()
        penstock.channel("orders")
        uri = subscriber.script("/billing", says(202))
        made = penstock.subscription("billing", "orders", {"uri": uri})
        uid = made["metadata"]["uid"]
        ghost = entry("00000000-0000-4000-8000-000000000000", "gone", subscriber.script("/gone", says(202)))
        write(penstock, entry(uid, "billing", uri), ghost)
        named = ("True", "GhostSubscribers")
        penstock.wait("the ghost is named", lambda: penstock.condition("KafkaChannel", "orders") == named)
        status = penstock.read("KafkaChannel", "orders")["status"]
        assert [(row["uid"], row["ready"]) for row in status["subscribers"]] == [(uid, "True")]
        (said,) = (
            condition["message"] for condition in status["conditions"] if condition["type"] == "SubscribersReady"
        )
        assert "gone (00000000-0000-4000-8000-000000000000)" in said
        target = f"/channels/{penstock.namespace}/orders"
        penstock.wait("an event is stored", lambda: post(worker.port, target, "one").status == 202)
        penstock.wait("the subscriber has it", lambda: bool(subscriber.requests("/billing")))

        moved = subscriber.script("/moved", says(202))
        write(penstock, entry(uid, "billing", moved, 2))
        second = [{"uid": uid, "observedGeneration": 2, "ready": "True"}]
        penstock.wait(
            "the second generation is ready",
            lambda: penstock.read("KafkaChannel", "orders")["status"]["subscribers"] == second,
        )
        assert penstock.condition("KafkaChannel", "orders") == ("True", "")
        assert post(worker.port, target, "two").status == 202
        penstock.wait("the new address has it", lambda: bool(subscriber.requests("/moved")))

        write(penstock)
        penstock.wait("nobody is left", lambda: "subscribers" not in penstock.read("KafkaChannel", "orders")["status"])
        subscription = penstock.read("Subscription", "billing")
        assert "status" not in subscription, "it is core's"
        assert "finalizers" not in subscription["metadata"]
        assert subscriber.requests("/gone") == []
        penstock.delete("KafkaChannel", "orders")
        penstock.wait_gone("KafkaChannel", "orders")
        assert worker.terminate() == 0, worker.tail()


def test_channel_says_which_channelable_it_is(penstock: PenstockInCluster) -> None:
    """Core reads it before it subscribes. A new channel has it, and one that has lost it, as after an upgrade."""
    mark = "messaging.knative.dev/subscribable"

    def annotations() -> dict[str, str]:
        return dict(penstock.read("KafkaChannel", "orders")["metadata"].get("annotations", {}))

    with penstock.worker("controller") as controller:
        penstock.create(CHANNELS, "KafkaChannel", "orders", {}, annotations={"example.com/team": "shop"})
        penstock.wait("it says so", lambda: annotations() == {mark: "v1", "example.com/team": "shop"})
        penstock.wait("it is published", lambda: penstock.is_published("orders"))
        penstock.kube.admin.merge(penstock.path("KafkaChannel", "orders"), {"metadata": {"annotations": {mark: None}}})
        penstock.wait("it says so again", lambda: annotations() == {mark: "v1", "example.com/team": "shop"})
        assert penstock.condition("KafkaChannel", "orders", "ContractPublished") == ("True", ""), "it is no new spec"
        assert controller.terminate() == 0, controller.tail()


def test_core_takes_over_the_subscriptions_of_a_controller_that_resolved_them(
    penstock: PenstockInCluster, kafka: EmbeddedKafka
) -> None:
    """None loses its group because core comes later, and none keeps our finalizer."""
    uri = "http://127.0.0.1:9/"
    penstock.channel("orders")
    penstock.channel("other")
    uids = {}
    with penstock.worker("controller") as controller:
        for name, channel in (("billing", "orders"), ("audit", "orders"), ("stays", "orders"), ("moot", "other")):
            uids[name] = penstock.subscription(name, channel, {"uri": uri})["metadata"]["uid"]
        penstock.wait(
            "all are added",
            lambda: {penstock.condition("Subscription", name, "AddedToChannel") for name in uids} == {("True", "")},
        )
        assert controller.terminate() == 0, controller.tail()
    groups = {name: subscription_group(uid) for name, uid in uids.items()}
    admin = KafkaAdmin({"bootstrap.servers": kafka.bootstrap}, 60.0)

    def present() -> set[str]:
        states = group_states(admin, list(groups.values()))
        return {name for name, group in groups.items() if states[group] is not GroupState.ABSENT}

    def finalized(name: str) -> bool:
        return FINALIZER in penstock.read("Subscription", name)["metadata"].get("finalizers", [])

    penstock.delete("Subscription", "moot")
    with penstock.worker("controller", {"PENSTOCK_SUBSCRIPTIONS": "core"}) as controller:
        penstock.wait_gone("Subscription", "moot")
        assert present() == {"billing", "audit", "stays"}, "core has not added them yet"
        assert [finalized(name) for name in ("billing", "audit", "stays")] == [True] * 3
        write(penstock, entry(uids["billing"], "billing", uri), entry(uids["audit"], "audit", uri))
        penstock.wait("core has two", lambda: not finalized("billing") and not finalized("audit"))
        assert present() == {"billing", "audit", "stays"}
        penstock.delete("Subscription", "billing")
        penstock.wait_gone("Subscription", "billing")  # its entry is a ghost now
        penstock.wait("its group is gone", lambda: present() == {"audit", "stays"})
        write(penstock)
        penstock.wait("the group of an entry goes with it", lambda: present() == {"stays"})
        penstock.delete("Subscription", "stays")
        penstock.wait_gone("Subscription", "stays")
        assert present() == set()
        assert controller.terminate() == 0, controller.tail()


def test_reset_of_a_subscription_that_core_has_not_added_yet(penstock: PenstockInCluster) -> None:
    """Whichever of them was created first, and however long core takes."""
    with penstock.worker(env={"PENSTOCK_SUBSCRIPTIONS": "core"}) as worker:
        worker.wait_ready()
        penstock.channel("orders")
        penstock.wait_ready("KafkaChannel", "orders")
        for name in ("before", "after", "missing"):
            ref = {"apiVersion": MESSAGING, "kind": "Subscription", "name": name.replace("after", "before")}
            if name == "after":
                made = penstock.subscription("before", "orders", {"uri": "http://127.0.0.1:9/"})
            penstock.create(RESETS, "ResetOffset", name, {"offset": {"time": "earliest"}, "ref": ref})
        refused = ("False", "SubscriptionNotFound")
        penstock.wait("one is refused", lambda: penstock.condition("ResetOffset", "missing") == refused)
        for name in ("before", "after"):
            assert penstock.condition("ResetOffset", name) == ("Unknown", "Pending")
        write(penstock, entry(made["metadata"]["uid"], "before", "http://127.0.0.1:9/"))
        penstock.wait_ready("ResetOffset", "before", "after")
        assert worker.terminate() == 0, worker.tail()


def test_auto_finds_out_whether_core_is_there_and_says_so(penstock: PenstockInCluster) -> None:
    auto = {"PENSTOCK_SUBSCRIPTIONS": "auto"}
    penstock.channel("orders")
    with penstock.worker("controller", auto) as controller:
        penstock.subscription("billing", "orders", {"uri": "http://127.0.0.1:9/"})
        penstock.wait(
            "it is added, without core",
            lambda: penstock.condition("Subscription", "billing", "AddedToChannel") == ("True", ""),
        )
        assert "does not have Knative's kind Channel, so subscriptions are own" in controller.log.read_text()
        penstock.delete("Subscription", "billing")
        penstock.wait_gone("Subscription", "billing")
        assert controller.terminate() == 0, controller.tail()
    admin = penstock.kube.admin
    admin.apply(CHANNEL_KIND).must()
    try:
        api = "/apis/messaging.knative.dev/v1"
        penstock.wait(
            "the kind is served",
            lambda: "Channel" in {resource["kind"] for resource in admin.get(api).must()["resources"]},
        )
        with penstock.worker("controller", auto) as controller:
            says_so = "the cluster has Knative's kind Channel, so subscriptions are core"
            penstock.wait("it says so", lambda: says_so in controller.log.read_text(errors="replace"))
            penstock.subscription("audit", "orders", {"uri": "http://127.0.0.1:9/"})
            penstock.channel("more")
            penstock.wait(
                "a channel is published",
                lambda: penstock.condition("KafkaChannel", "more", "ContractPublished") == ("True", ""),
            )
            subscription = penstock.read("Subscription", "audit")
            assert "status" not in subscription
            assert "finalizers" not in subscription["metadata"]
            assert controller.terminate() == 0, controller.tail()
    finally:
        admin.delete(path_of(CHANNEL_KIND)).must()


def test_nothing_is_written_until_it_is_known_whether_core_is_there(
    penstock: PenstockInCluster, kube: KubeCluster
) -> None:
    secret = f"canary{uuid.uuid4().hex}"
    penstock.channel("orders", delivery={"deadLetterSink": {"uri": f"http://127.0.0.1:9/sink?{secret}"}})
    penstock.subscription("billing", "orders", {"uri": "http://127.0.0.1:9/"})
    with FaultyApi(kube) as api:
        api.faults = Faults(503, path="/apis/messaging.knative.dev/v1")
        with penstock.worker("controller", {"PENSTOCK_SUBSCRIPTIONS": "auto"}, api.port) as controller:
            penstock.wait("it has asked some times", lambda: api.hits > 10)
            for kind, name in (("KafkaChannel", "orders"), ("Subscription", "billing")):
                document = penstock.read(kind, name)
                assert "status" not in document
                assert "finalizers" not in document["metadata"]
            api.faults = Faults()
            penstock.wait("the channel is published", lambda: penstock.is_published("orders"))
            assert penstock.read("KafkaChannel", "orders")["status"]["deadLetterSinkUri"] == "http://127.0.0.1:9/sink"
            assert controller.terminate() == 0, controller.tail()


@pytest.mark.parametrize("mode", ["core", "own"])
def test_only_core_gets_the_query_of_a_dead_letter_sink(penstock: PenstockInCluster, mode: str) -> None:
    """It makes those of Subscriptions from the status of the channel. No other status has the query."""
    secret = f"canary{uuid.uuid4().hex}"
    sink = {"deadLetterSink": {"uri": f"http://127.0.0.1:9/sink?{secret}"}}
    with penstock.worker(env={"PENSTOCK_SUBSCRIPTIONS": mode, "PENSTOCK_LOG_LEVEL": "debug"}) as worker:
        worker.wait_ready()
        penstock.channel("orders", delivery=sink)
        penstock.subscription("billing", "orders", {"uri": f"http://127.0.0.1:9/billing?{secret}"})
        penstock.wait_ready("KafkaChannel", *(["orders"] if mode == "core" else []))
        if mode == "own":
            penstock.wait_ready("Subscription", "billing")
            status = penstock.read("Subscription", "billing")["status"]
            assert status["physicalSubscription"]["subscriberUri"] == "http://127.0.0.1:9/billing"
            assert secret not in str(status)
        uri = penstock.read("KafkaChannel", "orders")["status"]["deadLetterSinkUri"]
        assert uri == (f"http://127.0.0.1:9/sink?{secret}" if mode == "core" else "http://127.0.0.1:9/sink")
        assert secret not in worker.output() + worker.log.read_text(errors="replace")
        assert worker.terminate() == 0, worker.tail()
