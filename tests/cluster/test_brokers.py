"""Brokers and Triggers in a real cluster: filters, a ConfigMap that comes late, Brokers of other implementations."""

from __future__ import annotations

import json

import pytest

from tests.support.kube.penstock import EVENTING, KAFKA_CLASS, PenstockInCluster
from tests.support.subscriber import ScriptedSubscriber, says
from tests.system.sending import post

pytestmark = [pytest.mark.cluster, pytest.mark.integration]

CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "name": "config"}


def trigger(penstock: PenstockInCluster, name: str, broker: str, uri: str, **filters: str) -> None:
    spec = {"broker": broker, "subscriber": {"uri": uri}, "filter": {"attributes": filters}}
    penstock.create(EVENTING, "Trigger", name, spec, annotations={"penstock.dev/start": "earliest"})


def test_broker_waits_for_its_config_map_and_triggers_filter(penstock: PenstockInCluster) -> None:
    address = {"PENSTOCK_INGRESS_URL": "http://broker-ingress.test"}
    with ScriptedSubscriber() as subscriber, penstock.worker(env=address) as worker:
        worker.wait_ready()
        penstock.create(EVENTING, "Broker", "default", {"config": CONFIG}, annotations=KAFKA_CLASS)
        waits = ("False", "ConfigMapNotFound")
        penstock.wait("it names the ConfigMap", lambda: penstock.condition("Broker", "default") == waits)
        data = {"default.topic.partitions": "3", "default.topic.replication.factor": "1"}
        document = {"apiVersion": "v1", "kind": "ConfigMap", "data": data}
        metadata = {"namespace": penstock.namespace, "name": "config"}
        penstock.kube.admin.create({**document, "metadata": metadata}).must()
        trigger(penstock, "mine", "default", subscriber.script("/mine", says(202)), type="mine")
        trigger(penstock, "others", "default", subscriber.script("/others", says(202)), type="other")
        penstock.wait_ready("Trigger", "mine", "others")
        target = f"/{penstock.namespace}/default"
        headers = [("ce-specversion", "1.0"), ("ce-source", "/test"), ("ce-type", "mine")]
        penstock.wait("the event is stored", lambda: post(worker.port, target, "one", headers=headers).status == 202)
        penstock.wait("the one that wants it has it", lambda: bool(subscriber.requests("/mine")))
        assert subscriber.requests("/others") == []
        penstock.delete("Broker", "default")
        penstock.wait_gone("Broker", "default")  # after its topics
        assert penstock.condition("Trigger", "mine")[0] != "True", "that was said before"
        penstock.delete("Trigger", "mine")
        penstock.delete("Trigger", "others")
        penstock.wait_gone("Trigger", "mine", "others")
        assert worker.terminate() == 0, worker.tail()


def test_trigger_that_names_a_dependency_is_served_and_not_ready(penstock: PenstockInCluster) -> None:
    """The dependency is not checked: the Trigger is served, and does not say that it is ready."""
    address = {"PENSTOCK_INGRESS_URL": "http://broker-ingress.test"}
    with ScriptedSubscriber() as subscriber, penstock.worker(env=address) as worker:
        worker.wait_ready()
        penstock.create(EVENTING, "Broker", "default", {}, annotations=KAFKA_CLASS)
        ping = {"apiVersion": "sources.knative.dev/v1", "kind": "PingSource", "name": "ping"}
        annotations = {"penstock.dev/start": "earliest", "knative.dev/dependency": json.dumps(ping)}
        spec = {"broker": "default", "subscriber": {"uri": subscriber.script("/waits", says(202))}}
        penstock.create(EVENTING, "Trigger", "waits", spec, annotations=annotations)
        unknown = ("Unknown", "DependencyNotChecked")
        penstock.wait("it says so", lambda: penstock.condition("Trigger", "waits") == unknown)
        assert penstock.condition("Trigger", "waits", "DependencyReady") == unknown
        penstock.wait("it is served", lambda: penstock.condition("Trigger", "waits", "Subscribed") == ("True", ""))
        target = f"/{penstock.namespace}/default"
        penstock.wait("an event is stored", lambda: post(worker.port, target, "one").status == 202)
        penstock.wait("it is delivered all the same", lambda: bool(subscriber.requests("/waits")))
        removed = {"metadata": {"annotations": {"knative.dev/dependency": None}}}
        penstock.kube.admin.merge(penstock.path("Trigger", "waits"), removed).must()
        penstock.wait_ready("Trigger", "waits")
        assert penstock.condition("Trigger", "waits", "DependencyReady") == ("True", "")
        assert worker.terminate() == 0, worker.tail()


def test_brokers_of_other_implementations_are_left_alone(penstock: PenstockInCluster) -> None:
    other = {"eventing.knative.dev/broker.class": "MTChannelBasedBroker"}
    with penstock.worker("controller") as controller:
        penstock.create(EVENTING, "Broker", "theirs", {}, annotations=other)
        trigger(penstock, "of-theirs", "theirs", "http://127.0.0.1:9/")
        penstock.create(EVENTING, "Broker", "ours", {}, annotations=KAFKA_CLASS)
        penstock.wait(
            "ours is published", lambda: penstock.condition("Broker", "ours", "ContractPublished") == ("True", "")
        )
        theirs, of_theirs = penstock.read("Broker", "theirs"), penstock.read("Trigger", "of-theirs")
        assert [raw.get("status") for raw in (theirs, of_theirs)] == [None, None]
        assert "finalizers" not in theirs["metadata"]
        assert controller.terminate() == 0, controller.tail()
