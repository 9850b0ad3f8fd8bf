"""The reader of a topic when it must wait: bounded memory, paused partitions, and none that is forgotten."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, TopicPartition
from structlog.testing import capture_logs

from agents.config import DeliveryConfig
from agents.reader import membership, stall_detector
from agents.reader.log_end_offsets import LogEndOffsets
from app.local.kafka import EmbeddedKafka
from knative.contract.kafka_names import fanout_group
from tests.integration.reading import LIMIT_S, Trigger, fill, offsets_of, until, working
from tests.support.processes import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

NEVER_S = 10_000.0
BUFFER, FETCH = 400_000, 200_000  # so little memory that partitions are soon paused


async def test_memory_is_bounded_and_a_stuck_partition_does_not_hold_up_the_others(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(2)
    fill(kafka, topic, ["a"] * 20_000, 2, size=100)
    trigger = Trigger(kafka, topic, "t", "", lambda delivery: delivery.partition.number == 1)
    async with working(kafka, buffer_bytes=BUFFER, fetch_bytes=FETCH) as worker:
        worker.add(trigger)
        await until("the other one is read", lambda: len(offsets_of(trigger, 1)) == 10_000, worker)
        fetch = 1_000 * (1_024 + 200)
        assert 0 < trigger.member.states[0].held_bytes <= BUFFER + fetch


async def test_paused_partition_that_goes_away_and_comes_back_is_read_again(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    """The client keeps a pause over assignments, and would never fetch the partition again."""
    topic = make_topic(2)
    fill(kafka, topic, ["a"] * 20_000, 2, size=100)
    first, second = Trigger(kafka, topic, "t"), Trigger(kafka, topic, "t")
    first.slow = second.slow = True
    async with working(kafka, buffer_bytes=BUFFER, fetch_bytes=FETCH) as worker:
        worker.add(first)
        await until("both are paused", lambda: len(worker.reader(topic)._backpressure.budget.paused) == 2, worker)
        async with working(kafka, buffer_bytes=BUFFER, fetch_bytes=FETCH) as two:
            two.add(second)
            await until("each has one", lambda: len(first.member.states) == len(second.member.states) == 1, worker, two)
        first.slow = False
        first.settle()
        await until("it is back", lambda: first.opened_count == 3, worker)
        back = first.opened_states[2].number
        await until("all is read", lambda: len({*offsets_of(first, back)}) == 10_000, worker)


async def test_partition_that_goes_away_before_it_was_opened_is_read_when_it_comes_back(
    kafka: EmbeddedKafka, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was assigned paused, while others might still have committed what they knew."""
    monkeypatch.setattr(membership, "HANDOVER_S", NEVER_S)
    monkeypatch.setattr(stall_detector, "STALL_S", NEVER_S)
    topic = make_topic(2)
    first, second = Trigger(kafka, topic, "t"), Trigger(kafka, topic, "t")
    async with working(kafka) as worker:
        worker.add(first)
        reader = worker.reader(topic)
        reader._join_watch.expelled()
        await until("both wait", lambda: len(reader._deferred) == 2, worker)
        async with working(kafka) as two:
            two.add(second)
            await until("one has moved", lambda: len(reader._deferred) == len(second.member.states) == 1, worker, two)
            reader._join_watch.handover_until = 0.0
            await until("the other one is open", lambda: len(first.member.states) == 1, worker, two)
        await until("it is back", lambda: len(first.member.states) == 2, worker)
        fill(kafka, topic, ["a"] * 20, 2)
        await until("all is read", lambda: len(first.got) == 20, worker)


async def test_partition_without_fetches_is_assigned_again(
    kafka: EmbeddedKafka, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic()
    monkeypatch.setattr(stall_detector, "STALL_S", 0.5)
    fill(kafka, topic, ["a"] * 10)
    trigger, lost, refresh = Trigger(kafka, topic, "t"), threading.Event(), LogEndOffsets.refresh

    def lose(ends: LogEndOffsets, consumer: Consumer, *args: object) -> bool:  # in its own thread, behind our back
        if len(trigger.got) >= 10 and not lost.is_set():
            consumer.pause([TopicPartition(topic, 0)])
            lost.set()
        return refresh(ends, consumer, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(LogEndOffsets, "refresh", lose)
    async with working(kafka) as worker:
        worker.add(trigger)
        await until("it is paused", lost.is_set, worker)
        fill(kafka, topic, ["a"] * 10)
        # A fetch that was under way brings the new end, but only if the records are stored before it returns.
        worker.reader(topic).heads[0].log_end_offset = 20
        await until("all is read", lambda: len(trigger.got) == 20, worker)
    assert offsets_of(trigger) == list(range(20))


async def test_client_that_cannot_join_is_replaced(
    kafka: EmbeddedKafka, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member that does not answer the rebalance holds up all that join. A new client tries again, until it can."""
    topic = make_topic()
    monkeypatch.setattr(DeliveryConfig, "join_limit_s", 2.0)
    fill(kafka, topic, ["a"] * 10)
    names = {"group.id": fanout_group("penstock", topic), "group.instance.id": "silent"}
    silent = Consumer({"bootstrap.servers": kafka.bootstrap, **names, "enable.auto.commit": False,
                       "partition.assignment.strategy": "cooperative-sticky"})  # fmt: skip
    silent.subscribe([topic])
    wait_until("it is a member", lambda: not silent.poll(0.1) and bool(silent.assignment()), LIMIT_S)
    trigger = Trigger(kafka, topic, "t")
    with capture_logs() as logs:
        async with working(kafka) as worker:
            worker.add(trigger)
            replaced = "a new one replaces it"
            await until("it is replaced", lambda: any(replaced in line["event"] for line in logs), worker)
            assert trigger.got == []
            silent.unsubscribe()
            silent.close()
            await until("all is read", lambda: len(trigger.got) == 10, worker)
