"""One fetch for many Triggers, on a real Kafka: positions apart, slow ones, several workers, retention, threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from app.local.kafka import EmbeddedKafka
from knative.contract.kafka_names import fanout_group
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tests.integration.reading import (
    LIMIT_S,
    Trigger,
    add_partitions,
    commits_reach,
    committed,
    expire,
    fill,
    offsets_of,
    until,
    working,
)

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]


async def test_each_gets_what_passes_its_filter(kafka: EmbeddedKafka, make_topic: Callable[..., str]) -> None:
    """In order; the rest is settled and committed too, in the Trigger's own group; one group has the members."""
    topic = make_topic(2)
    fill(kafka, topic, ["a", "a", "b", "b"] * 100, 2)
    async with working(kafka) as worker:
        a, b, every = (Trigger(kafka, topic, name, type_) for name, type_ in (("a", "a"), ("b", "b"), ("every", "")))
        worker.add(a, b, every)
        await until("all is read", lambda: len(a.got) == len(b.got) == 200 and len(every.got) == 400, worker)
        for trigger in (a, b, every):
            await commits_reach(kafka, trigger, 400)
        admin = KafkaAdmin({"bootstrap.servers": kafka.bootstrap})
        about = admin.groups.describe(fanout_group("penstock", topic))
        assert about is not None
        assert about.members == 1
        assert admin.groups.describe(a.subscription.group).members == 0  # type: ignore[union-attr]
    assert a.filtered_count == b.filtered_count == 200
    consumed = [worker.observe.others["consumed", a.member.client_name, topic, partition] for partition in (0, 1)]
    assert consumed == [200, 200], "each counts what it has taken, also what its filter does not want"
    for partition in (0, 1):
        assert offsets_of(every, partition) == list(range(200))
        assert offsets_of(a, partition) == [offset for offset in range(200) if offset % 2 == 0]


async def test_one_far_behind_catches_up_and_holds_nobody_up(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(1)
    fill(kafka, topic, ["a"] * 30_000)
    new, old = Trigger(kafka, topic, "new"), Trigger(kafka, topic, "old")
    KafkaAdmin({"bootstrap.servers": kafka.bootstrap}).groups.commit(new.subscription.group, {(topic, 0): 30_000})
    async with working(kafka) as worker:
        worker.add(new, old)
        fill(kafka, topic, ["a"] * 100)
        await until("the new one has what is new", lambda: len(new.got) == 100, worker)
        await until("the old one has all", lambda: len(old.got) == 30_100, worker)
        fill(kafka, topic, ["a"] * 10)
        await until("both go on together", lambda: len(new.got) == 110 and len(old.got) == 30_110, worker)
        late = Trigger(kafka, topic, "late")
        worker.add(late)
        await until("one that comes later has all, too", lambda: len(late.got) == 30_110, worker)
    assert offsets_of(new) == list(range(30_000, 30_110))
    assert offsets_of(old) == offsets_of(late) == list(range(30_110))


async def test_slow_one_misses_nothing_and_holds_nobody_up(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(1)
    async with working(kafka, buffer_bytes=200_000) as worker:
        slow, quick = Trigger(kafka, topic, "slow"), Trigger(kafka, topic, "quick")
        slow.slow = True
        worker.add(slow, quick)
        fill(kafka, topic, ["a"] * 5_000, size=200)
        await until("the quick one has all", lambda: len(quick.got) == 5_000, worker)
        assert len(slow.got) < 2_000, "its buffer is full, and holds one fetch (1,000 records) more at most"
        slow.slow = False
        slow.settle()
        await until("the slow one has all", lambda: len(slow.got) == 5_000, worker)
        slow.slow = quick.slow = True
        fill(kafka, topic, ["a"] * 5_000, size=200)
        await until("both are full", lambda: worker_is_full(slow, quick), worker)
        slow.slow = quick.slow = False
        slow.settle()
        quick.settle()
        await until("both have all", lambda: len(slow.got) == len(quick.got) == 10_000, worker)
    assert offsets_of(slow) == offsets_of(quick) == list(range(10_000))


def worker_is_full(*triggers: Trigger) -> bool:
    return all(trigger.kept and trigger.member.states[0].held_bytes > 50_000 for trigger in triggers)


async def test_workers_share_the_partitions(kafka: EmbeddedKafka, make_topic: Callable[..., str]) -> None:
    """They move with what each Trigger has committed: nothing is lost, and nothing comes twice without a failure."""
    topic = make_topic(4)
    async with working(kafka) as worker:
        first, second = Trigger(kafka, topic, "a", "a"), Trigger(kafka, topic, "b")
        worker.add(first, second)
        fill(kafka, topic, ["a", "b"] * 2_000, 4)
        await until("all is read", lambda: len(second.got) == 4_000, worker)
        async with working(kafka) as two:
            third, fourth = Trigger(kafka, topic, "a", "a"), Trigger(kafka, topic, "b")
            two.add(third, fourth)
            await until(
                "each has two", lambda: len(second.member.states) == len(fourth.member.states) == 2, worker, two
            )
            fill(kafka, topic, ["a", "b"] * 2_000, 4)
            await until("all is read", lambda: len(second.got) + len(fourth.got) == 8_000, worker, two)
            assert {*fourth.member.states} == {*third.member.states}
        await until("one has all again", lambda: len(second.member.states) == 4, worker)
        fill(kafka, topic, ["a", "b"] * 100, 4)
        await until("all is read", lambda: len(second.got) + len(fourth.got) == 8_200, worker)
        await until("all is read", lambda: len(first.got) + len(third.got) == 4_100, worker)
    assert len({*second.got, *fourth.got}) == 8_200
    for trigger in (second, fourth):
        for partition in range(4):
            assert offsets_of(trigger, partition) == sorted(offsets_of(trigger, partition))


async def test_partitions_that_are_added_have_a_committed_offset_without_an_event(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(1)
    groups = KafkaAdmin({"bootstrap.servers": kafka.bootstrap}).groups
    async with working(kafka) as worker:
        trigger = Trigger(kafka, topic, "a")
        groups.commit(trigger.subscription.group, {(topic, 0): 0})
        worker.add(trigger)
        await until("it is served", lambda: bool(trigger.member.states), worker)
        add_partitions(kafka, topic, 3)
        await until("all are served", lambda: len(trigger.member.states) == 3, worker)
        async with asyncio.timeout(LIMIT_S):
            while len(offsets := await asyncio.to_thread(groups.committed, trigger.subscription.group)) < 3:
                await asyncio.sleep(0.1)
    assert {number: at.offset for (_, number), at in offsets.items()} == {0: 0, 1: 0, 2: 0}
    assert trigger.got == []


async def test_offset_that_another_client_moves_back_is_committed_again(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    """Of an idle owner. `kafka-consumer-groups --reset-offsets` succeeds, because the group has no members."""
    topic = make_topic(2)
    async with working(kafka) as worker:
        trigger = Trigger(kafka, topic, "a")
        worker.add(trigger)
        fill(kafka, topic, ["a"] * 200, 2)
        await commits_reach(kafka, trigger, 200)
        KafkaAdmin({"bootstrap.servers": kafka.bootstrap}).groups.commit(trigger.subscription.group, {(topic, 0): 5})
        await commits_reach(kafka, trigger, 200)
    assert len(trigger.got) == 200


async def test_retention_is_counted_for_each(kafka: EmbeddedKafka, make_topic: Callable[..., str]) -> None:
    topic = make_topic(1)
    fill(kafka, topic, ["a"] * 100)
    admin = KafkaAdmin({"bootstrap.servers": kafka.bootstrap})
    low, high = Trigger(kafka, topic, "low"), Trigger(kafka, topic, "high")
    admin.groups.commit(low.subscription.group, {(topic, 0): 10})
    admin.groups.commit(high.subscription.group, {(topic, 0): 90})
    expire(kafka, topic, 50)
    async with working(kafka) as worker:
        worker.add(low, high)
        await until("all that is left is read", lambda: len(low.got) == 50 and len(high.got) == 10, worker)
        await commits_reach(kafka, low, 100)
    assert offsets_of(low) == list(range(50, 100))
    assert offsets_of(high) == list(range(90, 100))
    assert worker.observe.others["expired", "ns/trigger:low"] == 40


async def test_threads_do_not_grow_with_triggers(kafka: EmbeddedKafka, make_topic: Callable[..., str]) -> None:
    topic = make_topic(1)
    async with working(kafka) as worker:
        triggers = [Trigger(kafka, topic, f"t{number}") for number in range(30)]
        worker.add(triggers[0])
        await until("it is served", lambda: 0 in triggers[0].member.states, worker)
        before = threading.active_count()
        worker.add(*triggers[1:])
        await until("all are served", lambda: all(0 in each.member.states for each in triggers), worker)
        fill(kafka, topic, ["a"] * 100)
        await until("all have all", lambda: all(len(each.got) == 100 for each in triggers), worker)
        await until("no thread is left", lambda: threading.active_count() <= before, worker)


async def test_position_beyond_the_end_fails_only_who_has_it(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    """As after a topic that was created again: Triggers that are added afterwards are served."""
    topic = make_topic(1)
    fill(kafka, topic, ["a"] * 20)
    former, new = Trigger(kafka, topic, "former"), Trigger(kafka, topic, "new")
    KafkaAdmin({"bootstrap.servers": kafka.bootstrap}).groups.commit(former.subscription.group, {(topic, 0): 1_000})
    async with working(kafka) as worker:
        worker.add(former)
        await until("it has failed", lambda: any(partition.failure for partition in former.member.partitions), worker)
        worker.add(new)
        await until("the new one has all", lambda: len(new.got) == 20, worker)
        fill(kafka, topic, ["a"] * 5)
        await until("and what is new", lambda: len(new.got) == 25, worker)
        assert "beyond the end 20" in str(former.member.partitions[0].failure)
    assert former.got == []
    assert committed(kafka, former) == 1_000
