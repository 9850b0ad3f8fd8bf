"""What objects refer to comes late, goes, and comes again: conditions say what is missing, and events arrive."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.kube.client import path_of, resource_path
from tests.support.kube.manifests import OPEN_SCHEMA, definition, rbac
from tests.support.kube.penstock import CHANNELS, EVENTING, KAFKA_CLASS, PenstockInCluster
from tests.support.subscriber import ScriptedSubscriber, says
from tests.system.sending import post

pytestmark = [pytest.mark.cluster, pytest.mark.integration]

FLOWS = "flows.knative.dev/v1"
#: Knative's kind, as far as it matters here: that its status has an address.
SEQUENCE = definition(FLOWS, "Sequence", OPEN_SCHEMA, subresources={"status": {}})
SINK = {"ref": {"apiVersion": CHANNELS, "kind": "KafkaChannel", "name": "failed"}}
MISSING = ("False", "DeadLetterSinkNotResolved")
RESOLVED = ("True", "")


def test_dead_letter_sink_that_comes_late(penstock: PenstockInCluster) -> None:
    """A channel is the sink of a channel, of a Subscription and of a Trigger. In the end dead letters go there."""
    with ScriptedSubscriber() as subscriber, penstock.worker("ingress") as ingress:
        address = {"PENSTOCK_INGRESS_URL": f"http://127.0.0.1:{ingress.port}"}
        with penstock.worker(env=address) as worker:
            worker.wait_ready()
            ingress.wait_ready()
            _sinks_come_late(penstock, subscriber, ingress.port)
            assert worker.terminate() == 0, worker.tail()
        assert ingress.terminate() == 0, ingress.tail()


def _sinks_come_late(penstock: PenstockInCluster, subscriber: ScriptedSubscriber, port: int) -> None:
    fails = {"uri": subscriber.script("/fails", says(400))}
    delivery = {"retry": 0, "deadLetterSink": SINK}
    penstock.channel("orders", delivery=delivery)
    penstock.subscription("billing", "orders", fails, delivery=delivery)
    penstock.create(EVENTING, "Broker", "main", {}, annotations=KAFKA_CLASS)
    spec: dict[str, Any] = {"broker": "main", "subscriber": fails, "delivery": delivery}
    penstock.create(EVENTING, "Trigger", "mine", spec)
    where = {
        "KafkaChannel": ("orders", "DeadLetterSinkResolved"),
        "Subscription": ("billing", "ReferencesResolved"),
        "Trigger": ("mine", "DeadLetterSinkResolved"),
    }
    for kind, (name, type_) in where.items():
        penstock.wait(f"{kind} says it", lambda k=kind, n=name, t=type_: penstock.condition(k, n, t) == MISSING)  # type: ignore[misc]
        assert penstock.condition(kind, name) == MISSING
        assert "deadLetterSinkUri" not in penstock.read(kind, name)["status"]
    penstock.channel("failed")
    penstock.subscription("dead", "failed", {"uri": subscriber.script("/dead", says(202))})
    for kind, (name, type_) in where.items():
        penstock.wait(f"{kind} is resolved", lambda k=kind, n=name, t=type_: penstock.condition(k, n, t) == RESOLVED)  # type: ignore[misc]
    penstock.wait_ready("Subscription", "billing", "dead")
    target = f"/channels/{penstock.namespace}/orders"
    penstock.wait("an event is stored", lambda: post(port, target, "one").status == 202)
    penstock.wait("the sink has it", lambda: bool(subscriber.requests("/dead")))
    assert [request.attributes["id"] for request in subscriber.requests("/dead")] == ["one"]


def test_broker_of_another_class_is_where_events_go(penstock: PenstockInCluster) -> None:
    """Its own controller says where it is, and later something else."""
    to = {"ref": {"apiVersion": EVENTING, "kind": "Broker", "name": "theirs"}}

    def say(url: str) -> None:
        path = f"{penstock.path('Broker', 'theirs')}/status"
        penstock.kube.admin.merge(path, {"status": {"address": {"url": url}}}).must()

    def resolved() -> tuple[str, str]:
        return penstock.condition("Subscription", "billing", "ReferencesResolved")

    def subscriber() -> object:
        return penstock.read("Subscription", "billing")["status"].get("physicalSubscription", {}).get("subscriberUri")

    with ScriptedSubscriber() as theirs, penstock.worker() as worker:
        worker.wait_ready()
        penstock.channel("orders")
        penstock.subscription("billing", "orders", to)
        missing = ("False", "SubscriberNotResolved")
        penstock.wait("it is missing", lambda: resolved() == missing)
        another = {"eventing.knative.dev/broker.class": "MTChannelBasedBroker"}
        penstock.create(EVENTING, "Broker", "theirs", {}, annotations=another)
        penstock.wait("it has no address", lambda: resolved() == ("Unknown", "SubscriberNotResolved"))
        say(theirs.script("/ns/theirs", says(202)))
        penstock.wait_ready("Subscription", "billing")
        target = f"/channels/{penstock.namespace}/orders"
        penstock.wait("an event is stored", lambda: post(worker.port, target, "one").status == 202)
        penstock.wait("the Broker has it", lambda: bool(theirs.requests("/ns/theirs")))
        moved = theirs.script("/moved", says(202))
        say(moved)
        penstock.wait("the Subscription follows it", lambda: subscriber() == moved)
        assert post(worker.port, target, "two").status == 202
        penstock.wait("the new address has the next one", lambda: bool(theirs.requests("/moved")))
        broker = penstock.read("Broker", "theirs")
        assert "finalizers" not in broker["metadata"]
        assert "conditions" not in broker["status"], "its status is its own controller's"
        assert worker.terminate() == 0, worker.tail()


def test_ref_to_a_kind_of_somebody_else(penstock: PenstockInCluster) -> None:
    """The controller may read it once its owner has labelled a role for that, as Knative does."""
    admin = penstock.kube.admin
    admin.apply(SEQUENCE).must()
    listed = resource_path(FLOWS, "sequences")
    penstock.wait("the kind is served", lambda: admin.get(listed).ok)
    (aggregated,) = (candidate for candidate in rbac() if "aggregationRule" in candidate)
    name = {"name": f"{penstock.name}-addressables"}
    admin.create({**aggregated, "metadata": name}).must()
    subject = {"kind": "ServiceAccount", "namespace": penstock.namespace, "name": "controller"}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", **name}
    api = "rbac.authorization.k8s.io/v1"
    binding = {"apiVersion": api, "kind": "ClusterRoleBinding", "metadata": name}
    admin.create({**binding, "subjects": [subject], "roleRef": ref}).must()
    to = {"ref": {"apiVersion": FLOWS, "kind": "Sequence", "name": "billing"}}

    def resolved() -> tuple[str, str]:
        return penstock.condition("Subscription", "billing", "ReferencesResolved")

    with penstock.worker("controller") as controller:
        penstock.channel("orders")
        penstock.subscription("billing", "orders", to)
        refused = ("False", "SubscriberNotResolved")
        penstock.wait("it may not be read", lambda: resolved() == refused)
        said = penstock.read("Subscription", "billing")["status"]["conditions"]
        assert "grant the verbs list and watch on sequences.flows.knative.dev" in str(said)
        rule = {"apiGroups": ["flows.knative.dev"], "resources": ["sequences"], "verbs": ["get", "list", "watch"]}
        labels = {"duck.knative.dev/addressable": "true"}
        role = {"name": f"{penstock.name}-flows", "labels": labels}
        admin.create({"apiVersion": api, "kind": "ClusterRole", "metadata": role, "rules": [rule]}).must()
        path = path_of(penstock.create(FLOWS, "Sequence", "billing", {"steps": []}))
        penstock.wait("it waits for the address", lambda: resolved() == ("Unknown", "SubscriberNotResolved"))
        url = f"http://billing-kn-sequence-0-kn-channel.{penstock.namespace}.svc.cluster.local"
        admin.merge(f"{path}/status", {"status": {"address": {"url": url}}}).must()
        penstock.wait("it is resolved", lambda: resolved() == RESOLVED)
        status = penstock.read("Subscription", "billing")["status"]
        assert status["physicalSubscription"]["subscriberUri"] == url
        assert controller.terminate() == 0, controller.tail()
