"""How much a subscription may hold in memory, and which partitions must wait so that it holds no more. Pure.

While the partitions that run hold their budget together, the feed waits a moment without polling: cheap, and enough
when all move alike. Pausing throws away what the Kafka client has fetched ahead, so it is for a partition that keeps
the others waiting: one that holds half the budget, or more than its share and settles nothing, or very many records.

Refuses to count the client's own queue: that has a bound of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Collection

from agents.ordering.offset_metadata import SPAN_MAX
from agents.ordering.partition import PartitionState

RECORDS_MAX = 4_096  #: of one partition
OVERHEAD_BYTES = 1_024  #: of a record, beside what it holds
NO_PROGRESS_S = 0.2  #: a partition above its share that settles nothing for so long is paused


def record_bytes(key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]) -> int:
    """What it takes in memory, about."""
    size = OVERHEAD_BYTES
    if value is not None:
        size += len(value)
    if key is not None:
        size += len(key)
    for name, text in headers:  # the hot path: faster than any clever sum
        size += len(name)
        if text is not None:
            size += len(text)
    return size


class MemoryBudget:
    """One consumer's partitions; used by its thread only."""

    def __init__(self, bytes_max: int) -> None:
        """`bytes_max`: of all partitions together."""
        self.bytes_max = bytes_max
        self.paused: set[int] = set()
        self._progress: dict[int, tuple[int, float]] = {}  # above its share -> released, and since when

    def is_full(self, partitions: Collection[PartitionState]) -> bool:
        """The running partitions hold their whole budget."""
        return self._held(partitions) >= self._allowed(partitions) > 0

    def surplus(self, partitions: Collection[PartitionState]) -> int:
        """Bytes that the running partitions must settle before there is room again for a good batch."""
        return self._held(partitions) - self._allowed(partitions) // 2 + 1

    def to_pause(self, partitions: Collection[PartitionState], now: float, in_time: bool) -> list[PartitionState]:
        """Which to pause now (they are noted as paused). `in_time`: it became roomy while it was waited."""
        share = self.bytes_max // max(1, len(partitions))
        half = self.bytes_max // 2 if len(partitions) > 1 else sys.maxsize
        found = [
            p
            for p in partitions
            if p.number not in self.paused and self._keeps_others_waiting(p, share, half, now, in_time)
        ]
        self.paused.update(p.number for p in found)
        return found

    def to_resume(self, partitions: Collection[PartitionState]) -> list[PartitionState]:
        """Which to resume now (they are no longer noted as paused)."""
        if not self.paused:
            return []
        share = self.bytes_max // max(1, len(partitions))
        found = [
            p
            for p in partitions
            if p.number in self.paused
            and not p.failure
            and p.held_bytes <= share // 2
            and p.held <= RECORDS_MAX // 2
            and _span(p) <= SPAN_MAX // 4
        ]
        self.paused.difference_update(p.number for p in found)
        return found

    def forget(self, number: int) -> None:
        """The partition is gone."""
        self.paused.discard(number)
        self._progress.pop(number, None)

    def _held(self, partitions: Collection[PartitionState]) -> int:
        return sum(p.held_bytes for p in partitions if p.number not in self.paused)

    def _allowed(self, partitions: Collection[PartitionState]) -> int:
        """Paused partitions keep their shares."""
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
        return now - since > NO_PROGRESS_S


def _span(partition: PartitionState) -> int:
    return partition.tracker.fetched - partition.tracker.committable
