"""The next expected offset of each partition, for readers that keep their own positions. Pure.

    start(3, 40)          take(3, 40) -> True    take(3, 40) -> False (again)    take(3, 45) -> OffsetGapError
            |
    where reading begins: not before the first offset that the partition still has

Detects records that a library drops or repeats, for any reason. After a gap, the reader goes back to its start
(`again`) and ignores the records after it until then. The number of attempts is limited. A dropped record that no other
one follows leaves no gap: the reader goes back when stored records do not come for a while (`overdue`).
"""

from __future__ import annotations

_EVERY_S = 1.0  # records that were fetched before the reader went back must not make it go back again
_OVERDUE_S = 10.0  # doubles with each attempt: a slow Kafka must not be asked for the same records again and again
_OVERDUE_MAX_S = 120.0


class OffsetGapError(Exception):
    """Records between the previous one and this one are missing."""


class Succession:
    """The positions in one topic, in one process."""

    def __init__(self) -> None:
        self.next: dict[int, int] = {}  #: partition -> the next expected offset
        self._asked: dict[int, tuple[int, int, float]] = {}  # partition -> offset, times, when
        self._waited: dict[int, tuple[int, float, float]] = {}  # partition -> offset, since when, how long to wait

    def start(self, partition: int, offset: int) -> None:
        """Continue at this offset; after a rebalance it may be lower."""
        self.next[partition] = offset

    def take(self, partition: int, offset: int) -> bool:
        """Whether to process this record; False: it was processed before. Raises OffsetGapError."""
        wanted = self.next.get(partition, 0)
        if offset < wanted:
            return False
        if offset > wanted:
            raise OffsetGapError(f"after offset {wanted - 1} of partition {partition} came {offset}")
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
        if times >= 10:
            raise OffsetGapError(f"offset {wanted} of partition {partition} does not come")
        self._asked[partition] = (wanted, times + 1, now_s)
        return wanted

    def overdue(self, partition: int, end: int, now_s: float) -> int | None:
        """Where to go back to, if records before `end` (the partition's next offset in Kafka) are stored and have not
        come for a while; otherwise None. To be asked regularly."""
        wanted = self.next.get(partition, 0)
        offset, since_s, wait_s = self._waited.get(partition, (-1, now_s, _OVERDUE_S))
        if wanted >= end or offset != wanted:
            self._waited[partition] = (wanted, now_s, _OVERDUE_S)
            return None
        if now_s - since_s < wait_s:
            return None
        self._waited[partition] = (wanted, now_s, min(2 * wait_s, _OVERDUE_MAX_S))
        return wanted
