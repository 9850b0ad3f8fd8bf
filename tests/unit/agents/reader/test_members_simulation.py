"""Triggers of one topic under random ranges, slow agents, filters, revocations and a reader for what was missed.

The log has gaps. Whatever the order of ranges: each Trigger gets every event that passes its filter, in offset order
and once, from its start on; and its committable offset passes no event that is not settled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.config import DeliveryConfig
from agents.offsets.partition import PartitionState
from agents.reader import slices
from agents.reader.look_back import look_at
from knative.contract.records import Subscription
from penstock.virtual_loop import run
from tables.clock import now_s
from tables.kafka.admin.answers import GroupOffset
from tests.unit.agents.reader.topic_world import KINDS, Agent, World, positions

pytestmark = pytest.mark.usefixtures("no_threads")

_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["head", "head", "catch up", "agent", "agent", "agent", "revoke", "lose"]), st.integers(0, 40)
    ),
    max_size=80,
)


_LOGS = st.dictionaries(st.integers(0, 200), st.sampled_from(KINDS), max_size=120)
_STARTS = st.lists(st.integers(0, 150), min_size=1, max_size=4)


@settings(deadline=None, max_examples=400)
@given(_LOGS, _STARTS, _STEPS)
def test_every_trigger_gets_its_events_in_order_and_once(
    log: dict[int, str], starts: list[int], steps: list[tuple[str, int]]
) -> None:
    _play(log, starts, steps, None)


@settings(deadline=None, max_examples=400)
@given(_LOGS, _STARTS, _STEPS, st.integers(1, 5))
def test_filters_that_take_long_lose_and_repeat_nothing(
    log: dict[int, str], starts: list[int], steps: list[tuple[str, int]], at_once: int
) -> None:
    """Each step of the fan-out uses up the time that it has, so others have their turn behind it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "SLICE_S", 0.0)
        _play(log, starts, steps, at_once)


def _play(log: dict[int, str], starts: list[int], steps: list[tuple[str, int]], at_once: int | None) -> None:
    """`at_once`: events that the filter of every second Trigger may judge; None = the fan-out is never late."""
    log = dict(sorted(log.items()))

    async def main() -> None:
        world = World(log, [min(start, max(log, default=-1) + 1) for start in starts])
        for agent in world.agents[::2]:
            agent.at_once = at_once or agent.at_once
        await world.assign()
        for what, number in steps:
            for _ in range(number if at_once else 0):
                await asyncio.sleep(0)
            match what:
                case "head":
                    world.head(number + 1)
                case "catch up":
                    world.catch_up(number + 1)
                case "agent":
                    world.agents[number % len(world.agents)].work(number)
                case "revoke":
                    await world.revoke()
                case "lose":
                    await world.lose()
            _check(world)
        for _ in range(2_000):
            if all(
                agent.member.states[0].position >= world.end and not agent.unsettled and not agent.queue
                for agent in world.agents
            ):
                break
            world.head(50)
            world.catch_up(50)
            for agent in world.agents:
                agent.work(10)
            await asyncio.sleep(0)
        _check(world)
        for agent, start in zip(world.agents, world.starts, strict=True):
            expected = [at for at, kind in log.items() if at >= start and agent.type in ("", kind)]
            assert sorted(agent.got) == expected
            assert agent.member.states[0].tracker.committable == max(world.end, start)

    run(main())


def _check(world: World) -> None:
    for agent, start in zip(world.agents, world.starts, strict=True):
        state = agent.member.states[0]
        unsettled = [delivery.offset for delivery in agent.unsettled if delivery.partition is state]
        assert unsettled == sorted(set(unsettled))
        assert all(offset >= state.tracker.committable for offset in unsettled)
        missing = [
            at
            for at, kind in world.log.items()
            if start <= at < state.tracker.fetched and agent.type in ("", kind) and at not in agent.got
        ]
        assert not missing, "skipped, and never delivered"


def test_lone_trigger_takes_all_that_is_read_and_needs_no_second_reader() -> None:
    """However much it holds by then: what is read twice is read one partition at a time."""

    async def main() -> None:
        world = World(dict.fromkeys(range(90), "a"), [0])
        await world.assign()
        for _ in range(3):
            world.head(30)  # 30,000 bytes of a budget of 20,000
            assert world.fanout.next_turn() is None
        world.agents[0].work(0)
        assert world.agents[0].got == list(range(90))

    run(main())


def test_range_from_before_a_loss_does_not_set_the_end_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a Trigger that is far behind would not be seen to be, until the next event."""
    monkeypatch.setattr(slices, "SLICE_S", 0.0)

    async def main() -> None:
        world, held_up = World(dict.fromkeys(range(150), "a"), [0, 0]), True

        def others() -> Iterator[None]:
            while held_up:
                yield

        await world.assign()
        world.fanout._work.add(others())
        world.head(5)
        await world.fanout.lose([0], 0.0)
        for group, offset in (("g0", 100), ("g1", 50)):
            world.groups.offsets[group] = GroupOffset(offset, "")
        await world.assign()
        held_up = False
        await asyncio.sleep(0.1)
        assert [positions(agent.member) for agent in world.agents] == [{0: 100}, {0: 50}]
        assert world.fanout.next_turn() == (0, 50)

    run(main())


def test_of_triggers_that_are_all_full_only_the_quickest_takes_more() -> None:
    async def main() -> None:
        world = World(dict.fromkeys(range(90), "a"), [0, 0])
        await world.assign()
        slow, quick = world.agents
        quick.type = "a"
        world.head(30)
        quick.work(2)
        assert world.fanout.quickest(0) is quick.member.states[0]
        world.head(30)
        assert (slow.member.states[0].position, quick.member.states[0].position) == (30, 60)
        quick.member.fail(0, "stopped")
        assert world.fanout.quickest(0) is None, "the other one is behind"

    run(main())


def test_commit_that_was_delayed_is_not_sent_after_a_loss() -> None:
    """The partition may have come back since, and its offset may be further."""

    async def main() -> None:
        world = World(dict.fromkeys(range(10), "a"), [0])
        await world.assign()
        world.fanout.confirmed(now_s())
        world.head(10)
        world.agents[0].work(5)
        world.agents[0].member.commits.schedule_commit()
        await asyncio.sleep(1.0)
        world.fanout.confirmed(now_s())
        (claim,) = world.groups.claims
        assert claim()
        await world.lose()
        world.fanout.confirmed(now_s())
        assert not claim()

    run(main())


def test_loss_does_not_wait_for_the_offsets_of_a_trigger_that_has_just_joined() -> None:
    """And what was read before the loss does not count after it: another worker may have settled more."""

    async def main() -> None:
        world = World(dict.fromkeys(range(10), "a"), [0])
        await world.assign()
        answer, read = asyncio.Event(), world.groups.read

        async def late(topic: str, subscriptions: Sequence[Subscription], numbers: Sequence[int]) -> Any:
            offsets = await read(topic, subscriptions, numbers)
            if not answer.is_set():
                await answer.wait()
            return offsets

        world.groups.read = late  # type: ignore[method-assign]
        world.groups.offsets["g1"] = GroupOffset(3, "")
        joined = Agent("a")
        world.join(1, joined)
        await asyncio.sleep(0.1)
        async with asyncio.timeout(1.0):
            await world.fanout.lose([0], 0.0)
        world.groups.offsets["g1"] = GroupOffset(7, "")
        assigned = asyncio.ensure_future(world.assign())
        await asyncio.sleep(0.1)
        answer.set()
        await assigned
        await asyncio.sleep(0.1)
        assert positions(joined.member) == {0: 7}

    run(main())


def test_what_was_read_for_a_partition_that_was_lost_opens_nothing() -> None:
    async def main() -> None:
        world = World(dict.fromkeys(range(10), "a"), [0])
        await world.assign()
        answer, read = asyncio.Event(), world.groups.read

        async def late_once(topic: str, subscriptions: Sequence[Subscription], numbers: Sequence[int]) -> Any:
            offsets = await read(topic, subscriptions, numbers)
            world.groups.read = read  # type: ignore[method-assign]
            await answer.wait()
            return offsets

        world.groups.read = late_once  # type: ignore[method-assign]
        world.groups.offsets["g1"] = GroupOffset(3, "")
        joined = Agent("a")
        world.join(1, joined)
        await asyncio.sleep(0.1)
        await world.fanout.lose([0], 0.0)
        world.groups.offsets["g1"] = GroupOffset(7, "")
        answer.set()
        await asyncio.sleep(0.1)
        assert positions(joined.member) == {}
        await world.assign()
        assert positions(joined.member) == {0: 7}

    run(main())


def test_old_confirmation_counts_no_more() -> None:
    async def main() -> None:
        world = World({0: "a"}, [0])
        seen = [world.fanout.confirmed_lately]
        for age_s in (0.0, DeliveryConfig({}).expelled_after_s / 2):
            world.fanout.confirmed(now_s() - age_s)
            seen.append(world.fanout.confirmed_lately)
        assert seen == [False, True, False]

    run(main())


def test_nothing_stays_of_the_turns_of_a_trigger_that_left() -> None:
    async def main() -> None:
        world = World(dict.fromkeys(range(100), "a"), [0, 0])
        await world.assign()
        world.position = 90
        world.head(5)  # which leaves both behind
        for _ in range(4):
            world.catch_up(5)
        assert {uid for uid, _ in world.fanout._turns} == {"u0", "u1"}
        await world.agents[0].member.stop(0.0)
        assert {uid for uid, _ in world.fanout._turns} == {"u1"}

    run(main())


def test_trigger_whose_leave_is_cut_off_is_gone_all_the_same() -> None:
    async def main() -> None:
        world = World({0: "a"}, [0])
        await world.assign()
        member = world.agents[0].member

        async def hang(partitions: Sequence[PartitionState], limit_s: float) -> None:
            await asyncio.sleep(3_600)

        world.agents[0].drain = hang  # type: ignore[method-assign]
        await member.stop(0.0)
        assert (member.partitions, world.emptied) == ([], [world.fanout])

    run(main())


def test_owner_commits_again_what_was_set_back_unless_it_has_more_to_commit() -> None:
    async def main() -> None:
        world = World(dict.fromkeys(range(10), "a"), [0])
        await world.assign()
        world.head(10)
        world.agents[0].work(20)
        member, groups = world.agents[0].member, world.groups
        changes = (tracker := member.states[0].tracker).changes
        await look_at(member, groups)  # type: ignore[arg-type]
        assert tracker.changes == changes
        member.states[0].committed = changes
        await look_at(member, groups)  # type: ignore[arg-type]
        assert tracker.changes == changes + 1

    run(main())
