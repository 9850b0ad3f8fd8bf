"""Brokers with their ConfigMaps, and Triggers, on a real Kafka: topics, start offsets, and what stays untouched."""

from __future__ import annotations

import asyncio
import time
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Producer

from app.local.kafka import EmbeddedKafka
from knative.contract import kafka_names
from knative.contract.records import WorkerState, WorkerStatus, WorkerSubscription
from knative.filters.dialects import Exact
from tables.status_parts import encode_status
from tests.integration.controller_fixture import ControllerFixture
from tests.integration.older_worker import OlderWorker

pytestmark = pytest.mark.integration

BROKER = """\
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata:
  name: main
  annotations: {{eventing.knative.dev/broker.class: Kafka{more}}}
spec: {{{spec}}}
"""
CONFIG = """\
apiVersion: v1
kind: ConfigMap
metadata: {{name: config}}
data:
  default.topic.partitions: "{partitions}"
  default.topic.replication.factor: "1"
  default.topic.config.retention.ms: "{retention_ms}"
  default.topic.config.min.cleanable.dirty.ratio: "0.250"
"""
TRIGGER = """\
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata:
  name: {name}
  annotations: {{penstock.dev/start: "{start}"}}
spec:
  broker: main
  filter: {{attributes: {{type: a}}}}
  filters: [{{exact: {{type: order.created}}}}]
  subscriber: {{uri: "http://127.0.0.1:9/"}}
"""
WITH_CONFIG = "config: {kind: ConfigMap, apiVersion: v1, name: config}"


@pytest.fixture
def plant(kafka: EmbeddedKafka, tmp_path: Path) -> ControllerFixture:
    return ControllerFixture(kafka.bootstrap, tmp_path, f"i{uuid.uuid4().hex[:8]}", "http://ingress.example")


def write(plant: ControllerFixture, name: str, text: str) -> None:
    (plant.folder / f"{name}.yaml").write_text(text, "utf-8")


@pytest.mark.asyncio
async def test_broker_with_its_config_map_from_files_to_ready_and_away(plant: ControllerFixture) -> None:
    write(plant, "trigger", TRIGGER.format(name="billing", start="latest"))
    async with plant:
        await plant.until(
            lambda: plant.condition("Trigger", "billing", "BrokerReady") == ("False", "BrokerNotFound"), "no broker"
        )
        write(plant, "broker", BROKER.format(more="", spec=WITH_CONFIG))
        await plant.until(lambda: plant.condition("Broker", "main") == ("False", "ConfigMapNotFound"), "no ConfigMap")
        assert plant.published("main") is None
        write(plant, "config", CONFIG.format(partitions=3, retention_ms=60_000))
        await plant.until(lambda: plant.published("billing") is not None, "the contract")
        broker, billing = plant.published("main"), plant.published("billing")
        assert (broker.kind, broker.partitions, broker.config_map) == ("Broker", 3, "default/config")
        assert broker.topic == f"{plant.config.instance}-b.default.main"
        assert (billing.kind, billing.channel_uid, billing.filter) == (
            "Trigger", broker.uid, Exact((("type", "order.created"),)),
        )  # fmt: skip
        topic, dlq = await plant.look(broker.topic), await plant.look(broker.dlq_topic)
        assert (topic.partitions, dlq.partitions) == (3, 3)
        assert topic.configs["retention.ms"] == "60000"
        assert topic.configs["max.message.bytes"] == str((1024 + 256) * 1024)
        assert float(topic.configs["min.cleanable.dirty.ratio"]) == 0.25
        assert dlq.configs["retention.ms"] == str(30 * 86_400_000)
        assert "min.cleanable.dirty.ratio" not in dlq.configs
        committed = await asyncio.to_thread(plant.offsets.committed, billing.group, broker.topic, range(3))
        assert committed == {0: 0, 1: 0, 2: 0}
        await plant.until(lambda: plant.condition("Broker", "main") == ("True", ""), "ready")
        assert plant.said("Broker", "main")["status"]["address"]["url"] == "http://ingress.example/default/main"
        served = WorkerSubscription(1, (0, 1, 2), WorkerState.RUNNING)
        word = encode_status(WorkerStatus("w", time.time(), "all", {billing.uid: served}))
        plant.producer.send(kafka_names.status_topic(plant.config.instance), word, b"w", [], lambda _: None)
        await plant.until(lambda: plant.condition("Trigger", "billing") == ("True", ""), "ready")

        write(plant, "config", CONFIG.format(partitions=4, retention_ms=70_000))
        await plant.until(lambda: bool(plant.published("billing").partitions == 4), "four partitions")
        assert (await plant.look(broker.topic)).configs["retention.ms"] == "70000"

        for name in ("broker", "config"):
            plant.remove(name)
        await plant.ask("main", "billing")
        await plant.until(lambda: plant.published("main") is None and plant.published("billing") is None, "tombstones")
        for gone in (broker.topic, broker.dlq_topic):
            await plant.gone(gone)
        await plant.until(
            lambda: plant.condition("Trigger", "billing", "BrokerReady") == ("False", "BrokerNotFound"), "no broker"
        )


@pytest.mark.asyncio
async def test_start_by_time_is_the_first_record_that_is_not_older(plant: ControllerFixture) -> None:
    write(plant, "broker", BROKER.format(more="", spec=WITH_CONFIG))
    write(plant, "config", CONFIG.format(partitions=3, retention_ms=-1))
    async with plant:
        await plant.until(lambda: plant.published("main") is not None, "the broker")
        topic = plant.published("main").topic
        producer = Producer(dict(plant.config.kafka))
        noon_ms = 1_767_268_800_000  # 2026-01-01T12:00:00Z
        for partition, offsets_s in ((0, (-20, -10, 0, 10)), (1, (-20, -10))):
            for offset_s in offsets_s:
                producer.produce(topic, b"x", partition=partition, timestamp=noon_ms + 1000 * offset_s)
        assert await asyncio.to_thread(producer.flush, 10) == 0
        starts = {
            "noon": ("2026-01-01T12:00:00Z", {0: 2, 1: 2, 2: 0}),
            "zone": ("2026-01-01T13:00:00+01:00", {0: 2, 1: 2, 2: 0}),
            "after": ("2026-01-01T12:00:00.001Z", {0: 3, 1: 2, 2: 0}),
            "before": ("2026-01-01T11:59:45Z", {0: 1, 1: 1, 2: 0}),
            "first": ("1960-01-01T00:00:00Z", {0: 0, 1: 0, 2: 0}),
            "future": ("2100-01-01T00:00:00Z", {0: 4, 1: 2, 2: 0}),
        }
        for name, (start, _) in starts.items():
            write(plant, name, TRIGGER.format(name=name, start=start))
        await plant.until(lambda: all(plant.published(name) is not None for name in starts), "all triggers")
        committed = {
            name: await asyncio.to_thread(plant.offsets.committed, plant.published(name).group, topic, range(3))
            for name in starts
        }
        assert committed == {name: offsets for name, (_, offsets) in starts.items()}


@pytest.mark.asyncio
async def test_external_topic_is_neither_created_nor_changed_nor_deleted(plant: ControllerFixture) -> None:
    theirs = f"theirs-{plant.config.instance}"
    annotation = f", kafka.eventing.knative.dev/external.topic: {theirs}"
    write(plant, "broker", BROKER.format(more=annotation, spec=WITH_CONFIG))
    write(plant, "config", CONFIG.format(partitions=5, retention_ms=60_000))
    write(plant, "trigger", TRIGGER.format(name="billing", start="earliest"))
    async with plant:
        await plant.until(lambda: plant.condition("Broker", "main") == ("False", "TopicNotFound"), "no topic")
        assert await plant.look(theirs) is None
        await asyncio.to_thread(plant.admin.create_topic, theirs, 2, 1, {"retention.ms": "123456"})
        before = await plant.there(theirs)
        await plant.until(lambda: plant.published("billing") is not None, "the contract")
        broker = plant.published("main")
        assert (broker.topic, broker.partitions, broker.external) == (theirs, 2, True)
        assert (await plant.look(f"{theirs}.dlq")).partitions == 2
        assert await plant.look(theirs) == before
        for name in ("trigger", "broker"):
            plant.remove(name)
        await plant.ask("billing", "main")
        await plant.until(lambda: plant.published("main") is None, "the tombstone")
        await plant.gone(f"{theirs}.dlq")
        assert await plant.look(theirs) == before


@pytest.mark.asyncio
async def test_worker_that_does_not_know_filters_serves_what_has_none(plant: ControllerFixture) -> None:
    """The others' Triggers name the worker and what it does not know; without a filter they are served."""
    write(plant, "broker", BROKER.format(more="", spec=WITH_CONFIG))
    write(plant, "config", CONFIG.format(partitions=2, retention_ms=-1))
    filtered = TRIGGER.format(name="filtered", start="latest")
    plain = "".join(line for line in filtered.splitlines(keepends=True) if "filter" not in line or "name:" in line)
    write(plant, "filtered", filtered)
    write(plant, "plain", plain.replace("name: filtered", "name: plain"))
    bootstrap = str(plant.config.kafka["bootstrap.servers"])
    async with plant:
        with OlderWorker(bootstrap, plant.folder.parent, plant.config.instance, "filter", {}) as older:
            await plant.until(lambda: plant.condition("Trigger", "plain") == ("True", ""), "the plain one")
            await plant.until(
                lambda: plant.condition("Trigger", "filtered", "Subscribed") == ("False", "WorkerTooOld"), "the reason"
            )
            assert plant.condition("Trigger", "filtered") == ("False", "WorkerTooOld")
            (subscribed,) = [
                condition["message"]
                for condition in plant.said("Trigger", "filtered")["status"]["conditions"]
                if condition["type"] == "Subscribed"
            ]
            assert "needs filter, which this version does not know; update this worker" in subscribed
            code, body = await asyncio.to_thread(older.readiness)
            assert (code, b"Trigger default/trigger:filtered needs filter" in body) == (200, True), body
            uid = plant.published("filtered").uid
            assert {worker.subscriptions[uid].partitions for worker in plant.status.workers.values()} == {()}
            write(plant, "filtered", plain)
            await plant.until(lambda: plant.condition("Trigger", "filtered") == ("True", ""), "without a filter")
            assert plant.published("filtered").uid == uid
            assert await asyncio.to_thread(older.terminate) == 0, older.tail()
