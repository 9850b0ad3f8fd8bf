"""Estimates how many events came and were settled, from the offsets at two times. Reads no records. Pure arithmetic.

    offset:   120 ........ 180          arrivals of a partition = difference of the offsets of two times
    time:     since        until        settled by a group      = difference of two commits

The result is not exact: transaction markers have offsets too, and so have records that compaction or retention removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Offsets = Mapping[int, int]  #: partition -> offset


@dataclass(frozen=True, slots=True)
class Rate:
    """Events of a channel ("arrived") or of a subscription ("settled") between two Unix seconds."""

    kind: str
    owner: str  #: namespace/name of the channel
    subscription: str
    since_s: float
    until_s: float
    events: int
    lag: int | None = None  #: not settled; of a subscription

    @property
    def per_s(self) -> float:
        """Events per second."""
        return self.events / (self.until_s - self.since_s) if self.until_s > self.since_s else 0.0


def difference(first: Offsets, second: Offsets, ends: Offsets) -> int:
    """Returns the offsets between two snapshots, summed over all partitions.

    A partition without an offset in a snapshot (no record at or after that time, no commit) counts as being at its end.
    One that went back (a replaced topic, a reset of the offsets) counts as 0.
    """
    return sum(max(0, _at(second, number, ends) - _at(first, number, ends)) for number in ends)


def _at(offsets: Offsets, number: int, ends: Offsets) -> int:
    offset = offsets.get(number, -1)
    return ends[number] if offset < 0 else offset
