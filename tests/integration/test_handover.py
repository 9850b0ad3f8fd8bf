"""What a worker settled while Kafka was out of reach is not delivered again by the worker that gets the partition."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agents.config import DeliveryConfig
from agents.consumer import membership
from agents.consumer.consumer import SubscriptionConsumer
from agents.ordering.partition import PartitionState
from tests.integration import consumers
from tests.integration.consumers import LIMIT_S, Settler, settings_of, subscription
from tests.support import fanout
from tests.support.fanout import Trigger, commits_reach, until, working
from tests.support.kafka_cluster import Bootstrap, Direct, KafkaCluster

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

NEVER_S = 10_000.0
#: The next owner joins while this session runs, so its join takes longer than its own session would.
LONG_S, SHORT_S = 12.0, 6.0


@pytest.fixture
def topic(proxied: KafkaCluster, topic_name: Callable[[], str]) -> str:
    name = topic_name()
    proxied.create_topic(name)
    return name


@asynccontextmanager
async def consuming(
    topic: str, owner: Settler, kafka: dict[str, Any], session_timeout_s: float
) -> AsyncIterator[SubscriptionConsumer]:
    config = DeliveryConfig(kafka, session_timeout_s=session_timeout_s, commit_interval_s=0.1, drain_s=1.0)
    owner.consumer = SubscriptionConsumer(subscription(topic), config, owner, owner.observe)
    owner.consumer.start()
    try:
        yield owner.consumer
    finally:
        await owner.consumer.stop(1.0)


async def committed(kafka: Bootstrap, topic: str, offset: int) -> None:
    async with asyncio.timeout(LIMIT_S):
        while (await asyncio.to_thread(consumers.committed, kafka, topic))[0] != offset:
            await asyncio.sleep(0.1)


async def ten_of_which_one_is_not_committed(
    owner: Settler, kafka: KafkaCluster, topic: str, away: Callable[[], None]
) -> None:
    """The last is settled when Kafka is out of reach."""
    owner.settle = lambda record: record.offset != 9
    consumers.fill(Direct(kafka.direct), topic, 10)
    await owner.until(lambda: len(owner.got) == 10)
    await asyncio.wait_for(owner.consumer.commits.barrier(owner.partitions[0]), LIMIT_S)
    away()
    owner.partitions[0].tracker.settle(9)
    owner.consumer.commits.schedule_commit()
    await owner.until(lambda: owner.consumer.commits.silent)


async def test_who_joined_for_longer_than_a_session_waits_for_the_former_owner(
    proxied: KafkaCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It owned nothing before, so that it has lost nothing, and only the length of its join shows the outage."""
    monkeypatch.setattr(membership, "HANDOVER_S", NEVER_S)
    one, two, direct = Settler(), Settler(), Direct(proxied.direct)
    settings = settings_of(proxied.bootstrap)
    async with consuming(topic, one, settings, LONG_S):
        await ten_of_which_one_is_not_committed(one, proxied, topic, proxied.brokers[0].proxy.blackhole)
        async with consuming(topic, two, settings_of(direct.bootstrap), SHORT_S) as heir:
            await two.until(lambda: heir.rebalances["assigned"] == 1)
            proxied.brokers[0].proxy.forward()
            await committed(direct, topic, 10)
            assert two.got == []
            heir._rebalance._join_watch.handover_until = 0.0
            consumers.fill(direct, topic, 1)
            await two.until(lambda: bool(two.got))
    assert two.got == [(0, 10)]


async def test_the_next_owner_of_a_fan_out_waits_for_the_former_one(
    proxied: KafkaCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership, "HANDOVER_S", NEVER_S)
    direct = Direct(proxied.direct)
    settings, first, second = settings_of(proxied.bootstrap), Trigger(direct, topic, "a"), Trigger(direct, topic, "a")
    async with working(direct, settings=settings, session_timeout_s=LONG_S) as one:
        one.add(first)
        fanout.fill(direct, topic, ["a"] * 9)
        await until("nine are read", lambda: len(first.got) == 9, one)  # a new Kafka has coordinators by then
        await commits_reach(direct, first, 9, one)
        first.slow = True
        fanout.fill(direct, topic, ["a"])
        await until("all is read", lambda: len(first.got) == 10, one)
        proxied.brokers[0].proxy.blackhole()
        first.settle()
        await until("Kafka is silent", lambda: first.member.commits.silent, one)
        async with working(direct, session_timeout_s=SHORT_S) as two:
            two.add(second)
            heir = two.fanouts._fanouts[topic]._consumer
            await until("it is assigned", lambda: heir.rebalances["assigned"] == 1, one, two)
            proxied.brokers[0].proxy.forward()
            await commits_reach(direct, first, 10, one, two)
            assert second.got == []
            heir._join_watch.handover_until = 0.0
            fanout.fill(direct, topic, ["a"])
            await until("all is read", lambda: bool(second.got), one, two)
    assert second.got == [(0, 10)]


async def test_what_is_settled_is_handed_over_although_the_commit_machine_rests_meanwhile(
    proxied: KafkaCluster, topic: str
) -> None:
    """Nothing is owned while the lost partitions are drained, so nothing waits to be committed. Kafka was silent all
    the same."""

    class Resting(Settler):
        async def drain(self, partitions: Sequence[PartitionState], limit_s: float) -> None:
            self.consumer.commits.give_up_flight()  # as if Kafka had refused it
            await self.until(lambda: not self.consumer.commits.silent)
            await super().drain(partitions, limit_s)

    one, two, direct = Resting(), Settler(lambda _: False), Direct(proxied.direct)
    settings = settings_of(proxied.bootstrap)
    async with consuming(topic, one, settings, SHORT_S) as former:
        await ten_of_which_one_is_not_committed(one, proxied, topic, proxied.brokers[0].proxy.refuse)
        await one.until(lambda: former.rebalances["lost"] == 1)
        async with consuming(topic, two, settings_of(direct.bootstrap), SHORT_S):
            await two.until(lambda: two.got == [(0, 9)])
            proxied.brokers[0].proxy.forward()
            await committed(direct, topic, 10)
