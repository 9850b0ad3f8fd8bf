"""A commit that reaches Kafka late, when another worker has gone on, does not set the offsets of a Trigger back.

one:  commits 38 ------ into a network that is cut in this direction -------> arrives, or never
two:                    takes over, settles up to 488, is idle            ^
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from agents.offsets.commit_state import CommitState
from agents.offsets.partition import PartitionState
from tests.integration.reading import LIMIT_S, Trigger, Worker, commits_reach, fill, offsets_of, until, working
from tests.support.kafka_cluster import KafkaCluster
from tests.support.ledger import reader

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

READ, FIRST, LATE, ALL = 40, 30, 38, 488
_CLOSED_S = 10.0  # after that, a client has given up what is not answered, and has closed the connection


class Direct:
    """The same Kafka past its proxy."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self.bootstrap = cluster.direct


class Owner(Trigger):
    """Knows what it has got before it has its partition again."""

    before = 0

    def opened(self, partitions: Sequence[PartitionState]) -> None:
        super().opened(partitions)
        self.before = len(self.got)


@asynccontextmanager
async def taken_over(proxied: KafkaCluster, topic: str, *, keep: bool) -> AsyncIterator[tuple[Worker, Trigger]]:
    """The second worker, which has settled everything, while the first one's last commit is on its way."""
    proxied.create_topic(topic)
    proxy, direct = proxied.brokers[0].proxy, Direct(proxied)
    reported: dict[int, int] = {}
    async with working(proxied, reported=reported) as worker, working(direct) as two:
        first, second = Owner(proxied, topic, "t"), Trigger(proxied, topic, "t")
        first.slow = True
        worker.add(first)
        fill(direct, topic, ["a"] * READ)
        await until("all is read", lambda: len(first.kept) == READ, worker)
        two.add(second)
        _settle(first, 0, FIRST)
        await commits_reach(direct, first, FIRST)
        proxy.cut(keep=keep)
        try:
            _settle(first, FIRST, LATE)
            machine = first.member.commits._machine
            await until("its commit is on its way", lambda: machine.state is CommitState.SENT, worker)
            fill(direct, topic, ["a"] * (ALL - READ))
            await until("the other has all", lambda: len(offsets_of(second)) == ALL - FIRST, worker, two)
            await commits_reach(direct, second, ALL)
            reported |= second.member.confirmed
            await asyncio.sleep(_CLOSED_S)
            yield two, second
            await until("the first worker has the partition again", lambda: bool(first.member.states), worker)
        finally:
            proxy.forward()
        fill(direct, topic, ["a"])
        await until("the next one comes", lambda: offsets_of(first)[-1] == ALL, worker)
        assert first.got[first.before :] == [(0, ALL)], "something has come again"


def _settle(trigger: Trigger, start: int, end: int) -> None:
    for delivery in trigger.kept[start:end]:
        delivery.partition.tracker.settle(delivery.offset)
    trigger.member.commits.schedule_commit()


def _history(proxied: KafkaCluster, trigger: Trigger) -> list[int]:
    """What was committed, in order."""
    return [commit.offset for commit in reader.committed(proxied.direct, [trigger.subscription.group])]


async def test_what_is_not_delivered_in_time_never_arrives(proxied: KafkaCluster) -> None:
    async with taken_over(proxied, "never-arrives", keep=False) as (two, second):
        proxied.brokers[0].proxy.forward()
        await asyncio.sleep(2.0)  # too short finds nothing, and never fails
        await two.remove(second)
    history = await asyncio.to_thread(_history, proxied, second)
    assert (history, history[-1]) == (sorted(history), ALL)


async def test_idle_owner_commits_again_what_a_proxy_has_set_back(proxied: KafkaCluster) -> None:
    async with taken_over(proxied, "set-back", keep=True) as (two, second):
        await _arrives(proxied, second)
        await commits_reach(Direct(proxied), second, ALL)
        await two.remove(second)


async def test_who_follows_an_owner_that_is_gone_begins_where_that_one_was(proxied: KafkaCluster) -> None:
    """It was killed after the old commit had arrived, and before it looked."""
    async with taken_over(proxied, "owner-gone", keep=True) as (two, second):
        await two.remove(second)
        await _arrives(proxied, second)
        await commits_reach(Direct(proxied), second, ALL)


async def _arrives(proxied: KafkaCluster, trigger: Trigger) -> None:
    """The end of the cut, until the late commit has arrived."""
    assert LATE not in await asyncio.to_thread(_history, proxied, trigger)
    proxied.brokers[0].proxy.forward()
    async with asyncio.timeout(LIMIT_S):
        while LATE not in await asyncio.to_thread(_history, proxied, trigger):
            await asyncio.sleep(0.05)
