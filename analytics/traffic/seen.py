"""Which deltas were already counted: for each process, the merged ranges of its delta numbers. Pure.

    {"worker-a": [(0, 4711), (4713, 9000)]}       4712 is still in another partition, or was lost

A process numbers its deltas consecutively, so one or two ranges describe all of them, however long it runs. A process
is forgotten when it has sent nothing for longer than Kafka keeps its records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Range = tuple[int, int]  #: first and last number, both counted

#: No record lies in the traffic topic for longer, with the default retention of seven days.
FORGET_S = 8 * 86_400


@dataclass(slots=True)
class Seen:
    """Ranges by process, and the second of the latest delta of each."""

    ranges: dict[str, list[Range]] = field(default_factory=dict)
    heard: dict[str, int] = field(default_factory=dict)

    def add(self, by: str, first: int, last: int, at: int) -> None:
        """Add the numbers `first` to `last` of process `by`; the newest of them is from second `at`."""
        self.ranges[by] = merged([*self.ranges.get(by, ()), (first, last)])
        self.heard[by] = max(at, self.heard.get(by, at))

    def forget(self, now: int) -> None:
        """Drop the processes of which no record can come again."""
        for by in [by for by, at in self.heard.items() if at < now - FORGET_S]:
            del self.ranges[by], self.heard[by]

    def rows(self) -> list[tuple[str, int, int]]:
        """Returns (process, first, last), for a join."""
        return [(by, first, last) for by in sorted(self.ranges) for first, last in self.ranges[by]]

    def to_json(self) -> dict[str, list[Any]]:
        """Returns plain lists and numbers."""
        return {by: [self.heard[by], *map(list, self.ranges[by])] for by in sorted(self.ranges)}

    @classmethod
    def from_json(cls, rows: Mapping[str, Sequence[Any]]) -> Seen:
        """Reverses `to_json`. Raises ValueError, TypeError or IndexError for anything else."""
        seen = cls()
        for by, row in rows.items():
            seen.heard[by] = int(row[0])
            seen.ranges[by] = merged((int(first), int(last)) for first, last in row[1:])
        return seen


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Returns sorted and disjoint ranges; adjacent ranges are joined."""
    joined: list[Range] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return joined
