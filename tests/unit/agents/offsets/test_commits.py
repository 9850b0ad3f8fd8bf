"""What is sent when, for a consumer that only notes it: the real one is in the integration tests."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from confluent_kafka import KafkaError

from agents.offsets.offset_tracker import OffsetTracker
from agents.offsets.partition import PartitionState
from penstock.virtual_loop import run
from tests.unit.agents.offsets.committing import (
    INTERVAL_S,
    REBALANCING,
    TIMEOUT_S,
    Committing,
    clean,
    freeze,
    moved,
    settle,
)


def test_what_was_released_since_is_not_committed_again() -> None:
    async def main() -> None:
        it = Committing(moved(0), moved(1), moved(2))
        await it.requested()
        del it.partitions[0]
        it.partitions[1] = PartitionState("t", 1, OffsetTracker(50))  # came back meanwhile
        it.send()
        assert it.sent == [{2: 1}]

    run(main())


def test_request_of_which_nothing_is_left_does_not_stop_later_ones() -> None:
    async def main() -> None:
        it = Committing(moved(0))
        await it.requested()
        del it.partitions[0]
        it.send()
        await asyncio.sleep(0)
        it.partitions[1] = moved(1)
        await it.flying()
        assert it.sent == [{1: 1}]

    run(main())


def test_request_of_which_nothing_is_left_confirms_nothing() -> None:
    """Kafka is silent, and another partition has something to commit."""

    async def main() -> None:
        it = Committing(moved(0), clean(1))
        await it.flying()
        await asyncio.sleep(TIMEOUT_S)
        await it.answered(REBALANCING)
        await asyncio.sleep(INTERVAL_S + 0.01)
        settle(it.partitions[1])
        del it.partitions[0]
        it.send()
        await asyncio.sleep(0)
        assert (it.waits, it.commits.silent, it.commits.count) == ([True], True, 0)
        await it.flying()
        await it.answered()
        assert (it.sent, it.waits) == ([{0: 1}, {1: 2}], [True, False])

    run(main())


def test_barrier_opens_after_the_refusal_of_a_rebalance() -> None:
    async def main() -> None:
        it = Committing(moved(0))
        await it.flying()
        barrier = asyncio.ensure_future(it.commits.barrier(it.partitions[0]))
        await asyncio.sleep(0)
        await it.answered(REBALANCING)
        await asyncio.sleep(INTERVAL_S + 0.01)
        it.send()
        assert len(it.sent) == 2
        assert not barrier.done()
        await it.answered()
        await barrier

    run(main())


def test_hundreds_that_wait_for_one_commit_go_on_in_several_turns() -> None:
    async def main() -> None:
        it = Committing(moved(0))
        await it.flying()
        barriers = [asyncio.ensure_future(it.commits.barrier(it.partitions[0])) for _ in range(500)]
        await asyncio.sleep(0)
        it.notes.unanswered[0][1](None)
        seen: list[int] = []
        while not seen or seen[-1] < len(barriers):
            await asyncio.sleep(0)
            seen.append(sum(barrier.done() for barrier in barriers))
        assert max(after - before for before, after in itertools.pairwise(seen)) <= 100

    run(main())


def test_what_is_denied_for_long_ends_the_process() -> None:
    """Without commits all that is delivered comes again after a restart; a moment without them passes."""
    denied = KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)
    problems: list[BaseException] = []

    async def main() -> None:
        it = Committing(moved(0), fatal=problems.append)

        async def after_45_s(error: KafkaError | None) -> None:
            await asyncio.sleep(45)
            it.send()
            await it.answered(error)

        await it.requested()
        await after_45_s(denied)
        await after_45_s(denied)
        await after_45_s(None)
        settle(it.partitions[0])
        it.commits.schedule_commit()
        await after_45_s(denied)
        await after_45_s(denied)
        assert problems == []
        await after_45_s(denied)

    run(main())
    assert [problem.args[0] for problem in problems] == [denied]


def test_what_the_broker_will_never_take_ends_the_process() -> None:
    refused = KafkaError(KafkaError.OFFSET_METADATA_TOO_LARGE)
    problems: list[BaseException] = []

    async def main() -> None:
        it = Committing(moved(0), fatal=problems.append)
        await it.flying()
        await it.answered(refused)

    run(main())
    assert [problem.args[0] for problem in problems] == [refused]


def test_fault_while_a_commit_is_made_up_ends_the_process() -> None:
    class Broken(OffsetTracker):
        def metadata(self) -> str:
            raise AssertionError("by a test")

    problems: list[BaseException] = []

    async def main() -> None:
        partition = PartitionState("t", 0, Broken(0))
        partition.tracker.failed(0, 1)
        await Committing(partition, fatal=problems.append).requested()

    run(main())
    assert [str(problem) for problem in problems] == ["by a test"]


@pytest.mark.parametrize("at", [True, False])
def test_fault_of_those_who_wait_for_kafka_ends_the_process(at: bool) -> None:
    """When the waiting begins, from a timer, and when it ends, from the answer of Kafka."""
    problems: list[BaseException] = []

    class Broken(Committing):
        def _on_waiting(self, on: bool) -> None:
            assert on is not at, "by a test"

    async def main() -> None:
        it = Broken(moved(0), fatal=problems.append)
        await it.flying()
        await asyncio.sleep(TIMEOUT_S + INTERVAL_S)
        await it.flying()
        await it.answered()
        await asyncio.sleep(0)

    run(main())
    assert [str(problem).splitlines()[0] for problem in problems] == ["by a test"]


def test_new_events_wait_while_no_commit_has_success() -> None:
    """It begins when a commit is unanswered for the limit, refusals do not end it, success does."""

    async def main() -> None:
        it = Committing(moved(0))
        await it.flying()
        await asyncio.sleep(TIMEOUT_S)
        assert (it.waits, it.silent) == ([True], [True])
        await it.answered(REBALANCING)
        await it.flying()
        assert it.waits == [True]
        await it.answered()
        assert (it.waits, it.silent) == ([True, False], [True, False])

    run(main())


def test_process_that_was_frozen_does_not_take_kafka_for_silent() -> None:
    """It waits all the same: its session may have ended."""

    async def main() -> None:
        it = Committing(moved(0))
        await it.flying()
        freeze(TIMEOUT_S + 1.2)
        await asyncio.sleep(0.01)
        assert (it.waits, it.silent) == ([True], [False])

    run(main())


def test_process_that_was_frozen_before_its_commit_waits_for_it() -> None:
    async def main() -> None:
        it = Committing(moved(0))
        it.commits.schedule_commit()
        freeze(INTERVAL_S + TIMEOUT_S + 0.1)
        await asyncio.sleep(0.01)
        assert (it.waits, it.silent) == ([True], [False])
        it.send()
        await it.answered()
        assert it.waits == [True, False]

    run(main())


def test_new_events_do_not_wait_for_a_partition_that_is_gone() -> None:
    """It was revoked with its own last commit, and there is nothing to commit for those that stay."""

    async def main() -> None:
        it = Committing(moved(0), clean(1))
        await it.flying()
        await asyncio.sleep(TIMEOUT_S)
        await it.answered(REBALANCING)
        del it.partitions[0]
        assert it.waits == [True]
        await asyncio.sleep(INTERVAL_S + 0.01)
        assert it.waits == [True, False]

    run(main())


def test_new_events_do_not_wait_after_a_freeze_when_nothing_is_to_be_committed() -> None:
    async def main() -> None:
        it = Committing(moved(0), clean(1))
        it.commits.schedule_commit()
        del it.partitions[0]
        freeze(60)
        await asyncio.sleep(1)
        assert it.waits == []

    run(main())


def test_lost_group_ends_the_waiting() -> None:
    """Nothing is owned, so nothing waits; an answer that comes later is of no commit."""

    async def main() -> None:
        it = Committing(moved(0))
        await it.flying()
        await asyncio.sleep(TIMEOUT_S)
        lost = it.partitions.pop(0)
        it.commits.forget()
        assert it.waits == [True, False]
        await it.answered()
        assert lost.committed == 0

    run(main())


def test_commit_that_was_due_while_another_flew_follows_at_once() -> None:
    """What a kill repeats was settled within one interval and one round trip, not within two intervals."""

    async def main() -> None:
        it = Committing(moved(0))
        await it.flying()
        settle(it.partitions[0])
        await it.requested()
        assert len(it.sent) == 1
        await it.answered()
        await asyncio.sleep(0.03)
        it.send()
        assert it.sent == [{0: 1}, {0: 2}]

    run(main())
