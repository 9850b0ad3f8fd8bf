"""What a worker settled while Kafka was out of reach is not delivered again by the worker that gets the partition."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agents.reader import membership
from tests.integration.reading import Trigger, Worker, commits_reach, committed, fill, settings_of, until, working
from tests.support.kafka_cluster import Direct, KafkaCluster

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

NEVER_S = 10_000.0
#: The next owner joins while this session runs, so its join takes longer than its own session would.
LONG_S, SHORT_S = 12.0, 6.0


@pytest.fixture
def topic(proxied: KafkaCluster, topic_name: Callable[[], str]) -> str:
    name = topic_name()
    proxied.create_topic(name)
    return name


async def ten_of_which_one_is_not_committed(
    trigger: Trigger, worker: Worker, kafka: KafkaCluster, topic: str, away: Callable[[], None]
) -> None:
    """The last is settled when Kafka is out of reach."""
    direct = Direct(kafka.direct)
    worker.add(trigger)
    fill(direct, topic, ["a"] * 9)
    await until("nine are read", lambda: len(trigger.got) == 9, worker)  # a new Kafka has coordinators by then
    await commits_reach(direct, trigger, 9, worker)
    trigger.slow = True
    fill(direct, topic, ["a"])
    await until("all is read", lambda: len(trigger.got) == 10, worker)
    away()
    trigger.settle()
    await until("Kafka is silent", lambda: trigger.member.commits.silent, worker)


async def test_who_joined_for_longer_than_a_session_waits_for_the_former_owner(
    proxied: KafkaCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It owned nothing before, so that it has lost nothing, and only the length of its join shows the outage."""
    monkeypatch.setattr(membership, "HANDOVER_S", NEVER_S)
    direct = Direct(proxied.direct)
    settings, first, second = settings_of(proxied.bootstrap), Trigger(direct, topic, "a"), Trigger(direct, topic, "a")
    async with working(direct, settings=settings, session_timeout_s=LONG_S) as worker:
        await ten_of_which_one_is_not_committed(first, worker, proxied, topic, proxied.brokers[0].proxy.blackhole)
        async with working(direct, session_timeout_s=SHORT_S) as two:
            two.add(second)
            heir = two.reader(topic)
            await until("it is assigned", lambda: heir.rebalances["assigned"] == 1, worker, two)
            proxied.brokers[0].proxy.forward()
            await commits_reach(direct, first, 10, worker, two)
            assert second.got == []
            heir._join_watch.handover_until = 0.0
            fill(direct, topic, ["a"])
            await until("all is read", lambda: bool(second.got), worker, two)
    assert second.got == [(0, 10)]


async def test_who_is_cut_off_for_longer_than_its_session_repeats_only_what_is_not_committed(
    proxied: KafkaCluster, topic: str
) -> None:
    """Kafka was silent for this worker alone, so others go on at once: what it had settled since its last commit comes
    again, although nothing was killed. When it is back, it commits none of that."""
    direct = Direct(proxied.direct)
    settings, first, second = settings_of(proxied.bootstrap), Trigger(direct, topic, "a"), Trigger(direct, topic, "a")
    async with working(direct, settings=settings, session_timeout_s=SHORT_S) as worker:
        await ten_of_which_one_is_not_committed(first, worker, proxied, topic, proxied.brokers[0].proxy.blackhole)
        async with working(direct, session_timeout_s=SHORT_S) as two:
            two.add(second)
            await until("its session is over, and the other goes on", lambda: bool(second.got), worker, two)
            fill(direct, topic, ["a"] * 5)
            await until("all is read", lambda: len(second.got) == 6, worker, two)
            await commits_reach(direct, first, 15, worker, two)
            proxied.brokers[0].proxy.forward()
            await until("it is heard of", lambda: worker.reader(topic).rebalances["lost"] == 1, worker, two)
            assert second.got == [(0, offset) for offset in range(9, 15)]
            assert committed(direct, first) == 15
