"""Deletion while Kafka is away: the object waits with its finalizer, and nothing is forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.local.kafka import EmbeddedKafka
from controller.kafka.topics import observe_topics
from controller.source.cluster.objects import FINALIZER
from tables.kafka.admin import KafkaAdmin
from tests.support.kube.cluster import KubeCluster
from tests.support.kube.penstock import PenstockInCluster
from tests.support.processes import REPOSITORY, free_port

pytestmark = [pytest.mark.cluster, pytest.mark.integration]


def test_a_channel_that_is_deleted_while_kafka_is_away(kube: KubeCluster, tmp_path: Path) -> None:
    port, folder = free_port(), tmp_path / "kafka"

    def broker() -> EmbeddedKafka:
        return EmbeddedKafka(folder, port=port, heap="384m", jars_root=REPOSITORY / ".penstock" / "kafka")

    with broker() as kafka:
        penstock = PenstockInCluster(kube, kafka.bootstrap, tmp_path)
        with penstock.worker("controller") as controller:
            penstock.channel("orders")
            penstock.channel("kept")
            published = ("True", "")
            penstock.wait(
                "both are published",
                lambda: (
                    {penstock.condition("KafkaChannel", name, "ContractPublished") for name in ("orders", "kept")}
                    == {published}
                ),
            )
            topic = penstock.read("KafkaChannel", "orders")["status"]["annotations"]["penstock.dev/topic"]
            kept = penstock.read("KafkaChannel", "kept")["status"]["annotations"]["penstock.dev/topic"]
            assert controller.terminate() == 0, controller.tail()
    penstock.delete("KafkaChannel", "orders")
    found = penstock.read("KafkaChannel", "orders")["metadata"]
    assert found["deletionTimestamp"]
    assert found["finalizers"] == [FINALIZER]
    with broker() as kafka, penstock.worker("controller") as controller:
        penstock.wait_gone("KafkaChannel", "orders")
        admin = KafkaAdmin({"bootstrap.servers": kafka.bootstrap}, 60.0)
        assert set(observe_topics(admin, [topic, kept])) == {kept}
        assert penstock.condition("KafkaChannel", "kept", "ContractPublished") == published
        assert controller.terminate() == 0, controller.tail()
