"""Beside Knative eventing's own controller and webhook, with the roles and the example of the manifests.

What the controller writes passes their admission, and what they write is served: channels of the default kind, flows,
Brokers with defaults, and no Subscription that is gone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from app.local.kafka import EmbeddedKafka
from controller.plan.actions import GroupState
from knative.contract.kafka_names import subscription_group
from knative.resources.channels import KAFKA_CHANNEL
from knative.resources.reset_offsets import RESET_OFFSET
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tests.cluster.knative_core import NAMESPACE as CORE
from tests.cluster.knative_core import KnativeCore
from tests.support.groups import group_states
from tests.support.kube.audit import compare, service_account
from tests.support.kube.client import path_of, resource_path
from tests.support.kube.cluster import KubeCluster
from tests.support.kube.kustomize import MANIFESTS
from tests.support.kube.manifests import CONTROLLER, NAMESPACE, documents, rbac
from tests.support.kube.penstock import CHANNELS, EVENTING, MESSAGING, PenstockInCluster
from tests.support.processes import Failed
from tests.support.scripted_server import Step
from tests.support.subscriber import ScriptedSubscriber, says
from tests.system.sending import post

pytestmark = [pytest.mark.cluster, pytest.mark.integration]

FLOWS = "flows.knative.dev/v1"
DEFAULTS = MANIFESTS / "examples" / "knative-defaults" / "config-maps.yaml"

Json = dict[str, Any]


class BesideCore(PenstockInCluster):
    """An installation for all namespaces, whose controller is the account of the manifests."""

    def __init__(self, kube: KubeCluster, core: KnativeCore, bootstrap: str, folder: Path) -> None:
        # Subscriptions, Brokers and Triggers are Knative's.
        super().__init__(kube, bootstrap, folder, (KAFKA_CHANNEL, RESET_OFFSET))
        self._core = core
        self.settings = {
            "PENSTOCK_RESOURCES": "cluster:",
            "PENSTOCK_KUBECONFIG": str(kube.service_account_kubeconfig(NAMESPACE, CONTROLLER)),
            "PENSTOCK_SUBSCRIPTIONS": "auto",
        }

    def find(self, api: str, kind: str, name: str) -> Json:
        """An object of any kind; {} if there is none."""
        metadata = {"namespace": self.namespace, "name": name}
        answer = self.kube.admin.get(path_of({"apiVersion": api, "kind": kind, "metadata": metadata}))
        return dict(answer.body) if answer.ok else {}

    def wait_address(self, api: str, kind: str, name: str) -> str:
        """The path of its address, once it is ready."""

        def ready() -> bool:
            resource = self.find(api, kind, name)
            status = resource.get("status", {})
            conditions = {condition["type"]: condition["status"] for condition in status.get("conditions", ())}
            is_present = status.get("observedGeneration") == resource.get("metadata", {}).get("generation")
            return is_present and conditions.get("Ready") == "True"

        try:
            self.wait(f"{kind} {name} is ready", ready)
        except Failed as error:
            status = json.dumps(self.find(api, kind, name).get("status"), indent=1)
            raise Failed(f"{error}\n{status}\n{self._core.tail()}") from error
        url: str = self.find(api, kind, name)["status"].get("address", {}).get("url", "")
        return urlsplit(url).path


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, kafka: EmbeddedKafka) -> Iterator[tuple[BesideCore, int]]:
    """An installation, and the port of its ingress."""
    folder = tmp_path_factory.mktemp("core")
    with KubeCluster(folder / "kube") as kube:
        kube.create_namespace(NAMESPACE)
        for document in rbac():
            kube.admin.create(document).must()
        with KnativeCore(kube, folder, *_defaults()) as core:
            penstock = BesideCore(kube, core, kafka.bootstrap, folder)
            with penstock.worker("ingress") as ingress:
                address = {"PENSTOCK_INGRESS_URL": f"http://127.0.0.1:{ingress.port}"}
                with penstock.worker(env=penstock.settings | address) as worker:
                    worker.wait_ready()
                    ingress.wait_ready()
                    yield penstock, ingress.port
                    assert worker.terminate() == 0, worker.tail()
                assert ingress.terminate() == 0, ingress.tail()


def _defaults() -> list[Json]:
    """Those of the example, for a Kafka of one broker."""
    config_maps = documents(DEFAULTS)
    (topics,) = (
        config_map["data"] for config_map in config_maps if config_map["metadata"]["name"] == "kafka-broker-config"
    )
    topics["default.topic.replication.factor"] = "1"
    topics["default.topic.partitions"] = "3"
    return config_maps


@pytest.fixture(scope="module")
def subscriber() -> Iterator[ScriptedSubscriber]:
    with ScriptedSubscriber() as it:
        yield it


def replies(type_: str) -> Step:
    attributes = {"specversion": "1.0", "id": "reply", "source": "/step", "type": type_}
    return says(200, b"{}", "content-type: application/json", *(f"ce-{key}: {attributes[key]}" for key in attributes))


def types(subscriber: ScriptedSubscriber, path: str) -> list[str]:
    return [request.attributes["type"] for request in subscriber.requests(path)]


def test_channel_of_the_default_kind(running: tuple[BesideCore, int], subscriber: ScriptedSubscriber) -> None:
    penstock, port = running
    penstock.create(MESSAGING, "Channel", "orders", {})
    channel = {"apiVersion": MESSAGING, "kind": "Channel", "name": "orders"}
    uri = subscriber.script("/orders", says(202))
    penstock.create(MESSAGING, "Subscription", "billing", {"channel": channel, "subscriber": {"uri": uri}})
    target = penstock.wait_address(MESSAGING, "Channel", "orders")
    penstock.wait_address(MESSAGING, "Subscription", "billing")
    (owner,) = penstock.read("KafkaChannel", "orders")["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("Channel", "orders")
    assert target == f"/channels/{penstock.namespace}/orders"
    assert post(port, target, "one").status == 202
    penstock.wait("the subscriber has it", lambda: types(subscriber, "/orders") == ["test.event"])
    metadata = {"namespace": penstock.namespace, "name": "orders"}
    penstock.kube.admin.delete(path_of({**channel, "metadata": metadata})).must()
    penstock.wait_gone("KafkaChannel", "orders")
    requests = penstock.kube.requests()
    assert compare((), requests, service_account(NAMESPACE, CONTROLLER)).refused == ()
    of_core = compare((), requests, service_account(CORE, "eventing-controller")).refused
    assert [str(request) for request in of_core if request.resource.startswith("kafkachannels")] == []


def test_sequence_goes_through_its_steps_in_their_order(
    running: tuple[BesideCore, int], subscriber: ScriptedSubscriber
) -> None:
    penstock, port = running
    steps = [{"uri": subscriber.script(f"/step-{name}", replies(name))} for name in ("one", "two", "three")]
    reply = {"uri": subscriber.script("/sequence-end", says(202))}
    penstock.create(FLOWS, "Sequence", "steps", {"steps": steps, "reply": reply})
    target = penstock.wait_address(FLOWS, "Sequence", "steps")
    for number in range(3):
        assert post(port, target, str(number)).status == 202
    expected = {"/step-one": "test.event", "/step-two": "one", "/step-three": "two", "/sequence-end": "three"}
    penstock.wait("all are at the end", lambda: len(subscriber.requests("/sequence-end")) == 3)
    assert {path: types(subscriber, path) for path in expected} == {path: [expected[path]] * 3 for path in expected}


def test_parallel_takes_the_branches_whose_filter_replies(
    running: tuple[BesideCore, int], subscriber: ScriptedSubscriber
) -> None:
    penstock, port = running
    paths = ("/filter-yes", "/branch-yes", "/filter-no", "/branch-no")
    yes, branch, no, not_taken = (
        {"uri": subscriber.script(path, says(202) if path == "/filter-no" else replies(path[1:]))} for path in paths
    )
    branches = [{"filter": yes, "subscriber": branch}, {"filter": no, "subscriber": not_taken}]
    reply = {"uri": subscriber.script("/parallel-end", says(202))}
    penstock.create(FLOWS, "Parallel", "branches", {"branches": branches, "reply": reply})
    target = penstock.wait_address(FLOWS, "Parallel", "branches")
    assert post(port, target, "one").status == 202
    penstock.wait("both filters have it", lambda: all(map(subscriber.requests, ("/filter-yes", "/filter-no"))))
    penstock.wait("the end has it", lambda: types(subscriber, "/parallel-end") == ["branch-yes"])
    assert types(subscriber, "/branch-yes") == ["filter-yes"]
    assert subscriber.requests("/branch-no") == []


def test_broker_with_the_defaults_of_the_cluster(
    running: tuple[BesideCore, int], subscriber: ScriptedSubscriber
) -> None:
    """Its Trigger goes to a Sequence, whose address the controller may read by Knative's roles."""
    penstock, port = running
    created = penstock.create(EVENTING, "Broker", "default", {})
    assert created["metadata"]["annotations"]["eventing.knative.dev/broker.class"] == "Kafka"
    assert (created["spec"]["config"]["name"], created["spec"]["delivery"]["retry"]) == ("kafka-broker-config", 10)
    steps = [{"uri": subscriber.script("/from-broker", says(202))}]
    penstock.create(FLOWS, "Sequence", "from-broker", {"steps": steps})
    ref = {"apiVersion": FLOWS, "kind": "Sequence", "name": "from-broker"}
    trigger = penstock.create(EVENTING, "Trigger", "all", {"broker": "default", "subscriber": {"ref": ref}})
    assert trigger["metadata"]["labels"] == {"eventing.knative.dev/broker": "default"}
    target = penstock.wait_address(EVENTING, "Broker", "default")
    penstock.wait_address(EVENTING, "Trigger", "all")
    assert post(port, target, "one").status == 202
    penstock.wait("the step has it", lambda: types(subscriber, "/from-broker") == ["test.event"])
    refused = penstock.kube.admin.merge(penstock.path("Trigger", "all"), {"spec": {"broker": "another"}})
    assert refused.message.startswith('admission webhook "validation.webhook.eventing.knative.dev" denied the request')


def test_event_types_are_admitted_and_ready(running: tuple[BesideCore, int], subscriber: ScriptedSubscriber) -> None:
    """Those that the features ask for pass the webhook, and Knative's controller finds what they belong to."""
    penstock, port = running
    admin = penstock.kube.admin
    penstock.create(EVENTING, "Broker", "typed", {})
    target = penstock.wait_address(EVENTING, "Broker", "typed")
    features = path_of(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": CORE, "name": "config-features"}}
    )
    path = resource_path("eventing.knative.dev/v1beta3", "eventtypes", namespace=penstock.namespace)

    def listed() -> list[Json]:
        """Other channels of this installation have theirs."""
        items = admin.get(path).must()["items"]
        return [item for item in items if item["spec"]["reference"]["name"] == "typed"]

    def is_ready() -> bool:
        assert post(port, target, "typed").status == 202  # types are found while events come
        conditions = {
            condition["type"]: condition["status"]
            for event_type in listed()
            for condition in event_type.get("status", {}).get("conditions", ())
        }
        return conditions.get("Ready") == "True"

    admin.merge(features, {"data": {"eventtype-auto-create": "enabled"}}).must()
    try:
        penstock.wait("its EventType is ready", is_ready)
        (event_type,) = listed()
        assert event_type["spec"]["reference"]["kind"] == "Broker"
        attributes = {attribute["name"]: attribute.get("value") for attribute in event_type["spec"]["attributes"]}
        assert attributes["type"] == "test.event"
    finally:
        admin.merge(features, {"data": {"eventtype-auto-create": "disabled"}}).must()


def test_subscription_that_is_gone_is_not_served(
    running: tuple[BesideCore, int], subscriber: ScriptedSubscriber, kafka: EmbeddedKafka
) -> None:
    """Many come and go while their channel is reconciled, of which Knative may leave entries behind."""
    penstock, port = running
    penstock.channel("busy")
    live: dict[str, str] = {}
    gone: dict[str, str] = {}

    def entries() -> list[Json]:
        return list(penstock.read("KafkaChannel", "busy")["spec"].get("subscribers", ()))

    for turn in range(3):
        for number in range(8):
            name = f"busy-{turn}-{number}"
            uri = subscriber.script(f"/{name}", says(202))
            live[name] = penstock.subscription(name, "busy", {"uri": uri})["metadata"]["uid"]
        if turn:
            penstock.wait("core has written some", lambda: len(entries()) > 4)
        for name in list(live)[::2]:
            gone[name] = live.pop(name)
            penstock.delete("Subscription", name)
    penstock.wait_gone("Subscription", *gone)

    def served() -> dict[str, str]:
        rows = penstock.read("KafkaChannel", "busy").get("status", {}).get("subscribers", ())
        return {row["uid"]: row["ready"] for row in rows}

    penstock.wait("those that are there are ready", lambda: served() == dict.fromkeys(live.values(), "True"))
    for name in live:
        penstock.wait_address(MESSAGING, "Subscription", name)
    target = penstock.wait_address(CHANNELS, "KafkaChannel", "busy")
    before = {name: len(subscriber.requests(f"/{name}")) for name in gone}
    assert post(port, target, "last").status == 202
    penstock.wait("all have it", lambda: all(subscriber.requests(f"/{name}") for name in live))
    assert {name: len(subscriber.requests(f"/{name}")) for name in gone} == before
    ghosts = {entry["uid"] for entry in entries()} & set(gone.values())
    reason = "GhostSubscribers" if ghosts else ""
    assert penstock.condition("KafkaChannel", "busy", "SubscribersReady") == ("True", reason)
    admin = KafkaAdmin({"bootstrap.servers": kafka.bootstrap}, 60.0)
    groups = [subscription_group(uid) for uid in gone.values()]
    penstock.wait("their groups are gone", lambda: set(group_states(admin, groups).values()) == {GroupState.ABSENT})
