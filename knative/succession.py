"""Which offset of each partition comes next, for readers that keep their own positions. Pure.

    start(3, 40)          take(3, 40) -> True    take(3, 40) -> False (again)    take(3, 45) -> HoleError
            |                    |
    where reading begins         the first record of a partition may lie further on: what was before it has expired

A library that drops or repeats a record on the way shows here, whatever made it do so. Refuses to mend a hole: whoever
meets one starts again from what is stored.
"""

from __future__ import annotations


class HoleError(Exception):
    """Records between the last one and this one never came."""


class Succession:
    """Of one topic, in one process."""

    def __init__(self) -> None:
        self.next: dict[int, int] = {}  #: partition -> the offset that must come
        self._met: set[int] = set()

    def start(self, partition: int, offset: int) -> None:
        """Reading goes on here; also after a rebalance, which may go back."""
        self.next[partition] = offset

    def take(self, partition: int, offset: int) -> bool:
        """Whether this record is the one to be worked on; False: it was before. Raises HoleError."""
        wanted = self.next.get(partition, 0)
        if offset < wanted:
            return False
        if offset > wanted and partition in self._met:
            raise HoleError(f"after offset {wanted - 1} of partition {partition} came {offset}")
        self._met.add(partition)
        self.next[partition] = offset + 1
        return True
