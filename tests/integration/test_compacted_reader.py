"""The reader of compacted topics on a real Kafka that goes away and comes back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from app.local.kafka import EmbeddedKafka
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.compacted_topic import FAILED_MAX, CompactedReader, Record
from tests.support.processes import free_port

pytestmark = pytest.mark.integration

LIMIT_S = 180.0


def _store(bootstrap: str, topic: str, key: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 60_000})
    producer.produce(topic, b"x", key)
    assert producer.flush(180) == 0


@pytest.mark.asyncio
async def test_reader_that_cannot_ask_goes_on_with_a_new_client_where_it_was(tmp_path: Path) -> None:
    jars = Path(__file__).parents[2] / ".penstock" / "kafka"
    applied: list[Record] = []
    crashes: list[BaseException] = []
    caught_up = asyncio.Event()
    broker = EmbeddedKafka(tmp_path / "kafka", port=free_port(), heap="384m", jars_root=jars)
    with broker:
        kafka = {"bootstrap.servers": broker.bootstrap, "log_level": 0}
        topic = "compacted"
        await asyncio.to_thread(_create, broker.bootstrap, topic)
        await asyncio.to_thread(_store, broker.bootstrap, topic, "before")
        reader = CompactedReader(topic, kafka, apply=applied.extend, caught_up=caught_up.set, crashed=crashes.append)
        reader.start()
        try:
            await asyncio.wait_for(caught_up.wait(), LIMIT_S)
            assert await reader.read_to_end(LIMIT_S)
            await asyncio.to_thread(broker.stop)
            for _ in range(FAILED_MAX):
                assert not await reader.read_to_end(LIMIT_S)
            await asyncio.to_thread(broker.start)
            await asyncio.to_thread(_store, broker.bootstrap, topic, "after")
            async with asyncio.timeout(LIMIT_S):
                while not await reader.read_to_end(LIMIT_S):
                    await asyncio.sleep(0.2)
        finally:
            await reader.stop()
    assert [record.key for record in applied] == [b"before", b"after"]
    assert crashes == []


@pytest.mark.asyncio
async def test_reader_from_the_end_gets_only_what_comes_later(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(2)
    for partition in (0, 1):
        await asyncio.to_thread(_store, kafka.bootstrap, topic, f"before {partition}")
    applied: list[Record] = []
    crashes: list[BaseException] = []
    caught_up = asyncio.Event()
    reader = CompactedReader(
        topic,
        {"bootstrap.servers": kafka.bootstrap},
        apply=applied.extend,
        caught_up=caught_up.set,
        crashed=crashes.append,
        from_end=True,
    )
    reader.start()
    try:
        await asyncio.wait_for(caught_up.wait(), LIMIT_S)
        await asyncio.to_thread(_store, kafka.bootstrap, topic, "after")
        assert await reader.read_to_end(LIMIT_S)
    finally:
        await reader.stop()
    assert [record.key for record in applied] == [b"after"]
    assert crashes == []


def _create(bootstrap: str, topic: str) -> None:
    KafkaAdmin({"bootstrap.servers": bootstrap}, 180.0).create_topic(topic, 1, 1, {"cleanup.policy": "compact"})


@pytest.mark.asyncio
async def test_topic_that_never_rests_is_caught_up_with(kafka: EmbeddedKafka, make_topic: Callable[..., str]) -> None:
    """Records that come faster than a fetch waits leave no fetch empty, and only an empty one reports an end."""
    topic = make_topic(1)
    caught_up, stop = asyncio.Event(), threading.Event()

    def store() -> None:
        producer = Producer({"bootstrap.servers": kafka.bootstrap})
        while not stop.is_set():
            producer.produce(topic, b"x", b"k")
            producer.flush(10)
            stop.wait(0.05)

    storing = asyncio.create_task(asyncio.to_thread(store))
    crashes: list[BaseException] = []
    settings = {"bootstrap.servers": kafka.bootstrap, "fetch.wait.max.ms": 5000, "log_level": 0}
    reader = CompactedReader(topic, settings, apply=lambda _: None, caught_up=caught_up.set, crashed=crashes.append)
    try:
        await asyncio.sleep(0.5)
        reader.start()
        await asyncio.wait_for(caught_up.wait(), LIMIT_S)
    finally:
        stop.set()
        await storing
        await reader.stop()
    assert crashes == []
