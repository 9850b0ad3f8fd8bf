"""Commits with a clock that jumps, a consumer that notes what is sent, and a thread that acts when a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, TopicPartition

from agents.consumer.commits import Commits
from agents.ordering.offset_tracker import OffsetTracker
from agents.ordering.partition import PartitionState
from tests.support.virtual_loop import VirtualLoop

INTERVAL_S = 0.5
TIMEOUT_S = 2.0
REBALANCING = KafkaError(KafkaError.REBALANCE_IN_PROGRESS)


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
    """Commits whose clock jumps, and the thread that sends them on request."""

    def __init__(self, *partitions: PartitionState, fatal: Callable[[BaseException], None] = fail) -> None:
        self.partitions = {partition.number: partition for partition in partitions}
        self.waits: list[bool] = []
        self.silent: list[bool] = []
        self.commits = Commits("ns/s", INTERVAL_S, fatal, timeout_s=TIMEOUT_S, waiting=lambda on: self._on_waiting(on))
        self.commits.attach(self.partitions)
        self.notes: Any = Notes()

    def _on_waiting(self, on: bool) -> None:
        self.waits.append(on)
        self.silent.append(self.commits.silent)

    @property
    def sent(self) -> list[dict[int, int]]:
        sent: list[dict[int, int]] = self.notes.sent
        return sent

    def send(self, wait: bool = False) -> None:
        """What the thread does between two polls."""
        self.commits.send_requested(self.notes, wait=wait)

    async def requested(self) -> None:
        """Something has changed, and the interval is over."""
        self.commits.schedule_commit()
        await asyncio.sleep(INTERVAL_S + 0.01)

    async def flying(self) -> None:
        """And the thread has sent the commit."""
        await self.requested()
        self.send()

    async def answered(self, error: KafkaError | None = None) -> None:
        """Kafka's answer to the last one."""
        self.commits.on_commit(error, self.notes.last)
        await asyncio.sleep(0)
