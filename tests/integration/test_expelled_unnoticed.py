"""A worker whose session ends while its group rebalances gives up all its partitions, and one that had none waits for
what others may know. librdkafka reports neither."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka.client import AIOKafkaClient, CoordinationType
from aiokafka.protocol.group import LeaveGroupRequest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from agents.reader.group_consumer import GroupConsumer
from agents.reader.membership import JoinWatch
from app.local.kafka import EmbeddedKafka
from knative.contract.kafka_names import fanout_group
from tests.integration import reading
from tests.integration.reading import LIMIT_S, Trigger, until, working
from tests.support.processes import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]
noticing = pytest.mark.parametrize("noticed", [True, False], ids=["in the callback", "when it joins again"])


def expelling(kafka: EmbeddedKafka, group: str) -> Callable[[], None]:
    """What Kafka does when the session of a member ends, for the one that the group has now: of two, the one without
    partitions."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    members = admin.describe_consumer_groups([group])[group].result(LIMIT_S).members
    (member,) = [candidate for candidate in members if len(members) == 1 or not candidate.assignment.topic_partitions]

    async def leave() -> None:
        client = AIOKafkaClient(bootstrap_servers=kafka.bootstrap)
        await client.bootstrap()
        try:
            node = await client.coordinator_lookup(CoordinationType.GROUP, group)
            assert await client.ready(node)
            answer = await client.send(node, LeaveGroupRequest(group, member.member_id))
            assert answer.error_code == 0
        finally:
            await client.close()

    return lambda: asyncio.run(leave())


async def test_who_gave_up_a_partition_has_joined_again(kafka: EmbeddedKafka, make_topic: Callable[..., str]) -> None:
    """librdkafka calls back for an assignment right after a revocation, and again when it has joined again."""
    topic = make_topic(2)
    first, second = Trigger(kafka, topic, "a"), Trigger(kafka, topic, "a")
    async with working(kafka) as worker:
        worker.add(first)
        watch = worker.reader(topic)._join_watch
        await until("it has both", lambda: len(first.member.states) == 2, worker)
        async with working(kafka) as two:
            two.add(second)
            await until("one has moved", lambda: len(second.member.states) == 1, worker, two)
            await until("it has joined again", lambda: watch._client_since is None, worker, two)
            assert (watch._revoked, watch.handover_until) == (False, 0.0)


async def test_expulsion_without_partitions_counts_for_one_assignment(kafka: EmbeddedKafka) -> None:
    """Also if that brings a partition, after which the consumer always has one."""

    class Scripted(GroupConsumer):
        id, owned = "a", 0
        on_assign: Callable[[GroupConsumer, list[TopicPartition]], None]

        def subscribe(self, topics: list[str], *args: Any, **callbacks: Any) -> None:
            self.on_assign = callbacks["on_assign"]

        def memberid(self) -> str:
            return self.id

        def assignment(self) -> list[TopicPartition]:
            return [TopicPartition("t", number) for number in range(self.owned)]

    seen: list[bool] = []
    settings = {"bootstrap.servers": kafka.bootstrap, "group.id": "g"}
    consumer = Scripted(settings)
    consumer.follow(
        "t", lambda group_consumer, _: seen.append(group_consumer.expelled_idle), lambda *_: None, lambda *_: None
    )
    for consumer.id, consumer.owned in [("a", 0), ("b", 0), ("b", 1), ("b", 0), ("c", 0)]:
        consumer.on_assign(consumer, [])
    consumer.end()
    assert seen == [False, True, False, False, True]


async def test_who_had_nothing_waits_after_the_next_join_and_after_no_other(
    kafka: EmbeddedKafka, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    joins: list[JoinWatch] = []
    joined = JoinWatch.joined

    def counted(watch: JoinWatch, now: float) -> None:
        joined(watch, now)
        joins.append(watch)

    monkeypatch.setattr(JoinWatch, "joined", counted)
    topic = make_topic(1)
    trigger, two, three = (Trigger(kafka, topic, "a") for _ in range(3))
    async with working(kafka) as second:
        second.add(two)
        await until("it has the partition", lambda: len(two.member.states) == 1, second)
        async with working(kafka) as first:
            first.add(trigger)
            watch = first.reader(topic)._join_watch
            await until("it has joined", lambda: watch in joins, first, second)
            assert watch.handover_until == 0.0
            expel = await asyncio.to_thread(expelling, kafka, fanout_group("penstock", topic))
            await asyncio.to_thread(expel)
            await until("it waits", lambda: watch.handover_until > 0.0, first, second)
            watch.handover_until = 0.0
            await second.remove(two)
            reading.fill(kafka, topic, ["a"] * 10)
            await until("all is read", lambda: len(trigger.got) == 10, first)
            joins.clear()
            async with working(kafka) as third:
                third.add(three)
                await until("it joins again", lambda: watch in joins, first, third)
            assert watch.handover_until == 0.0


@noticing
async def test_expelled_worker_keeps_nothing(
    kafka: EmbeddedKafka, make_topic: Callable[..., str], noticed: bool
) -> None:
    """Others have all partitions meanwhile, and settle what this worker has not settled in the one that it keeps."""
    topic = make_topic(2)
    async with working(kafka) as worker:
        first, second = Trigger(kafka, topic, "a"), Trigger(kafka, topic, "a")
        worker.add(first)
        reading.fill(kafka, topic, ["a"] * 200, 2)
        await until("all is read", lambda: len(first.got) == 200, worker)
        await reading.commits_reach(kafka, first, 200)
        first.slow = True
        reading.fill(kafka, topic, ["a"] * 200, 2)
        await until("the rest is in flight", lambda: len(first.kept) == 200, worker)
        expel = expelling(kafka, fanout_group("penstock", topic))

        def drain() -> None:
            first.while_draining = lambda: None
            expel()
            if noticed:
                wait_until("others have all", lambda: len(second.got) >= 200, LIMIT_S)
            for kept in first.kept:
                if kept.offset == 100:
                    kept.partition.tracker.settle(kept.offset)
            first.kept.clear()
            first.slow = False

        first.while_draining = drain
        async with working(kafka) as two:
            two.add(second)
            await until("each has one", lambda: len(first.member.states) == len(second.member.states) == 1, worker, two)
        reading.fill(kafka, topic, ["a"] * 20, 2)
        await until("all is read", lambda: {(0, 209), (1, 209)} <= {*first.got}, worker)
    assert reading.committed(kafka, first) == 420
    assert not noticed or len(first.got) == len({*first.got})
