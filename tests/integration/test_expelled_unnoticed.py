"""A worker whose session ends while its group rebalances gives up all its partitions, and one that had none waits for
what others may know. librdkafka reports neither."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from aiokafka.client import AIOKafkaClient, CoordinationType
from aiokafka.protocol.group import LeaveGroupRequest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from agents.consumer.group_consumer import GroupConsumer
from agents.consumer.membership import JoinWatch
from agents.ordering.partition import PartitionState
from app.local.kafka import EmbeddedKafka
from knative.contract.kafka_names import fanout_group
from tests.integration import consumers
from tests.integration.consumers import Settler, feeding
from tests.support import fanout
from tests.support.fanout import LIMIT_S, Trigger, until, working
from tests.support.processes import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]
noticing = pytest.mark.parametrize("noticed", [True, False], ids=["in the callback", "when it joins again"])


def expelling(kafka: EmbeddedKafka, group: str) -> Callable[[], None]:
    """What Kafka does when the session of a member ends, for the one that the group has now: of two, the one without
    partitions."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    members = admin.describe_consumer_groups([group])[group].result(LIMIT_S).members
    (member,) = [one for one in members if len(members) == 1 or not one.assignment.topic_partitions]

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


@noticing
async def test_a_subscription_keeps_nothing(
    kafka: EmbeddedKafka, make_topic: Callable[..., str], noticed: bool
) -> None:
    """Others have all partitions meanwhile, and settle what this worker has not settled in the one that it keeps."""
    topic = make_topic(2)

    class Expelled(Settler):
        expel: Callable[[], None] | None = None

        async def drain(self, partitions: Sequence[PartitionState], limit_s: float) -> None:
            expel, self.expel = self.expel, None
            if expel is not None:
                await asyncio.to_thread(expel)
                if noticed:
                    await two.until(lambda: len(two.got) >= 200)
                (kept,) = (one for one in self.partitions if one not in partitions)
                kept.tracker.settle(100)
                self.settle = lambda _: True
            await super().drain(partitions, limit_s)

    one, two = Expelled(lambda record: record.offset < 100), Settler()
    consumers.fill(kafka, topic, 400, 2)
    async with feeding(kafka, topic, one, 2):
        await one.until(lambda: len(one.got) == 400)
        async with asyncio.timeout(LIMIT_S):
            while [consumers.committed(kafka, topic, number)[0] for number in (0, 1)] != [100, 100]:
                await asyncio.sleep(0.1)
        one.expel = await asyncio.to_thread(expelling, kafka, f"g-{topic}")
        async with feeding(kafka, topic, two, 2):
            await one.until(lambda: one.expel is None)
            await one.until(lambda: len(one.consumer.partitions) == len(two.consumer.partitions) == 1)
        consumers.fill(kafka, topic, 20, 2)
        await one.until(lambda: {(0, 209), (1, 209)} <= {*one.got})
    assert [consumers.committed(kafka, topic, number)[0] for number in (0, 1)] == [210, 210]
    assert not noticed or len(one.got) == len({*one.got})


async def test_who_gave_up_a_partition_has_joined_again(kafka: EmbeddedKafka, make_topic: Callable[..., str]) -> None:
    """librdkafka calls back for an assignment right after a revocation, and again when it has joined again."""
    topic = make_topic(2)
    one, two = Settler(), Settler()
    async with feeding(kafka, topic, one, 2):
        watch = one.consumer._rebalance._join_watch
        await one.until(lambda: len(one.consumer.partitions) == 2)
        async with feeding(kafka, topic, two, 2):
            await two.until(lambda: len(two.consumer.partitions) == 1)
            await one.until(lambda: watch._client_since is None)
            assert (watch._revoked, watch.handover_until) == (False, 0.0)


async def test_an_expulsion_without_partitions_counts_for_one_assignment(kafka: EmbeddedKafka) -> None:
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
    consumer.follow("t", lambda one, _: seen.append(one.expelled_idle), lambda *_: None, lambda *_: None)
    for consumer.id, consumer.owned in [("a", 0), ("b", 0), ("b", 1), ("b", 0), ("c", 0)]:
        consumer.on_assign(consumer, [])
    consumer.end()
    assert seen == [False, True, False, False, True]


async def test_who_had_nothing_waits_after_the_next_join_and_after_no_other(
    kafka: EmbeddedKafka, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    joins: list[JoinWatch] = []
    joined = JoinWatch.joined

    def counted(watch: JoinWatch, now: float, *, handover: bool) -> None:
        joined(watch, now, handover=handover)
        joins.append(watch)

    monkeypatch.setattr(JoinWatch, "joined", counted)
    topic = make_topic(1)
    one, two, three = Settler(), Settler(), Settler()
    async with feeding(kafka, topic, two):
        await two.until(lambda: len(two.consumer.partitions) == 1)
        async with feeding(kafka, topic, one):
            watch = one.consumer._rebalance._join_watch
            await one.until(lambda: watch in joins)
            assert watch.handover_until == 0.0
            await asyncio.to_thread(await asyncio.to_thread(expelling, kafka, f"g-{topic}"))
            await one.until(lambda: watch.handover_until > 0.0)
            watch.handover_until = 0.0
            await two.consumer.stop(1.0)
            consumers.fill(kafka, topic, 10)
            await one.until(lambda: len(one.got) == 10)
            joins.clear()
            async with feeding(kafka, topic, three):
                await one.until(lambda: watch in joins)
            assert watch.handover_until == 0.0


@noticing
async def test_a_trigger_keeps_nothing(kafka: EmbeddedKafka, make_topic: Callable[..., str], noticed: bool) -> None:
    topic = make_topic(2)
    async with working(kafka) as one:
        first, second = Trigger(kafka, topic, "a"), Trigger(kafka, topic, "a")
        one.add(first)
        fanout.fill(kafka, topic, ["a"] * 200, 2)
        await until("all is read", lambda: len(first.got) == 200, one)
        await fanout.commits_reach(kafka, first, 200)
        first.slow = True
        fanout.fill(kafka, topic, ["a"] * 200, 2)
        await until("the rest is in flight", lambda: len(first.kept) == 200, one)
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
            await until("each has one", lambda: len(first.member.states) == len(second.member.states) == 1, one, two)
        fanout.fill(kafka, topic, ["a"] * 20, 2)
        await until("all is read", lambda: {(0, 209), (1, 209)} <= {*first.got}, one)
    assert fanout.committed(kafka, first) == 420
    assert not noticed or len(first.got) == len({*first.got})
