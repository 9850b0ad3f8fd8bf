"""What is sent when, for a consumer that only notes it: the real one is in the integration tests."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from agents.consumer.commits import Commits
from agents.ordering.offset_tracker import OffsetTracker
from agents.ordering.partition import PartitionState

pytestmark = pytest.mark.asyncio


class Notes:
    """A consumer, as far as commits go."""

    def __init__(self) -> None:
        self.sent: list[dict[int, int]] = []
        self.last: list[TopicPartition] = []

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> list[TopicPartition] | None:
        """Note it; one that waits for the answer gets it."""
        self.sent.append({p.partition: p.offset for p in offsets})
        self.last = offsets
        return None if asynchronous else offsets


class Later:
    """An event loop whose clock is somebody else's."""

    def __init__(self, loop: asyncio.AbstractEventLoop, time: Callable[[], float]) -> None:
        self._loop = loop
        self.time = time

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)


def moved(number: int) -> PartitionState:
    """A partition with one settled record."""
    partition = PartitionState("t", number, OffsetTracker(0))
    partition.tracker.add(0)
    partition.tracker.settle(0)
    return partition


def fail(problem: BaseException) -> None:
    """Nothing is fatal here."""
    raise AssertionError(problem)


async def requested(partitions: dict[int, PartitionState], fatal: Callable[[BaseException], None] = fail) -> Commits:
    """With a request that waits for the thread."""
    commits = Commits("ns/s", 0.001, fatal)
    commits.attach(partitions)
    commits.schedule_commit()
    async with asyncio.timeout(10):
        while not commits._flight:
            await asyncio.sleep(0.001)
    return commits


async def test_what_was_let_go_since_is_not_committed_again() -> None:
    partitions: dict[int, PartitionState] = {0: moved(0), 1: moved(1), 2: moved(2)}
    commits = await requested(partitions)
    del partitions[0]
    partitions[1] = PartitionState("t", 1, OffsetTracker(50))  # came back meanwhile
    consumer: Any = Notes()
    commits.send_requested(consumer)
    assert consumer.sent == [{2: 1}]


async def test_a_request_of_which_nothing_is_left_does_not_stop_later_ones() -> None:
    partitions: dict[int, PartitionState] = {0: moved(0)}
    commits = await requested(partitions)
    del partitions[0]
    consumer: Any = Notes()
    commits.send_requested(consumer)
    partitions[1] = moved(1)
    commits.schedule_commit()
    async with asyncio.timeout(10):
        while not consumer.sent:
            await asyncio.sleep(0.001)
            commits.send_requested(consumer)
    assert consumer.sent == [{1: 1}]


async def test_a_barrier_opens_after_the_refusal_of_a_rebalance() -> None:
    partitions: dict[int, PartitionState] = {0: moved(0)}
    commits = await requested(partitions)
    consumer: Any = Notes()
    commits.send_requested(consumer)
    barrier = asyncio.ensure_future(commits.barrier(partitions[0]))
    commits.on_commit(KafkaError(KafkaError.REBALANCE_IN_PROGRESS), [])
    async with asyncio.timeout(10):
        while len(consumer.sent) < 2:
            await asyncio.sleep(0.001)
            commits.send_requested(consumer)
    assert not barrier.done()
    commits.on_commit(None, [TopicPartition("t", 0, 1)])
    await asyncio.wait_for(barrier, 10)


async def test_hundreds_that_wait_for_one_commit_go_on_in_several_turns() -> None:
    partitions: dict[int, PartitionState] = {0: moved(0)}
    commits = await requested(partitions)
    consumer: Any = Notes()
    commits.send_requested(consumer)
    barriers = [asyncio.ensure_future(commits.barrier(partitions[0])) for _ in range(500)]
    await asyncio.sleep(0)
    commits.on_commit(None, [TopicPartition("t", 0, 1)])
    seen: list[int] = []
    async with asyncio.timeout(10):
        while not seen or seen[-1] < len(barriers):
            await asyncio.sleep(0)
            seen.append(sum(barrier.done() for barrier in barriers))
    assert max(after - before for before, after in itertools.pairwise(seen)) <= 100


async def test_what_is_denied_for_long_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without commits all that is delivered comes again after a restart; a moment without them passes."""
    problems: list[BaseException] = []
    partitions: dict[int, PartitionState] = {0: moved(0)}
    commits = await requested(partitions, problems.append)
    denied = KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)
    hour = [1_000.0]
    monkeypatch.setattr(commits, "_loop", Later(commits._loop, lambda: hour[0]))

    async def answered(error: KafkaError | None) -> None:
        async with asyncio.timeout(10):
            while not commits._flight:
                await asyncio.sleep(0.001)
        commits.send_requested(Notes())  # type: ignore[arg-type]
        hour[0] += 45
        commits.on_commit(error, [])
        await asyncio.sleep(0.005)

    await answered(denied)
    await answered(denied)
    assert problems == []
    await answered(None)
    partitions[0].tracker.add(1)
    partitions[0].tracker.settle(1)
    commits.schedule_commit()
    await answered(denied)
    await answered(denied)
    assert problems == []
    await answered(denied)
    assert [problem.args[0] for problem in problems] == [denied]


async def test_nothing_waits_for_a_commit_of_which_nobody_hears() -> None:
    """Who drains does not poll: what is on its way is given up, others are made, and its result counts for nothing."""
    partitions: dict[int, PartitionState] = {0: moved(0)}
    commits = await requested(partitions)
    consumer: Any = Notes()
    commits.send_requested(consumer)
    commits.give_up_flight()
    partitions[0].tracker.add(1)
    partitions[0].tracker.settle(1)
    barrier = asyncio.ensure_future(commits.barrier(partitions[0]))
    async with asyncio.timeout(10):
        while not barrier.done():
            commits.send_requested(consumer, wait=True)
            await asyncio.sleep(0.001)
    assert consumer.sent == [{0: 1}, {0: 2}]
    partitions[0].tracker.failed(2, 1)
    barrier = asyncio.ensure_future(commits.barrier(partitions[0]))
    async with asyncio.timeout(10):
        while len(consumer.sent) < 3:
            commits.send_requested(consumer)
            await asyncio.sleep(0.001)
    commits.on_commit(None, [TopicPartition("t", 0, 1)])  # of the first one
    await asyncio.sleep(0.01)
    assert not barrier.done()
    commits.on_commit(None, consumer.last)
    await asyncio.wait_for(barrier, 10)


async def test_what_the_broker_will_never_take_ends_the_process() -> None:
    problems: list[BaseException] = []
    commits = await requested({0: moved(0)}, problems.append)
    consumer: Any = Notes()
    commits.send_requested(consumer)
    refused = KafkaError(KafkaError.OFFSET_METADATA_TOO_LARGE)
    commits.on_commit(refused, [])
    await asyncio.sleep(0.01)
    assert [problem.args[0] for problem in problems] == [refused]


async def test_a_fault_while_a_commit_is_made_up_ends_the_process() -> None:
    class Broken(OffsetTracker):
        def metadata(self) -> str:
            raise AssertionError("by a test")

    partition = PartitionState("t", 0, Broken(0))
    partition.tracker.failed(0, 1)
    problem: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
    commits = Commits("ns/s", 0.001, problem.set_result)
    commits.attach({0: partition})
    commits.schedule_commit()
    assert str(await asyncio.wait_for(problem, 10)) == "by a test"


async def test_new_events_wait_while_no_commit_has_success() -> None:
    """It begins when a commit is unanswered for the limit, refusals do not end it, success does."""
    waits: list[bool] = []
    partitions: dict[int, PartitionState] = {0: moved(0)}
    commits = Commits("ns/s", 0.001, fail, timeout_s=0.05, waiting=waits.append)
    commits.attach(partitions)
    consumer: Any = Notes()
    commits.schedule_commit()

    async def sent(count: int) -> None:
        async with asyncio.timeout(10):
            while len(consumer.sent) < count:
                await asyncio.sleep(0.001)
                commits.send_requested(consumer)

    async def until(count: int) -> None:
        async with asyncio.timeout(10):
            while len(waits) < count:
                await asyncio.sleep(0.001)

    await sent(1)
    await until(1)
    commits.on_commit(KafkaError(KafkaError.REBALANCE_IN_PROGRESS), consumer.last)
    await sent(2)
    assert waits == [True]
    commits.on_commit(None, consumer.last)
    await until(2)
    assert waits == [True, False]


async def test_a_process_that_was_frozen_does_not_take_kafka_for_silent() -> None:
    """It waits all the same: its session may be over."""
    states: list[tuple[bool, bool]] = []
    commits = Commits("ns/s", 0.001, fail, timeout_s=0.01, waiting=lambda on: states.append((on, commits.silent)))
    commits.attach({0: moved(0)})
    consumer: Any = Notes()
    commits.schedule_commit()
    while not consumer.sent:
        await asyncio.sleep(0)
        commits.send_requested(consumer)
    time.sleep(1.2)  # noqa: ASYNC251 - the timer is due in 10 ms and the event loop stands still
    async with asyncio.timeout(10):
        while not states:
            await asyncio.sleep(0.001)
    assert states == [(True, False)]


async def test_a_lost_group_ends_the_waiting() -> None:
    """Nothing is owned, so nothing waits; an answer that comes later is of no commit."""
    waits: list[bool] = []
    partitions: dict[int, PartitionState] = {0: moved(0)}
    commits = Commits("ns/s", 0.001, fail, timeout_s=0.01, waiting=waits.append)
    commits.attach(partitions)
    consumer: Any = Notes()
    commits.schedule_commit()
    async with asyncio.timeout(10):
        while not waits:
            await asyncio.sleep(0.001)
            commits.send_requested(consumer)
    flying = commits.in_flight
    lost = partitions.pop(0)
    commits.forget()
    assert waits == [True, False]
    assert (flying, commits.in_flight) == (True, False)
    commits.on_commit(None, consumer.last)
    await asyncio.sleep(0.01)
    assert lost.committed == 0


async def test_a_commit_that_was_due_while_another_flew_follows_at_once() -> None:
    """What a kill repeats was settled within one interval and one round trip, not within two intervals."""
    partitions: dict[int, PartitionState] = {0: moved(0)}
    commits = Commits("ns/s", 3600.0, fail)
    commits.attach(partitions)
    consumer: Any = Notes()
    commits.schedule_commit(0.0)
    async with asyncio.timeout(10):
        while not consumer.sent:
            await asyncio.sleep(0.001)
            commits.send_requested(consumer)
    partitions[0].tracker.add(1)
    partitions[0].tracker.settle(1)
    commits.schedule_commit(0.0)
    await asyncio.sleep(0.01)
    assert len(consumer.sent) == 1
    commits.on_commit(None, consumer.last)
    async with asyncio.timeout(10):
        while len(consumer.sent) < 2:
            await asyncio.sleep(0.001)
            commits.send_requested(consumer)
    assert consumer.sent == [{0: 1}, {0: 2}]
