"""A log whose offsets are not all records: transactions leave markers in it, and what was aborted. The reader passes
them and comes to rest at the end of the log, never past an event that is not settled."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from agents.dispatch.view import lag
from app.local.kafka import EmbeddedKafka
from app.operations.group_offsets import read_group_offsets
from app.operations.lag import events_behind
from tests.integration.reading import LIMIT_S, Trigger, Worker, committed, fill, until, working

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]


class Transactions:
    """A real transactional producer."""

    def __init__(self, kafka: EmbeddedKafka, topic: str) -> None:
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": f"tx-{uuid.uuid4().hex}"})
        self._producer.init_transactions(LIMIT_S)

    def make(self, records: int, *, abort: bool = False) -> None:
        """One transaction of this many records; it leaves one marker more."""
        self.begin(records)
        self._producer.abort_transaction(LIMIT_S) if abort else self._producer.commit_transaction(LIMIT_S)

    def begin(self, records: int) -> None:
        """One that stays open."""
        self._producer.begin_transaction()
        for _ in range(records):
            self._producer.produce(self._topic, b"x" * 100, b"k")
        assert self._producer.flush(LIMIT_S) == 0

    def commit(self) -> None:
        """The open one."""
        self._producer.commit_transaction(LIMIT_S)


def _behind(kafka: EmbeddedKafka, trigger: Trigger) -> int:
    """What `penstock lag` says."""
    offsets = read_group_offsets({"bootstrap.servers": kafka.bootstrap}, [trigger.subscription])
    return sum(map(events_behind, offsets))


async def _until_at(trigger: Trigger, mark: int, end: int, worker: Worker) -> None:
    """Until all that can be settled is, the reader knows where the log ends, and its end is committed."""

    def is_there() -> bool:
        return [(p.tracker.committable, p.log_end_offset) for p in trigger.member.partitions] == [(mark, end)]

    await until(f"it is at {mark} of {end}", is_there, worker)
    await asyncio.wait_for(trigger.member.commits.barrier(trigger.member.states[0]), LIMIT_S)


async def test_lag_comes_to_rest_at_zero_behind_markers_and_aborted_records(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    transactions = await asyncio.to_thread(Transactions, kafka, topic)
    trigger = Trigger(kafka, topic, "t")
    async with working(kafka) as worker:
        worker.add(trigger)
        end = 0
        for records, abort in ((3, False), (1, False), (4, True), (0, False), (1, True), (2, False), (2, True)):
            await asyncio.to_thread(transactions.make, records, abort=abort)
            end += records + bool(records)  # a transaction without a record leaves nothing
            await _until_at(trigger, end, end, worker)
            assert committed(kafka, trigger) == end
            assert await asyncio.to_thread(_behind, kafka, trigger) == 0
            assert lag(trigger.member.partitions) == 0
    assert [offset for _, offset in trigger.got] == [0, 1, 2, 4, 13, 14]


async def test_end_of_the_log_is_not_passed_over_an_unsettled_event(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    transactions = await asyncio.to_thread(Transactions, kafka, topic)
    first, second = Trigger(kafka, topic, "t", "", lambda delivery: delivery.offset != 2), Trigger(kafka, topic, "t")
    async with working(kafka) as worker:
        worker.add(first)
        await asyncio.to_thread(transactions.make, 4)
        await _until_at(first, 2, 5, worker)
        await until("the end is read", lambda: first.member.states[0].tracker.fetched == 5, worker)
        assert committed(kafka, first) == 2
        assert lag(first.member.partitions) == 3
        first.member.states[0].tracker.settle(2)
        first.member.commits.schedule_commit()
        await _until_at(first, 5, 5, worker)
        assert committed(kafka, first) == 5
    fill(kafka, topic, ["a"])
    async with working(kafka) as worker:
        worker.add(second)
        await until("what is new is read", lambda: len(second.got) == 1, worker)
    assert second.got == [(0, 5)]


async def test_open_transaction_is_waited_for(kafka: EmbeddedKafka, make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    transactions = await asyncio.to_thread(Transactions, kafka, topic)
    trigger = Trigger(kafka, topic, "t")
    async with working(kafka) as worker:
        worker.add(trigger)
        await asyncio.to_thread(transactions.make, 1)
        await _until_at(trigger, 2, 2, worker)
        await asyncio.to_thread(transactions.begin, 2)
        await _until_at(trigger, 2, 4, worker)
        assert committed(kafka, trigger) == 2
        assert await asyncio.to_thread(_behind, kafka, trigger) == lag(trigger.member.partitions) == 2
        await asyncio.to_thread(transactions.commit)
        await _until_at(trigger, 5, 5, worker)
    assert [offset for _, offset in trigger.got] == [0, 2, 3]
