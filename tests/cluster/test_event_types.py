"""What channels and Brokers have received, as `kn eventtype list` shows it, if Knative's features ask for that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.local.kafka import EmbeddedKafka
from tests.support.kube.client import KubeClient, resource_path
from tests.support.kube.cluster import KubeCluster
from tests.support.kube.event_types import Listed, event_types, features
from tests.support.kube.penstock import EVENTING, KAFKA_CLASS, PenstockInCluster
from tests.support.processes import Worker
from tests.system.sending import exchange, request

pytestmark = [pytest.mark.cluster, pytest.mark.integration]


@pytest.fixture
def penstock(kube: KubeCluster, kafka: EmbeddedKafka, tmp_path: Path) -> PenstockInCluster:
    return PenstockInCluster(kube, kafka.bootstrap, tmp_path)


def said(found: list[dict[str, Any]]) -> set[tuple[str, str, str, str]]:
    """(type, source, kind and name of where it comes to)."""
    specs = [one["spec"] for one in found]
    return {(one["type"], one["source"], one["reference"]["kind"], one["reference"]["name"]) for one in specs}


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
        wanted = {("order.created", "/shop", "KafkaChannel", "orders"), ("order.paid", "/shop", "Broker", "main")}

        def both() -> bool:
            send(worker, channel, "order.created", count)
            send(worker, broker, "order.paid", count)
            return said(listed(penstock.namespace)) == wanted

        penstock.wait("events are stored", lambda: send(worker, channel, "order.created", count))
        assert listed(penstock.namespace) == [], "nobody has asked for it"
        admin.apply(features("enabled")).must()
        penstock.wait("both types", both)
        uids = {kind: penstock.read(kind, name)["metadata"]["uid"] for _, _, kind, name in wanted}
        for one in listed(penstock.namespace):
            (owner,) = one["metadata"]["ownerReferences"]
            assert owner["uid"] == uids[one["spec"]["reference"]["kind"]]
        # As kubectl and kn print them.
        path = resource_path("eventing.knative.dev/v1beta2", "eventtypes", namespace=penstock.namespace)
        rows = {(row["Type"], row["Source"], row["Reference Name"]) for row in admin.table(path)}
        assert rows == {("order.created", "/shop", "orders"), ("order.paid", "/shop", "main")}

        admin.apply(features("disabled")).must()
        off = "EventTypes are not created any more"
        penstock.wait("it has ended", lambda: off in worker.log.read_text(errors="replace"))
        penstock.wait("an event is stored", lambda: send(worker, broker, "order.late", count))
        penstock.delete("KafkaChannel", "orders")
        penstock.wait_gone("KafkaChannel", "orders")
        left = {("order.paid", "/shop", "Broker", "main")}
        penstock.wait("an EventType goes with its channel", lambda: said(listed(penstock.namespace)) == left)
        assert worker.terminate() == 0, worker.tail()
