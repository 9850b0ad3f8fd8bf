"""What channels and Brokers have received, as `kn eventtype list` shows it, if Knative's features ask for that."""

from __future__ import annotations

import time
from typing import Any

import pytest

from analytics.topology.build import build
from analytics.topology.engines.local import LocalEngine
from app.local.kafka import EmbeddedKafka
from app.operations.contract_snapshot import read_contract
from app.operations.topology.reading import TopologyQuery, read_inputs
from tests.cluster.event_types import Listed, event_types, features
from tests.support.kube.client import KubeClient, resource_path
from tests.support.kube.cluster import KubeCluster
from tests.support.kube.penstock import CHANNELS, EVENTING, KAFKA_CLASS, PenstockInCluster
from tests.support.processes import Worker
from tests.system.sending import exchange, request

pytestmark = [pytest.mark.cluster, pytest.mark.integration]


def said(documents: list[dict[str, Any]]) -> set[tuple[str, str, str, str]]:
    """(type, source, kind and name of where it comes to)."""
    specs = [event_type["spec"] for event_type in documents]
    return {(spec["type"], spec["source"], spec["reference"]["kind"], spec["reference"]["name"]) for spec in specs}


def send(worker: Worker, path: str, type_: str, count: list[int]) -> bool:
    """Whether the event was stored. Each call sends another one, as senders do: types are found while events come."""
    count.append(1)
    attributes = {"ce-specversion": "1.0", "ce-id": str(len(count)), "ce-source": "/shop", "ce-type": type_}
    return exchange(worker.port, request(path, list(attributes.items()), b"")).status == 202


def test_types_are_listed_while_the_features_ask_for_it(penstock: PenstockInCluster, kube: KubeCluster) -> None:
    with event_types(kube) as listed:
        _types_are_listed(penstock, kube.admin, listed)


def _types_are_listed(penstock: PenstockInCluster, admin: KubeClient, listed: Listed) -> None:
    count = list[int]()
    channel, broker = f"/channels/{penstock.namespace}/orders", f"/{penstock.namespace}/main"
    with penstock.worker(env={"PENSTOCK_INGRESS_URL": "http://ingress.test"}) as worker:
        worker.wait_ready()
        penstock.channel("orders")
        penstock.create(EVENTING, "Broker", "main", {}, annotations=KAFKA_CLASS)
        penstock.wait_ready("KafkaChannel", "orders")
        expected = {("order.created", "/shop", "KafkaChannel", "orders"), ("order.paid", "/shop", "Broker", "main")}

        def both() -> bool:
            send(worker, channel, "order.created", count)
            send(worker, broker, "order.paid", count)
            return said(listed(penstock.namespace)) == expected

        penstock.wait("events are stored", lambda: send(worker, channel, "order.created", count))
        assert listed(penstock.namespace) == [], "nobody has asked for it"
        admin.apply(features("enabled")).must()
        penstock.wait("both types", both)
        uids = {kind: penstock.read(kind, name)["metadata"]["uid"] for _, _, kind, name in expected}
        for event_type in listed(penstock.namespace):
            (owner,) = event_type["metadata"]["ownerReferences"]
            assert owner["uid"] == uids[event_type["spec"]["reference"]["kind"]]
        # As kubectl and kn print them.
        path = resource_path("eventing.knative.dev/v1beta2", "eventtypes", namespace=penstock.namespace)
        rows = {(row["Type"], row["Source"], row["Reference Name"]) for row in admin.table(path)}
        assert rows == {("order.created", "/shop", "orders"), ("order.paid", "/shop", "main")}

        admin.apply(features("disabled")).must()
        off = "EventTypes are no longer created"
        penstock.wait("it has ended", lambda: off in worker.log.read_text(errors="replace"))
        penstock.wait("an event is stored", lambda: send(worker, broker, "order.late", count))
        penstock.delete("KafkaChannel", "orders")
        penstock.wait_gone("KafkaChannel", "orders")
        left = {("order.paid", "/shop", "Broker", "main")}
        penstock.wait("an EventType goes with its channel", lambda: said(listed(penstock.namespace)) == left)
        assert worker.terminate() == 0, worker.tail()


def test_what_people_declare_is_compared_and_what_was_made_is_not(
    penstock: PenstockInCluster, kube: KubeCluster, kafka: EmbeddedKafka
) -> None:
    """With EventTypes made for all that comes, nothing would ever be undeclared."""
    client, count = {"bootstrap.servers": kafka.bootstrap}, list[int]()
    with event_types(kube, "enabled") as listed, penstock.worker() as worker:
        worker.wait_ready()
        penstock.channel("orders")
        penstock.wait_ready("KafkaChannel", "orders")
        reference = {"apiVersion": CHANNELS, "kind": "KafkaChannel", "name": "orders"}
        penstock.create("eventing.knative.dev/v1beta2", "EventType", "paid", {"type": "paid", "reference": reference})

        def declared() -> dict[str, tuple[str, ...]]:
            report = read_contract(client, penstock.name).report
            return {} if report is None else dict(report.event_types)

        def is_made() -> bool:
            send(worker, f"/channels/{penstock.namespace}/orders", "made", count)
            return {event_type["spec"]["type"] for event_type in listed(penstock.namespace)} == {"paid", "made"}

        penstock.wait("an EventType is made", is_made)
        penstock.wait("the declared one is reported", lambda: declared() == {f"{penstock.namespace}/orders": ("paid",)})

        def drift() -> set[str]:
            now = time.time()
            topology = build(read_inputs(TopologyQuery(client, penstock.name, now, now - 600, now)), LocalEngine())
            return {finding.id for finding in topology.findings if finding.rule in ("undeclared-type", "unseen-type")}

        expected = {"undeclared-type:type:made", f"unseen-type:channel:{penstock.namespace}/orders"}
        penstock.wait("both are found", lambda: drift() == expected)
        path = resource_path("eventing.knative.dev/v1beta2", "eventtypes", namespace=penstock.namespace, name="paid")
        kube.admin.delete(path).must()
        penstock.wait("nothing is declared any more", lambda: declared() == {})
        assert worker.terminate() == 0, worker.tail()
