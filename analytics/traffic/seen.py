"""Which deltas were counted already: for each process the ranges of its numbers, merged.

    {"worker-a": [(0, 4711), (4713, 9000)]}       4712 is on its way in another partition, or was lost

Numbers of a process go up by one, so a range or two stand for all of them, however long it runs. A process that was
not heard of for longer than its records can lie in Kafka is forgotten. Pure; refuses to know what a delta says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Range = tuple[int, int]  #: first and last number, both counted

#: No record lies in the traffic topic for longer (its retention is seven days).
FORGET_S = 8 * 86_400


@dataclass(slots=True)
class Seen:
    """Ranges by process, and the latest second that each was heard of."""

    ranges: dict[str, list[Range]] = field(default_factory=dict)
    heard: dict[str, int] = field(default_factory=dict)

    def add(self, by: str, first: int, last: int, at: int) -> None:
        """The numbers `first` to `last` of `by`, the newest of them from the second `at`."""
        self.ranges[by] = merged([*self.ranges.get(by, ()), (first, last)])
        self.heard[by] = max(at, self.heard.get(by, at))

    def forget(self, now: int) -> None:
        """Drop the processes that cannot come back."""
        for by in [by for by, at in self.heard.items() if at < now - FORGET_S]:
            del self.ranges[by], self.heard[by]

    def rows(self) -> list[tuple[str, int, int]]:
        """(process, first, last), for a join."""
        return [(by, first, last) for by in sorted(self.ranges) for first, last in self.ranges[by]]

    def to_json(self) -> dict[str, list[Any]]:
        """Plain lists and numbers."""
        return {by: [self.heard[by], *map(list, self.ranges[by])] for by in sorted(self.ranges)}

    @classmethod
    def from_json(cls, found: Mapping[str, Sequence[Any]]) -> Seen:
        """Back. Raises ValueError, TypeError or IndexError for anything else."""
        seen = cls()
        for by, row in found.items():
            seen.heard[by] = int(row[0])
            seen.ranges[by] = merged((int(first), int(last)) for first, last in row[1:])
        return seen


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Sorted and disjoint, neighbours joined."""
    found: list[Range] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found
