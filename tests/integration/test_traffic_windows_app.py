"""The second Faust app on a real Kafka: it sums up, may fail and comes back, and is no burden when Kafka is away."""

from __future__ import annotations

import asyncio
import gc
import time
import uuid
from collections import Counter
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from app.local.kafka import EmbeddedKafka
from app.worker.traffic import windows_app
from app.worker.traffic.windows_app import Topics, TrafficWindows, TrafficWindowsConfig, make_topics
from knative.traffic.counts import Counts
from knative.traffic.delta import Delta, encode, key_of
from tables.faust_support import end_app, offset_control_transport
from tables.traffic_windows.faust_table import OnePartition, TrafficConfig
from tables.traffic_windows.view import TrafficRows
from tests.support.processes import free_port

LIMIT_S = 180.0


def delta(number: int, events: int) -> Delta:
    return Delta("w", number, int(time.time()), "accepted", "ns", "ch", counts=Counts(events))


def _accepted(rows: TrafficRows) -> int:
    return sum(window.counts.events for line in rows.lines(10, 90) for window in line.windows.values())


async def until(reported: Counter[str], **counts: int) -> None:
    async with asyncio.timeout(LIMIT_S):
        while any(reported[name] < count for name, count in counts.items()):
            await asyncio.sleep(0.05)


@pytest.mark.asyncio
async def test_app_sums_up_and_goes_on_after_a_failure(kafka: EmbeddedKafka) -> None:
    """What is read again after a failure, and what was sent twice, counts once; junk is passed over."""
    client = {"bootstrap.servers": kafka.bootstrap}
    traffic = TrafficConfig(f"i{uuid.uuid4().hex[:8]}", flush_s=0.2)
    config = TrafficWindowsConfig(client, "w", session_timeout_s=6.0, traffic=traffic)
    await asyncio.to_thread(make_topics, config)
    reported = Counter[str]()
    windows, rows = (
        TrafficWindows(config, Topics(config), lambda what: reported.update([what])),
        TrafficRows(traffic.changelog, client, 900, 3600),
    )
    producer = Producer({**client, "compression.type": "lz4"})

    def send(*values: bytes) -> None:
        for value in values:
            producer.produce(traffic.topic, value, key_of(delta(0, 0)))
        producer.flush(LIMIT_S)

    async def accepted(events: int) -> None:
        async with asyncio.timeout(LIMIT_S):
            while _accepted(rows) != events:
                await asyncio.sleep(0.05)

    windows.start()
    rows.start()
    try:
        send(encode(delta(1, 5)), b"junk", encode(delta(2, 7)), encode(delta(2, 7)))
        await accepted(12)
        assert windows.app is not None
        await windows.app.crash(RuntimeError("told to fail"))
        send(encode(delta(3, 1)), encode(delta(4, 1)))
        await until(reported, started=2, failed=1)
        await accepted(14)
        send(encode(delta(5, 6)))
        await accepted(20)
    finally:
        await asyncio.gather(windows.stop(), rows.stop())
    assert reported == {"started": 2, "failed": 1}


@pytest.mark.asyncio
async def test_nothing_is_lost_when_a_start_is_slow(kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a table to recover, Faust fetches deltas before it empties its queues; an agent that is busy finds them
    empty."""
    consumer: Any = offset_control_transport().Consumer
    seek, stored = consumer.seek_to_committed, OnePartition.stored

    async def slow_seek(self: Any) -> Any:
        offset = await seek(self)
        await asyncio.sleep(1.5)
        return offset

    async def slow_stored(self: Any, limit_s: float) -> None:
        await stored(self, limit_s)
        await asyncio.sleep(1.0)

    client = {"bootstrap.servers": kafka.bootstrap}
    traffic = TrafficConfig(f"i{uuid.uuid4().hex[:8]}", flush_s=0.2)
    config = TrafficWindowsConfig(client, "w", session_timeout_s=6.0, traffic=traffic)
    await asyncio.to_thread(make_topics, config)
    rows = TrafficRows(traffic.changelog, client, 900, 3600)
    producer = Producer(client)

    async def count(first: int, number: int) -> None:
        """An app counts deltas that come one by one."""
        windows = TrafficWindows(config, Topics(config), lambda _: None)
        windows.start()
        try:
            for at_s in range(first, first + number):
                producer.produce(traffic.topic, encode(delta(at_s, 1)), key_of(delta(0, 0)))
                await asyncio.to_thread(producer.flush, LIMIT_S)
                await asyncio.sleep(0.05)
            async with asyncio.timeout(LIMIT_S):
                while _accepted(rows) != first + number - 1:
                    await asyncio.sleep(0.05)
        finally:
            await windows.stop()

    rows.start()
    try:
        await count(1, 3)
        monkeypatch.setattr(consumer, "seek_to_committed", slow_seek)
        monkeypatch.setattr(OnePartition, "stored", slow_stored)
        await count(4, 100)
    finally:
        await rows.stop()


@pytest.mark.asyncio
async def test_stop_while_rows_are_not_stored_is_not_a_crash(
    kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As when Kafka goes away, and parts of Faust do not stop in time: the agent is cancelled in its wait."""
    waits = asyncio.Event()

    async def never_ends(*_: object) -> None:
        waits.set()
        await asyncio.sleep(LIMIT_S)

    monkeypatch.setattr(OnePartition, "stored", never_ends)
    monkeypatch.setattr(windows_app, "end_app", lambda app, _, part_limit_s: end_app(app, 0.0, part_limit_s))
    client = {"bootstrap.servers": kafka.bootstrap}
    traffic = TrafficConfig(f"i{uuid.uuid4().hex[:8]}", flush_s=0.2)
    config = TrafficWindowsConfig(client, "w", session_timeout_s=6.0, traffic=traffic)
    await asyncio.to_thread(make_topics, config)
    windows = TrafficWindows(config, Topics(config), lambda _: None)
    windows.start()
    try:
        producer = Producer(client)
        producer.produce(traffic.topic, encode(delta(1, 1)), key_of(delta(0, 0)))
        await asyncio.to_thread(producer.flush, LIMIT_S)
        async with asyncio.timeout(LIMIT_S):
            await waits.wait()
        monkeypatch.setattr(windows.app, "on_stop", never_ends)
    finally:
        await windows.stop()
    await asyncio.sleep(0)
    left = [task for task in asyncio.all_tasks() if "_execute_actor" in repr(task)]
    assert left == []
    assert [record.getMessage() for record in caplog.records if "rash" in record.getMessage()] == []


@pytest.mark.asyncio
async def test_rows_rejected_by_kafka_are_written_again_and_failures_are_reported(kafka: EmbeddedKafka) -> None:
    """A batch whose rows are refused is not acked: it is read again, until they are stored."""
    client = {"bootstrap.servers": kafka.bootstrap}
    traffic = TrafficConfig(f"i{uuid.uuid4().hex[:8]}", flush_s=0.2)
    config = TrafficWindowsConfig(client, "w", session_timeout_s=6.0, traffic=traffic)
    await asyncio.to_thread(make_topics, config)
    reported, unheard = Counter[str](), list[dict[str, object]]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
    windows = TrafficWindows(config, Topics(config), lambda what: reported.update([what]))
    rows = TrafficRows(traffic.changelog, client, 900, 3600)
    producer = Producer(client)
    windows.start()
    rows.start()
    try:
        await until(reported, started=1)
        await asyncio.to_thread(set_record_bytes_max, kafka, traffic.changelog, 100)
        producer.produce(traffic.topic, encode(delta(1, 5)), key_of(delta(0, 0)))
        producer.flush(LIMIT_S)
        await until(reported, failed=1)
        await asyncio.to_thread(set_record_bytes_max, kafka, traffic.changelog, 1_000_000)
        async with asyncio.timeout(LIMIT_S):
            while _accepted(rows) != 5:
                await asyncio.sleep(0.05)
    finally:
        await asyncio.gather(windows.stop(), rows.stop())
    gc.collect()  # a future reports an exception that was not retrieved when it is deleted
    assert unheard == []


def set_record_bytes_max(kafka: EmbeddedKafka, topic: str, size: int) -> None:
    """Changes `max.message.bytes` of a topic."""
    entry = ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource("topic", topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(180)


@pytest.mark.asyncio
async def test_app_without_kafka_only_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.worker.traffic.windows_app.ANSWER_S", 0.5)
    client = {"bootstrap.servers": f"127.0.0.1:{free_port()}"}
    config, reported = TrafficWindowsConfig(client, "w"), Counter[str]()
    windows = TrafficWindows(config, Topics(config), lambda what: reported.update([what]))

    windows.start()
    await until(reported, failed=1)
    async with asyncio.timeout(5):
        await windows.stop()

    assert reported["started"] == 0
    assert "traffic windows are not updated now; the app that sums them up is started again" in "".join(
        capsys.readouterr()
    )
