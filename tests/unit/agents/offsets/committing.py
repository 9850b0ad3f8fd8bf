"""Commits with a clock that jumps, which are noted and answered when a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from confluent_kafka import KafkaError, TopicPartition

from agents.offsets.commits import Answered, Commits
from agents.offsets.offset_tracker import OffsetTracker
from agents.offsets.partition import PartitionState
from penstock.virtual_loop import VirtualLoop

INTERVAL_S = 0.5
TIMEOUT_S = 2.0
REBALANCING = KafkaError(KafkaError.REBALANCE_IN_PROGRESS)


class Notes:
    """What sends commits: it notes them, and whom to answer."""

    def __init__(self) -> None:
        self.sent: list[dict[int, int]] = []
        self.unanswered: list[tuple[list[TopicPartition], Answered]] = []

    def send(self, offsets: list[TopicPartition], answered: Answered) -> None:
        """Note it."""
        self.sent.append({place.partition: place.offset for place in offsets})
        self.unanswered.append((offsets, answered))


def settle(partition: PartitionState) -> None:
    """One more record."""
    offset = partition.tracker.committable
    partition.tracker.add(offset)
    partition.tracker.settle(offset)


def moved(number: int) -> PartitionState:
    """A partition with one settled record."""
    partition = PartitionState("t", number, OffsetTracker(0))
    settle(partition)
    return partition


def clean(number: int) -> PartitionState:
    """A partition of which everything is committed."""
    partition = moved(number)
    partition.committed = partition.tracker.changes
    return partition


def fail(problem: BaseException) -> None:
    """Nothing is fatal here."""
    raise AssertionError(problem)


def freeze(seconds: float) -> None:
    """The process stands still."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.frozen(seconds)


class Committing:
    """Commits whose clock jumps, and what sends them on request."""

    def __init__(self, *partitions: PartitionState, fatal: Callable[[BaseException], None] = fail) -> None:
        self.partitions = {partition.number: partition for partition in partitions}
        self.waits: list[bool] = []
        self.silent: list[bool] = []
        self.notes = Notes()
        self.commits = Commits(
            "ns/s", INTERVAL_S, fatal, self.notes.send, timeout_s=TIMEOUT_S, waiting=lambda on: self._on_waiting(on)
        )
        self.commits.attach(self.partitions)

    def _on_waiting(self, on: bool) -> None:
        self.waits.append(on)
        self.silent.append(self.commits.silent)

    @property
    def sent(self) -> list[dict[int, int]]:
        return self.notes.sent

    def send(self) -> None:
        """What follows when Kafka has confirmed the assignment."""
        self.commits.send_requested()

    async def requested(self) -> None:
        """Something has changed, and the interval is over."""
        self.commits.schedule_commit()
        await asyncio.sleep(INTERVAL_S + 0.01)

    async def flying(self) -> None:
        """And the commit is sent."""
        await self.requested()
        self.send()

    async def answered(self, error: KafkaError | None = None) -> None:
        """Kafka's answer to the oldest one."""
        _, answered = self.notes.unanswered.pop(0)
        answered(error)
        await asyncio.sleep(0)
