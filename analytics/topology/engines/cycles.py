"""The circles inside a loop: for each channel in it the shortest way round, each circle once. Bounded.

Listing all circles explodes; the shortest through each channel are what a person has to break, and no channel of the
loop is left out unless there are more than CIRCLES_MAX. Refuses to look outside the loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

CIRCLES_MAX = 20
_STARTS_MAX = 5 * CIRCLES_MAX

Step = tuple[str, str]


def circles(members: Sequence[str], ways: Mapping[str, Iterable[str]], starts: Iterable[str]) -> list[tuple[str, ...]]:
    """The shortest circle through each of `starts`, the shortest first; each begins at its smallest id."""
    inside = frozenset(members)
    return _distinct(_way(start, start, ways, inside) for start in sorted(starts)[:_STARTS_MAX])


def circles_over(
    members: Sequence[str], ways: Mapping[str, Iterable[str]], steps: Iterable[Step]
) -> list[tuple[str, ...]]:
    """The shortest circle over each of these edges, told in the same way."""
    inside = frozenset(members)
    return _distinct(_way(end, start, ways, inside) for start, end in sorted(steps)[:_STARTS_MAX])


def _distinct(found: Iterable[list[str]]) -> list[tuple[str, ...]]:
    told: dict[tuple[str, ...], None] = {}
    for circle in found:
        if circle:
            turn = circle.index(min(circle))
            told.setdefault((*circle[turn:], *circle[:turn]))
    return sorted(told, key=lambda one: (len(one), one))[:CIRCLES_MAX]


def _way(start: str, end: str, ways: Mapping[str, Iterable[str]], inside: frozenset[str]) -> list[str]:
    """The vertices of the shortest way from `start` to `end`, at least one edge long when they are one vertex.

    Of several the first by id. A circle is told without its end where that is the start. Empty: there is none.
    """
    before: dict[str, str] = {}
    waiting = deque([start])
    while waiting:
        vertex = waiting.popleft()
        for other in sorted(ways.get(vertex, ())):
            if other == end:
                path = [vertex] if start == end else [end, vertex]
                while path[-1] != start:
                    path.append(before[path[-1]])
                return path[::-1]
            if other in inside and other not in before and other != start:
                before[other] = vertex
                waiting.append(other)
    return []
