"""Slows a reader down while too much is held: it waits, or pauses the partitions that make the others wait.

It goes at the pace of the quickest member: for each partition, what that one holds counts.

Checking the budget is expensive. Every check and every client call takes the GIL from the event loop, and while the
thread waits for the GIL each event costs the loop one more system call. So it checks only after 1/16 of the budget or
0.1 s, and sleeps for the time that the subscriber probably needs. `agents/reader/memory_budget` decides which
partitions are paused.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection

from confluent_kafka import Consumer, TopicPartition

from agents.offsets.partition import PartitionState
from agents.reader.memory_budget import MemoryBudget
from agents.timing import FULL_S, MOMENT_S
from tables.timing import POLL_S

_CHECK_PART = 16  # also checks after this fraction of the budget


class Backpressure:
    """Backpressure of one reader. Its thread only, except `taken`. Call `begin` for each new client."""

    def __init__(
        self,
        bytes_max: int,
        stop: threading.Event,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`bytes_max`: of all partitions together. `stop` ends a wait early. Tests pass in their own clock."""
        self._bytes_max = bytes_max
        self._stop = stop
        self._monotonic, self._sleep = monotonic, sleep
        self._handed_bytes = self._taken_bytes = 0
        self.begin()

    def begin(self) -> None:
        """Start with a new client: nothing is held or paused."""
        self.budget = MemoryBudget(self._bytes_max)
        self._unseen_bytes = 0  # handed over since the last check
        self._rests = False  # the last check has found that nothing is held
        self._check_at = 0.0

    def handed(self, size: int) -> None:
        """Records of `size` bytes in total were handed to the event loop."""
        self._handed_bytes += size
        self._unseen_bytes += size

    def taken(self, size: int) -> None:
        """The members have the records of a `handed` of this size. Event loop only."""
        self._taken_bytes += size

    @property
    def _due(self) -> bool:
        if self._rests and not self._unseen_bytes and not self.budget.paused:
            return False  # it would ask each member about each partition
        much = self._unseen_bytes >= self._bytes_max // _CHECK_PART
        return much or self._monotonic() >= self._check_at or bool(self.budget.paused)

    def throttle(
        self,
        quickest: Callable[[int], PartitionState | None],
        consumer: Consumer,
        partitions: Collection[PartitionState],
    ) -> bool:
        """Wait while too much is held, then pause and resume partitions. `quickest(number)`: what the quickest member
        holds of a partition; None while nobody takes more of it: then it is paused. True while any is paused: poll
        often then, so that it is resumed soon."""
        if not self._due:
            return False
        held = []
        for partition in partitions:
            state = quickest(partition.number)
            if state is not None:
                held.append(state)
            elif partition.number not in self.budget.paused:
                self.budget.paused.add(partition.number)
                consumer.pause([TopicPartition(partition.topic, partition.number)])
        self._rests = not self._ahead_bytes and not any(state.held for state in held)
        return self._throttle(consumer, held)

    def _throttle(self, consumer: Consumer, partitions: Collection[PartitionState]) -> bool:
        budget = self.budget
        self._unseen_bytes, self._check_at = 0, self._monotonic() + POLL_S
        # Waiting comes first: pausing discards what the client has fetched ahead.
        full = budget.is_full(partitions, self._ahead_bytes)
        in_time = self._wait(partitions) if full else True
        pause = budget.to_pause(partitions, self._monotonic(), in_time)
        if pause:
            consumer.pause([TopicPartition(p.topic, p.number) for p in pause])
        resume = budget.to_resume(partitions)
        if resume:
            consumer.resume([TopicPartition(p.topic, p.number) for p in resume])
        return bool(budget.paused)

    def forget(self, consumer: Consumer, partition: PartitionState) -> None:
        """The partition goes, or is assigned again. Resume it while the client still has it: librdkafka keeps the pause
        over all later assignments, and the partition would never be read again."""
        consumer.resume([TopicPartition(partition.topic, partition.number)])
        self.budget.forget(partition.number)

    @property
    def _ahead_bytes(self) -> int:
        """Of records that are on their way to the members: nobody holds them yet."""
        return self._handed_bytes - self._taken_bytes

    def _wait(self, partitions: Collection[PartitionState]) -> bool:
        """Wait until there is room; False when there is none after `FULL_S`."""
        budget = self.budget
        began = now = self._monotonic()
        first = budget.surplus(partitions, self._ahead_bytes)
        wait_s = MOMENT_S
        while now - began < FULL_S and not self._stop.is_set():
            self._sleep(wait_s)
            now = self._monotonic()
            surplus = budget.surplus(partitions, self._ahead_bytes)
            if surplus <= 0:
                return True
            gone = first - surplus
            # Sleep for as long as the rest takes at the rate so far; without progress, twice as long as before.
            wait_s = (now - began) * surplus / gone if gone > 0 else 2 * wait_s
            wait_s = min(max(wait_s, MOMENT_S), max(began + FULL_S - now, 0.0))
        return False
