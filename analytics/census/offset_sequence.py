"""Which offset of each partition comes next, for readers that keep their own positions. Pure.

    start(3, 40)          take(3, 40) -> True    take(3, 40) -> False (again)    take(3, 45) -> HoleError
            |                    |
    where reading begins         the first record of a partition may lie further on: what was before it has expired

A library that drops or repeats a record on the way shows here, whatever made it do so. After a hole one goes back to
where it begins (`again`); what is behind it is left alone until then. Refuses to go back for ever.
"""

from __future__ import annotations

_EVERY_S = 1.0  # records that were on their way before going back are no reason to go back once more
_TIMES_MAX = 10


class OffsetGapError(Exception):
    """Records between the last one and this one never came."""


class Succession:
    """Of one topic, in one process."""

    def __init__(self) -> None:
        self.next: dict[int, int] = {}  #: partition -> the offset that must come
        self._met: set[int] = set()
        self._asked: dict[int, tuple[int, int, float]] = {}  # partition -> offset, times, when

    def start(self, partition: int, offset: int) -> None:
        """Reading goes on here; also after a rebalance, which may go back."""
        self.next[partition] = offset

    def take(self, partition: int, offset: int) -> bool:
        """Whether this record is the one to be worked on; False: it was before. Raises HoleError."""
        wanted = self.next.get(partition, 0)
        if offset < wanted:
            return False
        if offset > wanted and partition in self._met:
            raise OffsetGapError(f"after offset {wanted - 1} of partition {partition} came {offset}")
        self._met.add(partition)
        self.next[partition] = offset + 1
        return True

    def again(self, partition: int, now_s: float) -> int | None:
        """Where to go back to after a HoleError; None: that is under way.

        Raises HoleError when it was done many times and the record did not come: it is gone, and a process that starts
        anew goes on behind it.
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
