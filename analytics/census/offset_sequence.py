"""The next expected offset of each partition, for readers that keep their own positions. Pure.

    start(3, 40)          take(3, 40) -> True    take(3, 40) -> False (again)    take(3, 45) -> OffsetGapError
            |                    |
    where reading begins         the first record of a partition may have a higher offset: earlier ones have expired

Detects records that a library drops or repeats, for any reason. After a gap, the reader goes back to its start
(`again`) and ignores the records after it until then. The number of attempts is limited.
"""

from __future__ import annotations

_EVERY_S = 1.0  # records that were fetched before the reader went back must not make it go back again
_TIMES_MAX = 10


class OffsetGapError(Exception):
    """Records between the previous one and this one are missing."""


class Succession:
    """The positions in one topic, in one process."""

    def __init__(self) -> None:
        self.next: dict[int, int] = {}  #: partition -> the next expected offset
        self._met: set[int] = set()
        self._asked: dict[int, tuple[int, int, float]] = {}  # partition -> offset, times, when

    def start(self, partition: int, offset: int) -> None:
        """Continue at this offset; after a rebalance it may be lower."""
        self.next[partition] = offset

    def take(self, partition: int, offset: int) -> bool:
        """Whether to process this record; False: it was processed before. Raises OffsetGapError."""
        wanted = self.next.get(partition, 0)
        if offset < wanted:
            return False
        if offset > wanted and partition in self._met:
            raise OffsetGapError(f"after offset {wanted - 1} of partition {partition} came {offset}")
        self._met.add(partition)
        self.next[partition] = offset + 1
        return True

    def again(self, partition: int, now_s: float) -> int | None:
        """Where to go back to after an OffsetGapError; None: that is already in progress.

        Raises OffsetGapError after many attempts: the record is gone, and a new process continues after it.
        """
        wanted = self.next.get(partition, 0)
        offset, times, at_s = self._asked.get(partition, (-1, 0, now_s - _EVERY_S))
        if offset != wanted:
            times = 0
        elif now_s - at_s < _EVERY_S:
            return None
        if times >= _TIMES_MAX:
            raise OffsetGapError(f"offset {wanted} of partition {partition} does not come")
        self._asked[partition] = (wanted, times + 1, now_s)
        return wanted
