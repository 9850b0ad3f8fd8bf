"""What happens to a range that is handed out while a Trigger joins, or while partitions go and come."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from agents.reader import slices
from agents.reader.catch_up import CatchUp
from knative.contract.records import Subscription
from penstock.virtual_loop import run
from tables.kafka.admin.answers import GroupOffset
from tests.unit.agents.reader.topic_world import Agent, World, positions

pytestmark = pytest.mark.usefixtures("no_threads")


def test_trigger_that_joins_while_a_range_is_handed_out_catches_up(monkeypatch: pytest.MonkeyPatch) -> None:
    woken: list[CatchUp] = []
    monkeypatch.setattr(CatchUp, "wake", lambda self: woken.append(self))
    monkeypatch.setattr(slices, "SLICE_S", 0.0)

    async def main() -> None:
        world = World(dict.fromkeys(range(5), "a"), [0, 0])
        await world.assign()
        world.head(5)
        world.groups.offsets["g2"] = GroupOffset(0, "")
        joined = Agent("a")
        world.join(2, joined)
        await asyncio.sleep(0.1)
        assert (positions(joined.member), joined.got, len(woken)) == ({0: 0}, [], 1)
        assert world.fanout.next_turn() == (0, 0)

    run(main())


def test_what_was_read_for_a_lone_trigger_is_read_again_for_one_that_has_joined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its records are deliveries of the other one."""
    woken: list[CatchUp] = []
    monkeypatch.setattr(CatchUp, "wake", lambda self: woken.append(self))

    async def main() -> None:
        world = World(dict.fromkeys(range(5), "a"), [0])
        await world.assign()
        alone = world.agents[0]
        read = world.range(0, 5, world.fanout.lone(0))
        world.groups.offsets["g1"] = GroupOffset(0, "")
        joined = Agent("a")
        world.join(1, joined)
        await asyncio.sleep(0.1)
        assert world.fanout.lone(0) is None
        world.fanout.take([read])
        assert (positions(alone.member), positions(joined.member), len(woken)) == ({0: 5}, {0: 0}, 1)
        alone.work(0)
        assert all(delivery is record for delivery, record in zip(alone.unsettled, read.records, strict=True))
        world.catch_up(5)
        joined.work(0)
        assert joined.got == alone.got == list(range(5))

    run(main())


def test_trigger_whose_partition_opens_while_a_range_is_handed_out_catches_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has joined before, and Kafka has answered only after its turn: no later record may come to wake the reader."""
    woken: list[CatchUp] = []
    monkeypatch.setattr(CatchUp, "wake", lambda self: woken.append(self))

    async def main() -> None:
        world = World(dict.fromkeys(range(5), "a"), [0])
        await world.assign()
        answer, read = asyncio.Event(), world.groups.read

        async def late(topic: str, subscriptions: Sequence[Subscription], numbers: Sequence[int]) -> Any:
            await answer.wait()
            return await read(topic, subscriptions, numbers)

        world.groups.read = late  # type: ignore[method-assign]
        world.groups.offsets["g1"] = GroupOffset(0, "")
        joined = Agent("a")
        world.join(1, joined)
        world.fanout._members.reverse()  # so that its turn comes first
        await asyncio.sleep(0.1)
        assert positions(joined.member) == {}
        steps = world.fanout._take([world.range(0, 5)])
        for _ in world.fanout._members:
            next(steps)  # the turn of the second one comes next
        answer.set()
        await asyncio.sleep(0.1)
        assert woken == []
        assert list(steps) == []
        assert (positions(joined.member), joined.got, len(woken)) == ({0: 0}, [], 1)
        assert world.fanout.next_turn() == (0, 0)

    run(main())


def test_range_from_before_a_partition_came_back_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    woken: list[CatchUp] = []
    monkeypatch.setattr(CatchUp, "wake", lambda self: woken.append(self))

    async def main() -> None:
        world = World(dict.fromkeys(range(5), "a"), [0])
        await world.assign()
        read = world.range(0, 5, world.fanout.lone(0))
        await world.lose()
        world.fanout.take([read])
        assert (positions(world.agents[0].member), len(woken)) == ({0: 0}, 1)
        assert world.fanout.next_turn() == (0, 0)

    run(main())
