"""The feed against a real Kafka: where it starts, what it commits, how it hands over, and what it does at the edges."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from agents.config import DeliveryConfig
from agents.consumer.consumer import SubscriptionConsumer
from agents.ordering.offset_metadata import OffsetMetadata, read
from agents.ordering.offset_tracker import OffsetTracker
from agents.ordering.partition import PartitionState
from app.local.kafka import EmbeddedKafka
from app.observability.metrics import Metrics
from tests.integration.consumers import (
    LIMIT_S,
    Settler,
    add_partitions,
    commit,
    committed,
    feeding,
    fill,
    subscription,
)

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]


async def test_it_starts_at_the_log_start_commits_and_goes_on_there(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(2)
    fill(kafka, topic, 100, 2)
    first = Settler()
    async with feeding(kafka, topic, first, 2):
        await first.until(lambda: len(first.got) == 100)
    assert [committed(kafka, topic, p)[0] for p in (0, 1)] == [50, 50]
    fill(kafka, topic, 4, 2)
    second = Settler()
    async with feeding(kafka, topic, second, 2):
        await second.until(lambda: len(second.got) == 4)
    assert sorted(second.got) == [(0, 50), (0, 51), (1, 50), (1, 51)]


async def test_a_fenced_consumer_is_replaced(kafka: EmbeddedKafka, make_topic: Callable[..., str]) -> None:
    """Kafka fences a static member when another client joins under its name, or itself after an answer was lost."""
    topic = make_topic()
    fill(kafka, topic, 10)
    owner = Settler()
    async with feeding(kafka, topic, owner) as consumer:
        await owner.until(lambda: len(owner.got) == 10)
        settings = {"bootstrap.servers": kafka.bootstrap, "partition.assignment.strategy": "cooperative-sticky"}
        names = {"group.id": f"g-{topic}", "group.instance.id": consumer.instance_id}
        foreign_resource = Consumer({**settings, **names, "session.timeout.ms": 6000, "enable.auto.commit": False})
        joined = threading.Event()
        foreign_resource.subscribe([topic], on_assign=lambda *_: joined.set())
        async with asyncio.timeout(LIMIT_S):
            while not joined.is_set():
                await asyncio.to_thread(foreign_resource.poll, 0.1)
        await asyncio.to_thread(
            foreign_resource.close
        )  # a static member does not leave: its name is taken until it is replaced
        await owner.until(lambda: len(owner.partitions) == 2)
        fill(kafka, topic, 5)
        await owner.until(lambda: len(owner.got) >= 15)
    assert [offset for _, offset in owner.got] == list(range(15))


async def test_what_is_settled_above_a_gap_is_not_delivered_again(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    fill(kafka, topic, 20)
    first = Settler(lambda record: record.offset not in (5, 7))
    async with feeding(kafka, topic, first):
        await first.until(lambda: len(first.got) == 20)
        first.partitions[0].tracker.failed(5, 3)
        await asyncio.wait_for(first.consumer.commits.barrier(first.partitions[0]), LIMIT_S)
        offset, metadata = committed(kafka, topic)  # while the owner lives: the barrier has let it through
        assert read(offset, metadata) == OffsetMetadata(frozenset({6, *range(8, 20)}), {5: 3})
    second = Settler()
    async with feeding(kafka, topic, second):
        await second.until(lambda: len(second.got) == 2)
        assert second.partitions[0].tracker.committable == 20
    assert second.got == [(0, 5), (0, 7)]


async def test_an_offset_below_the_log_goes_on_at_its_start(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    fill(kafka, topic, 30)
    commit(kafka, topic, 3)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.delete_records([TopicPartition(topic, 0, 10)])[TopicPartition(topic, 0)].result(180)
    owner = Settler()
    async with feeding(kafka, topic, owner):
        await owner.until(lambda: len(owner.got) == 20)
    assert owner.got[0] == (0, 10)
    assert committed(kafka, topic)[0] == 30
    assert owner.observe.others["expired", "ns/s"] == 7


async def test_partitions_that_are_added_are_served_from_their_beginning(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    fill(kafka, topic, 5)
    commit(kafka, topic, 5)
    owner = Settler()
    async with feeding(kafka, topic, owner):
        await owner.until(lambda: bool(owner.partitions))
        add_partitions(kafka, topic, 3)
        fill(kafka, topic, 30, 3)
        await owner.until(lambda: len(owner.got) == 30)
    assert sorted(owner.got) == [
        *((0, offset) for offset in range(5, 15)),
        *((p, o) for p in (1, 2) for o in range(10)),
    ]
    assert [committed(kafka, topic, p)[0] for p in (0, 1, 2)] == [15, 10, 10]


async def test_partitions_that_are_added_have_a_committed_offset_without_an_event(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    commit(kafka, topic, 0)
    owner = Settler()
    async with feeding(kafka, topic, owner):
        await owner.until(lambda: bool(owner.partitions))
        add_partitions(kafka, topic, 3)
        await owner.until(lambda: [committed(kafka, topic, p)[0] for p in (0, 1, 2)] == [0, 0, 0])
    assert owner.got == []


async def test_an_offset_beyond_the_end_stops_the_partition_loudly(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    fill(kafka, topic, 5)
    commit(kafka, topic, 50)
    owner = Settler()
    async with feeding(kafka, topic, owner):
        await owner.until(lambda: bool(owner.partitions and owner.partitions[0].failure))
        assert "beyond the end" in owner.partitions[0].failure
        await owner.until(lambda: owner.stopped == 1)
    assert owner.got == []
    assert committed(kafka, topic)[0] == 50


async def test_a_halted_consumer_serves_no_partition(kafka: EmbeddedKafka, make_topic: Callable[..., str]) -> None:
    topic = make_topic(2)
    fill(kafka, topic, 10, 2)
    one, two, three = Settler(), Settler(), Settler()
    async with feeding(kafka, topic, one, 2):
        async with feeding(kafka, topic, two, 2):
            await one.until(lambda: len(one.consumer.partitions) == len(two.consumer.partitions) == 1)
            await one.until(lambda: len(one.got) + len(two.got) >= 10)
            one.consumer.halt("it is not what it was")
            await one.until(lambda: one.stopped == 1)
        await one.until(lambda: one.stopped == 2)  # with the partition that the other one gave back
        assert {partition.failure for partition in one.consumer.partitions} == {"it is not what it was"}
        before = len(one.got)
        fill(kafka, topic, 10, 2)
        async with feeding(kafka, topic, three, 2):
            await three.until(lambda: len(three.got) == 5)
        assert len(one.got) == before


async def test_two_owners_share_and_take_over_without_loss_or_repetition(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(4)
    one, two = Settler(), Settler()
    async with feeding(kafka, topic, one, 4):
        fill(kafka, topic, 400, 4)
        await one.until(lambda: len(one.got) == 400)
        async with feeding(kafka, topic, two, 4):
            await two.until(lambda: len(two.consumer.partitions) == 2 and len(one.consumer.partitions) == 2)
            fill(kafka, topic, 400, 4)
            await one.until(lambda: len(one.got) + len(two.got) == 800)
            assert two.got
        fill(kafka, topic, 400, 4)
        await one.until(lambda: len(one.got) + len(two.got) == 1200)
    assert sorted(one.got + two.got) == [(p, o) for p in range(4) for o in range(300)]


async def test_commits_go_on_during_a_drain(kafka: EmbeddedKafka, make_topic: Callable[..., str]) -> None:
    """A revocation takes seconds when a subscriber is slow; the partitions that stay are served and committed."""
    topic = make_topic(2)

    class Draining(Settler):
        async def drain(self, partitions: Sequence[PartitionState], limit_s: float) -> None:
            if len(partitions) == 1 and not self.seen:
                (stays,) = [p for p in self.partitions if p is not partitions[0]]
                for offset in list(stays.tracker.pending):
                    stays.tracker.settle(offset)
                self.consumer.commits.schedule_commit()
                async with asyncio.timeout(LIMIT_S / 2):
                    while (await asyncio.to_thread(committed, kafka, topic, stays.number))[0] != 10:
                        await asyncio.sleep(0.1)
                self.seen = True
            await super().drain(partitions, limit_s)

        seen = False

    one, two = Draining(lambda _: False), Settler()
    async with feeding(kafka, topic, one, 2):
        await one.until(lambda: len(one.partitions) == 2)
        fill(kafka, topic, 20, 2)
        await one.until(lambda: len(one.got) == 20)
        async with feeding(kafka, topic, two, 2):
            await two.until(lambda: len(two.partitions) == 1)
    assert one.seen
    assert one.problems == []


async def test_what_was_fetched_before_its_log_expired_is_still_delivered(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    """Records and the error that follows them come out of the client together."""
    topic = make_topic()
    fill(kafka, topic, 30)
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": f"g-{topic}", "auto.offset.reset": "error"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = consumer.consume(3, LIMIT_S)
    assert [message.offset() for message in messages] == [0, 1, 2]
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.delete_records([TopicPartition(topic, 0, 20)])[TopicPartition(topic, 0)].result(180)
    consumer.incremental_unassign([TopicPartition(topic, 0)])
    consumer.incremental_assign([TopicPartition(topic, 0, 3)])
    messages += consumer.consume(1, LIMIT_S)
    assert messages[-1].error() is not None
    owner = Settler()
    config = DeliveryConfig({"bootstrap.servers": kafka.bootstrap})
    owner.consumer = SubscriptionConsumer(subscription(topic), config, owner, Metrics())
    owner.consumer._thread._loop = asyncio.get_running_loop()  # its thread is this test
    partition = owner.consumer._rebalance.partitions[0] = PartitionState(topic, 0, OffsetTracker(0))
    await asyncio.to_thread(owner.consumer._take, consumer, messages)
    consumer.close()
    assert owner.got == [(0, 0), (0, 1), (0, 2)]
    assert partition.tracker.committable == 20


async def test_stopping_needs_no_thread_of_the_loops_pool(kafka: EmbeddedKafka, make_topic: Callable[..., str]) -> None:
    """The pool is small, and look-ups of names wait in it too."""
    release = threading.Event()
    occupied = [asyncio.ensure_future(asyncio.to_thread(release.wait, LIMIT_S)) for _ in range(64)]
    owner = Settler()
    try:
        async with asyncio.timeout(LIMIT_S / 2), feeding(kafka, make_topic(), owner):
            await owner.until(lambda: bool(owner.partitions))
    finally:
        release.set()
        await asyncio.gather(*occupied)
