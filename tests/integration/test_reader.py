"""The reader of a topic against a real Kafka: where it starts, what it commits, and what it does at the edges."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

import pytest
from confluent_kafka import Consumer, TopicPartition

from agents.offsets.offset_metadata import OffsetMetadata, read
from agents.offsets.offset_tracker import OffsetTracker
from agents.offsets.partition import PartitionState
from app.local.kafka import EmbeddedKafka
from knative.contract.kafka_names import fanout_group
from tests.integration.reading import (
    LIMIT_S,
    Trigger,
    add_partitions,
    commit,
    committed_offsets,
    expire,
    fill,
    offsets_of,
    until,
    working,
)

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

_OFTEN = {"topic.metadata.refresh.interval.ms": 1_000}


def places(kafka: EmbeddedKafka, trigger: Trigger) -> dict[int, int]:
    """Partition -> committed offset."""
    return {number: offset.offset for number, offset in committed_offsets(kafka, trigger).items()}


async def test_reader_starts_at_the_log_start_commits_and_goes_on_there(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(2)
    fill(kafka, topic, ["a"] * 100, 2)
    first, second = Trigger(kafka, topic, "t"), Trigger(kafka, topic, "t")
    async with working(kafka) as worker:
        worker.add(first)
        await until("all is read", lambda: len(first.got) == 100, worker)
    assert places(kafka, first) == {0: 50, 1: 50}
    fill(kafka, topic, ["a"] * 4, 2)
    async with working(kafka) as worker:
        worker.add(second)
        await until("the rest is read", lambda: len(second.got) == 4, worker)
    assert sorted(second.got) == [(0, 50), (0, 51), (1, 50), (1, 51)]


async def test_fenced_client_is_replaced(kafka: EmbeddedKafka, make_topic: Callable[..., str]) -> None:
    """Kafka fences a static member when another client joins under its name, or itself after an answer was lost."""
    topic = make_topic()
    fill(kafka, topic, ["a"] * 10)
    trigger = Trigger(kafka, topic, "t")
    async with working(kafka) as worker:
        worker.add(trigger)
        await until("all is read", lambda: len(trigger.got) == 10, worker)
        settings = {"bootstrap.servers": kafka.bootstrap, "partition.assignment.strategy": "cooperative-sticky"}
        names = {"group.id": fanout_group("penstock", topic), "group.instance.id": worker.reader(topic)._instance_id}
        foreign = Consumer({**settings, **names, "session.timeout.ms": 6000, "enable.auto.commit": False})
        joined = threading.Event()
        foreign.subscribe([topic], on_assign=lambda *_: joined.set())
        async with asyncio.timeout(LIMIT_S):
            while not joined.is_set():
                await asyncio.to_thread(foreign.poll, 0.1)
        await asyncio.to_thread(foreign.close)  # a static member does not leave: its name is taken until it is replaced
        await until("it has the partition again", lambda: trigger.opened_count == 2, worker)
        fill(kafka, topic, ["a"] * 5)
        await until("all is read", lambda: len(trigger.got) >= 15, worker)
    assert offsets_of(trigger) == list(range(15))


async def test_what_is_settled_above_a_gap_is_not_delivered_again(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    fill(kafka, topic, ["a"] * 20)
    first, second = (
        Trigger(kafka, topic, "t", "", lambda delivery: delivery.offset not in (5, 7)),
        Trigger(kafka, topic, "t"),
    )
    async with working(kafka) as worker:
        worker.add(first)
        await until("all is read", lambda: len(first.got) == 20, worker)
        (state,) = first.opened_states
        state.tracker.failed(5, 3)
        await asyncio.wait_for(first.member.commits.barrier(state), LIMIT_S)
        committed = committed_offsets(kafka, first)[0]  # while the owner lives: the barrier has let it through
        assert read(committed.offset, committed.metadata) == OffsetMetadata(frozenset({6, *range(8, 20)}), {5: 3})
    async with working(kafka) as worker:
        worker.add(second)
        await until("what was left is read", lambda: len(second.got) == 2, worker)
        assert second.opened_states[0].tracker.committable == 20
    assert second.got == [(0, 5), (0, 7)]


async def test_offset_below_the_log_goes_on_at_its_start(kafka: EmbeddedKafka, make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    fill(kafka, topic, ["a"] * 30)
    trigger = Trigger(kafka, topic, "t")
    commit(kafka, trigger, 3)
    expire(kafka, topic, 10)
    async with working(kafka) as worker:
        worker.add(trigger)
        await until("what is left is read", lambda: len(trigger.got) == 20, worker)
        assert worker.observe.others["expired", "ns/trigger:t"] == 7
    assert trigger.got[0] == (0, 10)
    assert places(kafka, trigger) == {0: 30}


async def test_partitions_that_are_added_are_served_from_their_beginning(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    fill(kafka, topic, ["a"] * 5)
    trigger = Trigger(kafka, topic, "t")
    commit(kafka, trigger, 5)
    async with working(kafka, client=_OFTEN) as worker:
        worker.add(trigger)
        await until("it is served", lambda: bool(trigger.member.states), worker)
        add_partitions(kafka, topic, 3)
        fill(kafka, topic, ["a"] * 30, 3)
        await until("all is read", lambda: len(trigger.got) == 30, worker)
    added = [(number, offset) for number in (1, 2) for offset in range(10)]
    assert sorted(trigger.got) == [*((0, offset) for offset in range(5, 15)), *added]
    assert places(kafka, trigger) == {0: 15, 1: 10, 2: 10}


async def test_halted_member_serves_no_partition(kafka: EmbeddedKafka, make_topic: Callable[..., str]) -> None:
    topic = make_topic(2)
    fill(kafka, topic, ["a"] * 10, 2)
    first, second, third = (Trigger(kafka, topic, "t") for _ in range(3))
    async with working(kafka) as worker:
        worker.add(first)
        async with working(kafka) as two:
            two.add(second)
            await until("each has one", lambda: len(first.member.states) == len(second.member.states) == 1, worker, two)
            await until("all is read", lambda: len(first.got) + len(second.got) >= 10, worker, two)
            first.member.halt("it is not what it was")
            assert first.stopped == 1
        # With the partition that the other one gave back.
        await until("both are stopped", lambda: first.stopped == 2, worker)
        assert {state.failure for state in first.member.partitions} == {"it is not what it was"}
        before = len(first.got)
        fill(kafka, topic, ["a"] * 10, 2)
        async with working(kafka) as two:
            two.add(third)
            await until("the other one serves its own", lambda: len(third.got) == 5, worker, two)
        assert len(first.got) == before


async def test_commits_go_on_during_a_drain(kafka: EmbeddedKafka, make_topic: Callable[..., str]) -> None:
    """A revocation takes seconds when a subscriber is slow; the partitions that stay are served and committed."""
    topic = make_topic(2)

    class Draining(Trigger):
        seen = False

        async def drain(self, partitions: Sequence[PartitionState], limit_s: float) -> None:
            if len(partitions) == 1 and not self.seen:
                (stays,) = [state for state in self.member.partitions if state is not partitions[0]]
                for offset in list(stays.tracker.pending):
                    stays.tracker.settle(offset)
                self.member.commits.schedule_commit()
                async with asyncio.timeout(LIMIT_S / 2):
                    while (await asyncio.to_thread(places, kafka, self)).get(stays.number) != 10:
                        await asyncio.sleep(0.1)
                self.seen = True
            await super().drain(partitions, limit_s)

    first, second = Draining(kafka, topic, "t", "", lambda _: False), Trigger(kafka, topic, "t")
    async with working(kafka) as worker:
        worker.add(first)
        await until("it is served", lambda: len(first.member.states) == 2, worker)
        fill(kafka, topic, ["a"] * 20, 2)
        await until("all is read", lambda: len(first.got) == 20, worker)
        async with working(kafka) as two:
            two.add(second)
            await until("one has moved", lambda: len(second.member.states) == 1, worker, two)
    assert first.seen


async def test_what_was_fetched_before_its_log_expired_is_still_delivered(
    kafka: EmbeddedKafka, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records and the error that follows them come out of the client together."""
    topic = make_topic()
    fill(kafka, topic, ["a"] * 30)
    client = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": f"g-{topic}", "auto.offset.reset": "error"})
    client.assign([TopicPartition(topic, 0, 0)])
    messages = client.consume(3, LIMIT_S)
    assert [message.offset() for message in messages] == [0, 1, 2]
    expire(kafka, topic, 20)
    client.incremental_unassign([TopicPartition(topic, 0)])
    client.incremental_assign([TopicPartition(topic, 0, 3)])
    messages += client.consume(1, LIMIT_S)
    assert messages[-1].error() is not None
    trigger = Trigger(kafka, topic, "t")
    monkeypatch.setattr("agents.reader.topic_reader.TopicReader.start", lambda _: None)
    async with working(kafka) as worker:
        worker.add(trigger)
        commit(kafka, trigger, 0)
        consumer = worker.reader(topic)
        consumer._thread._loop = asyncio.get_running_loop()  # its thread is this test
        await worker.readers._topics[topic].open([0])
        consumer.heads[0] = PartitionState(topic, 0, OffsetTracker(0))
        await asyncio.to_thread(consumer._hand, client, messages)
        client.close()
        assert trigger.got == [(0, 0), (0, 1), (0, 2)]
        assert trigger.member.states[0].tracker.committable == 20
        consumer._thread._loop = None


async def test_stopping_needs_no_thread_of_the_loops_pool(kafka: EmbeddedKafka, make_topic: Callable[..., str]) -> None:
    """The pool is small, and look-ups of names wait in it too."""
    release, topic = threading.Event(), make_topic()
    trigger = Trigger(kafka, topic, "t")
    async with working(kafka) as worker:
        worker.add(trigger)
        await until("it is served", lambda: bool(trigger.member.states), worker)
        occupied = [asyncio.ensure_future(asyncio.to_thread(release.wait, LIMIT_S)) for _ in range(64)]
        try:
            async with asyncio.timeout(LIMIT_S / 2):
                worker.triggers.remove(trigger)
                await asyncio.gather(trigger.member.stop(0.0))
                await worker.readers.stop()
        finally:
            release.set()
            await asyncio.gather(*occupied)
