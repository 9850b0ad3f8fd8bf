"""Limits the bytes of records that a subscription holds, and decides which partitions to pause for that. Pure.

While the running partitions together hold their budget, the consumer waits briefly without polling. That is cheap, and
enough when all partitions progress alike. Pausing discards what the Kafka client has fetched ahead, so only a partition
that makes the others wait is paused: it holds half the budget, or more than its share without settling anything, or
very many records. The client's own queue has a limit of its own and does not count here.
"""

from __future__ import annotations

import sys
from collections.abc import Collection

from agents.offsets.offset_metadata import SPAN_MAX
from agents.offsets.partition import PartitionState
from agents.timing import FULL_S

RECORDS_MAX = 4_096  #: of one partition
OVERHEAD_BYTES = 1_024  #: per record, in addition to its contents


def record_bytes(key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]) -> int:
    """Returns the approximate size of a record in memory, in bytes."""
    size = OVERHEAD_BYTES
    if value is not None:
        size += len(value)
    if key is not None:
        size += len(key)
    for name, text in headers:  # hot path: faster than sum() over a generator
        size += len(name)
        if text is not None:
            size += len(text)
    return size


class MemoryBudget:
    """The budget of one consumer's partitions. Consumer's thread only."""

    def __init__(self, bytes_max: int) -> None:
        """`bytes_max`: of all partitions together."""
        self.bytes_max = bytes_max
        self.paused: set[int] = set()
        self._progress: dict[
            int, tuple[int, float]
        ] = {}  # partition above its share -> its `released`, and since when that is unchanged

    def is_full(self, partitions: Collection[PartitionState], ahead_bytes: int = 0) -> bool:
        """Returns whether the running partitions hold their whole budget, with `ahead_bytes` to come."""
        return self._held(partitions) + ahead_bytes >= self._allowed(partitions) > 0

    def surplus(self, partitions: Collection[PartitionState], ahead_bytes: int = 0) -> int:
        """Returns the bytes that running partitions must settle: down to half the budget, for a good batch to fit."""
        return self._held(partitions) + ahead_bytes - self._allowed(partitions) // 2 + 1

    def to_pause(self, partitions: Collection[PartitionState], now: float, in_time: bool) -> list[PartitionState]:
        """Returns partitions to pause, added to `paused`. `in_time`: there was room again while the consumer waited."""
        share = self.bytes_max // max(1, len(partitions))
        half = self.bytes_max // 2 if len(partitions) > 1 else sys.maxsize
        chosen = [
            p
            for p in partitions
            if p.number not in self.paused and self._keeps_others_waiting(p, share, half, now, in_time)
        ]
        self.paused.update(p.number for p in chosen)
        return chosen

    def to_resume(self, partitions: Collection[PartitionState]) -> list[PartitionState]:
        """Returns partitions to resume now; they are removed from `paused`."""
        if not self.paused:
            return []
        # Well below the limits for pausing: a partition that flips at one limit would refetch its queue each time.
        share = self.bytes_max // max(1, len(partitions))
        chosen = [
            p
            for p in partitions
            if p.number in self.paused
            and not p.failure
            and p.held_bytes <= share // 2
            and p.held <= RECORDS_MAX // 2
            and _span(p) <= SPAN_MAX // 4
        ]
        self.paused.difference_update(p.number for p in chosen)
        return chosen

    def forget(self, number: int) -> None:
        """Forget a partition that is no longer assigned."""
        self.paused.discard(number)
        self._progress.pop(number, None)

    def _held(self, partitions: Collection[PartitionState]) -> int:
        return sum(p.held_bytes for p in partitions if p.number not in self.paused)

    def _allowed(self, partitions: Collection[PartitionState]) -> int:
        """Returns the budget of the running partitions; paused ones keep their shares."""
        running = sum(p.number not in self.paused for p in partitions)
        return self.bytes_max * running // max(1, len(partitions))

    def _keeps_others_waiting(
        self, partition: PartitionState, share: int, half: int, now: float, in_time: bool
    ) -> bool:
        held = partition.held_bytes
        many = partition.held >= RECORDS_MAX or (partition.held > 0 and _span(partition) >= SPAN_MAX // 2)
        if held < share and not many:
            self._progress.pop(partition.number, None)
            return False
        if held >= half or many or not in_time:
            return True
        released, since = self._progress.get(partition.number, (-1, now))
        if released != partition.released:
            self._progress[partition.number] = (partition.released, now)
            return False
        return now - since > FULL_S


def _span(partition: PartitionState) -> int:
    return partition.tracker.fetched - partition.tracker.committable
