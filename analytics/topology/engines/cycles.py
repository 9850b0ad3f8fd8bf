"""Cycles inside a loop: the shortest through each channel, each cycle once, at most LISTED_MAX.

The number of all cycles grows exponentially. The shortest ones through each channel are those that a user has to break,
and unless there are more than LISTED_MAX, they cover every channel of the loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from analytics.topology.model.document import LISTED_MAX

_STARTS_MAX = 5 * LISTED_MAX

Step = tuple[str, str]


def cycles(members: Sequence[str], ways: Mapping[str, Iterable[str]], starts: Iterable[str]) -> list[tuple[str, ...]]:
    """Returns the shortest cycle through each of `starts`, the shortest first; each begins at its smallest id."""
    inside = frozenset(members)
    return _distinct(_way(start, start, ways, inside) for start in sorted(starts)[:_STARTS_MAX])


def cycles_through(
    members: Sequence[str], ways: Mapping[str, Iterable[str]], steps: Iterable[Step]
) -> list[tuple[str, ...]]:
    """Returns the shortest cycle over each of these edges, in the same form."""
    inside = frozenset(members)
    return _distinct(_way(end, start, ways, inside) for start, end in sorted(steps)[:_STARTS_MAX])


def _distinct(ways: Iterable[list[str]]) -> list[tuple[str, ...]]:
    distinct: dict[tuple[str, ...], None] = {}
    for way in ways:
        if way:
            # A cycle is found from each of its channels. Turned to begin at its smallest id, all of these are equal.
            turn = way.index(min(way))
            distinct.setdefault((*way[turn:], *way[:turn]))
    return sorted(distinct, key=lambda members: (len(members), members))[:LISTED_MAX]


def _way(start: str, end: str, ways: Mapping[str, Iterable[str]], inside: frozenset[str]) -> list[str]:
    """Returns the vertices of the shortest path from `start` to `end`; at least one edge if they are the same vertex.

    Of several paths, the one with the smallest ids. A cycle does not repeat its start at the end. Empty if there is no
    path.
    """
    before: dict[str, str] = {}
    # Breadth first, in sorted order: the first arrival is the shortest path, and the same one in every run.
    waiting = deque([start])
    while waiting:
        vertex = waiting.popleft()
        for other in sorted(ways.get(vertex, ())):
            # Before the check below, which excludes the start: a cycle ends there.
            if other == end:
                path = [vertex] if start == end else [end, vertex]
                while path[-1] != start:
                    path.append(before[path[-1]])
                return path[::-1]
            if other in inside and other not in before and other != start:
                before[other] = vertex
                waiting.append(other)
    return []
