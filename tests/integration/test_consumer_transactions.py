"""A log whose offsets are not all records: transactions leave markers in it, and what was aborted. The feed reads over
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
from tests.integration.consumers import LIMIT_S, Settler, committed, feeding, fill, subscription

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]


class Transactions:
    """A real transactional producer."""

    def __init__(self, kafka: EmbeddedKafka, topic: str) -> None:
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": f"tx-{uuid.uuid4().hex}"})
        self._producer.init_transactions(LIMIT_S)

    def make(self, records: int, *, abort: bool = False) -> None:
        """One transaction of so many records; it leaves one marker more."""
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


def _behind(kafka: EmbeddedKafka, topic: str) -> int:
    """What `penstock lag` says."""
    return sum(map(events_behind, read_group_offsets({"bootstrap.servers": kafka.bootstrap}, [subscription(topic)])))


async def _until_at(owner: Settler, mark: int, end: int) -> None:
    """Until all that can be settled is, and the feed knows where the log ends."""
    await owner.until(lambda: [(p.tracker.committable, p.log_end_offset) for p in owner.partitions] == [(mark, end)])


async def test_lag_comes_to_rest_at_zero_behind_markers_and_aborted_records(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    transactions = await asyncio.to_thread(Transactions, kafka, topic)
    owner = Settler()
    async with feeding(kafka, topic, owner) as consumer:
        end = 0
        for records, abort in ((3, False), (1, False), (4, True), (0, False), (1, True), (2, False), (2, True)):
            await asyncio.to_thread(transactions.make, records, abort=abort)
            end += records + bool(records)  # a transaction without a record leaves nothing
            await _until_at(owner, end, end)
            await asyncio.wait_for(consumer.commits.barrier(owner.partitions[0]), LIMIT_S)
            assert committed(kafka, topic)[0] == end
            assert await asyncio.to_thread(_behind, kafka, topic) == 0
            assert lag(consumer.partitions) == 0
    assert [offset for _, offset in owner.got] == [0, 1, 2, 4, 13, 14]


async def test_the_end_of_the_log_is_not_passed_over_an_unsettled_event(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    transactions = await asyncio.to_thread(Transactions, kafka, topic)
    owner = Settler(lambda record: record.offset != 2)
    async with feeding(kafka, topic, owner) as consumer:
        await asyncio.to_thread(transactions.make, 4)
        await _until_at(owner, 2, 5)
        await owner.until(lambda: owner.partitions[0].tracker.fetched == 5)
        partition = owner.partitions[0]
        await asyncio.wait_for(consumer.commits.barrier(partition), LIMIT_S)
        assert committed(kafka, topic)[0] == 2
        assert lag(consumer.partitions) == 3
        partition.tracker.settle(2)
        consumer.commits.schedule_commit()
        await asyncio.wait_for(consumer.commits.barrier(partition), LIMIT_S)
        assert committed(kafka, topic)[0] == 5
    second = Settler()
    fill(kafka, topic, 1)
    async with feeding(kafka, topic, second):
        await second.until(lambda: len(second.got) == 1)
    assert second.got == [(0, 5)]


async def test_an_open_transaction_is_waited_for(kafka: EmbeddedKafka, make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    transactions = await asyncio.to_thread(Transactions, kafka, topic)
    owner = Settler()
    async with feeding(kafka, topic, owner) as consumer:
        await asyncio.to_thread(transactions.make, 1)
        await _until_at(owner, 2, 2)
        await asyncio.to_thread(transactions.begin, 2)
        await _until_at(owner, 2, 4)
        await asyncio.wait_for(consumer.commits.barrier(owner.partitions[0]), LIMIT_S)
        assert committed(kafka, topic)[0] == 2
        assert await asyncio.to_thread(_behind, kafka, topic) == lag(consumer.partitions) == 2
        await asyncio.to_thread(transactions.commit)
        await _until_at(owner, 5, 5)
    assert [offset for _, offset in owner.got] == [0, 2, 3]
