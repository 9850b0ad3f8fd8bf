"""Kafka is away: conditions say so, objects that are deleted wait with their finalizers, and nothing is forgotten."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from app.local.kafka import EmbeddedKafka
from controller.kafka.topics import observe_topics
from controller.source.cluster.objects import FINALIZER
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tests.support.kube.cluster import KubeCluster
from tests.support.kube.penstock import Json, PenstockInCluster
from tests.support.processes import REPOSITORY, free_port, get

pytestmark = [pytest.mark.cluster, pytest.mark.integration]


def test_channel_that_is_deleted_while_kafka_is_away(kube: KubeCluster, tmp_path: Path) -> None:
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
    metadata = penstock.read("KafkaChannel", "orders")["metadata"]
    assert metadata["deletionTimestamp"]
    assert metadata["finalizers"] == [FINALIZER]
    before = {name: penstock.read("KafkaChannel", name) for name in ("orders", "kept")}
    away = ("Unknown", "KafkaUnavailable")
    with penstock.worker("controller", env={"PENSTOCK_KAFKA_WAIT_S": "1"}) as controller:
        penstock.channel("new")
        penstock.subscription("of-kept", "kept", {"uri": "http://127.0.0.1:9/"})
        for name in ("orders", "kept", "new"):
            penstock.wait(f"{name} says it", lambda name=name: penstock.condition("KafkaChannel", name) == away)  # type: ignore[misc]
        penstock.wait("so does a Subscription", lambda: penstock.condition("Subscription", "of-kept") == away)
        assert "Start a Kafka with `penstock kafka up`, or set PENSTOCK_KAFKA." in controller.log.read_text()
        assert (get(controller.port, "/healthz")[0], get(controller.port, "/readyz")[0]) == (200, 503)
        assert controller.running
        now = penstock.read("KafkaChannel", "kept")
        assert now["status"]["address"] == before["kept"]["status"]["address"]
        assert now["status"]["annotations"] == before["kept"]["status"]["annotations"]
        assert penstock.condition("KafkaChannel", "kept", "Addressable") == published
        for name, was in before.items():  # nothing but the status is changed
            assert _without_status(penstock.read("KafkaChannel", name)) == _without_status(was)
        assert "finalizers" not in penstock.read("KafkaChannel", "new")["metadata"]
        with broker() as kafka:  # the controller has waited for it
            penstock.wait_gone("KafkaChannel", "orders")
            penstock.wait(
                "both are published",
                lambda: (
                    {penstock.condition("KafkaChannel", name, "ContractPublished") for name in ("new", "kept")}
                    == {published}
                ),
            )
            controller.wait_ready()
            admin = KafkaAdmin({"bootstrap.servers": kafka.bootstrap}, 60.0)
            assert set(observe_topics(admin, [topic, kept])) == {kept}
            assert controller.terminate() == 0, controller.tail()


def _without_status(document: Json) -> Json:
    metadata = {k: v for k, v in document["metadata"].items() if k not in ("managedFields", "resourceVersion")}
    return {"metadata": metadata, "spec": document["spec"]}


def test_controller_that_waits_for_kafka_keeps_the_lease_from_nobody(kube: KubeCluster, tmp_path: Path) -> None:
    """One has the wrong address of Kafka; it can be stopped while it waits."""
    with EmbeddedKafka(tmp_path / "kafka", port=0, heap="384m", jars_root=REPOSITORY / ".penstock" / "kafka") as kafka:
        penstock = PenstockInCluster(kube, kafka.bootstrap, tmp_path)
        wrong = {"PENSTOCK_KAFKA": f"127.0.0.1:{free_port()}", "PENSTOCK_KAFKA_WAIT_S": "1"}
        with penstock.worker("controller", env=wrong) as waiting:
            penstock.channel("orders")
            penstock.wait(
                "it says that Kafka is away",
                lambda: penstock.condition("KafkaChannel", "orders") == ("Unknown", "KafkaUnavailable"),
            )
            with penstock.worker("controller") as controller:
                penstock.wait("orders is published", lambda: penstock.is_published("orders"))
                penstock.channel("more")
                penstock.wait("more is published", lambda: penstock.is_published("more"))
                assert controller.terminate() == 0, controller.tail()
            assert waiting.terminate() == 0, waiting.tail()


def test_conditions_while_kafka_is_away_and_after_it(kube: KubeCluster, tmp_path: Path) -> None:
    port, folder = free_port(), tmp_path / "kafka"

    def broker() -> EmbeddedKafka:
        return EmbeddedKafka(folder, port=port, heap="384m", jars_root=REPOSITORY / ".penstock" / "kafka")

    away, names = ("Unknown", "KafkaUnavailable"), ("kept", "changed", "goes")
    with ExitStack() as running:
        with broker() as kafka:
            penstock = PenstockInCluster(kube, kafka.bootstrap, tmp_path)
            worker = running.enter_context(penstock.worker())
            worker.wait_ready()
            for name in names:
                penstock.channel(name)
            penstock.subscription("billing", "kept", {"uri": "http://127.0.0.1:9/"})
            penstock.wait_ready("KafkaChannel", *names)
            penstock.wait_ready("Subscription", "billing")
            address = penstock.read("KafkaChannel", "kept")["status"]["address"]
            admin = KafkaAdmin({"bootstrap.servers": kafka.bootstrap}, 60.0)
            before = observe_topics(admin, [penstock.topic("kept")])
        penstock.delete("KafkaChannel", "goes")
        penstock.kube.admin.merge(penstock.path("KafkaChannel", "changed"), {"spec": {"numPartitions": 3}}).must()
        penstock.channel("new")
        penstock.subscription("of-new", "new", {"uri": "http://127.0.0.1:9/"})
        for name in ("kept", "changed", "new", "goes"):
            penstock.wait(f"{name} says it", lambda name=name: penstock.condition("KafkaChannel", name) == away)  # type: ignore[misc]
        penstock.wait("so does its Subscription", lambda: penstock.condition("Subscription", "billing") == away)
        assert penstock.condition("Subscription", "of-new", "ChannelReady") == away
        penstock.channel("later")
        penstock.wait("a new one says it", lambda: penstock.condition("KafkaChannel", "later") == away)
        assert penstock.read("KafkaChannel", "kept")["status"]["address"] == address
        assert FINALIZER in penstock.read("KafkaChannel", "goes")["metadata"]["finalizers"]
        with broker():
            penstock.wait_ready("KafkaChannel", "kept", "changed", "new", "later")
            penstock.wait_ready("Subscription", "billing", "of-new")
            penstock.wait_gone("KafkaChannel", "goes")
            assert observe_topics(admin, [penstock.topic("kept"), penstock.topic("goes")]) == before
            assert observe_topics(admin, [penstock.topic("changed")])[penstock.topic("changed")].partitions == 3
            assert worker.terminate() == 0, worker.tail()
