"""How far a worker is in each partition of one topic: which record is next, and up to where results are stored. Pure.

    begin({3: 40})     take(3, 40) -> True    take(3, 40) -> False (again)    take(3, 45) -> False (a gap)

Faust drops a record now and then when it begins to read. The record after it is not taken, and `overdue` says where to
go back to, so records are taken in order, each once, whatever the library repeats or drops.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_OVERDUE_S = 5.0  # doubles with each attempt: a slow Kafka must not be asked for the same records again and again
_OVERDUE_MAX_S = 120.0


class Progress:
    """The partitions that this process has now."""

    def __init__(self) -> None:
        self.next: dict[int, int] = {}  #: partition -> the offset to process next
        self.stored: dict[int, int] = {}  #: partition -> the first offset whose result is not stored
        self.generation = 0  #: how often reading began
        self._waiting: dict[int, tuple[int, float, float]] = {}  # partition -> offset, since when, how long to wait

    def begin(self, starts: Mapping[int, int]) -> None:
        """Continue at these offsets, and in no other partition."""
        self.generation += 1
        self.next, self.stored, self._waiting = dict(starts), dict(starts), {}

    def take(self, partition: int, offset: int) -> bool:
        """Returns whether to process this record now."""
        if self.next.get(partition) != offset:
            return False
        self.next[partition] = offset + 1
        return True

    def done(self, generation: int, records: Iterable[tuple[int, int]]) -> None:
        """The results of these (partition, offset), taken in this generation, are stored."""
        if generation == self.generation:  # otherwise reading went back to what was stored before them
            self.stored.update((partition, offset + 1) for partition, offset in records)

    def overdue(self, partition: int, end: int, now_s: float) -> int | None:
        """Returns where to go back to, if all that came is stored, and records before `end` (the partition's next
        offset in Kafka) have not come for a while; otherwise None. To be asked regularly."""
        offset = self.next.get(partition, end)
        waiting, since_s, wait_s = self._waiting.get(partition, (-1, now_s, _OVERDUE_S))
        if offset >= end or waiting != offset or self.stored[partition] != offset:
            self._waiting[partition] = (offset, now_s, _OVERDUE_S)
            return None
        if now_s - since_s < wait_s:
            return None
        self._waiting[partition] = (offset, now_s, min(2 * wait_s, _OVERDUE_MAX_S))
        return offset
