"""The engine's questions answered the slow way, straight from their words. Shares no code with the engines.

Plain dictionaries and sets, one vertex at a time; fit for a few hundred vertices.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

Edges = Sequence[tuple[int, int, float]]


def distances(size: int, edges: Edges, start: int, directed: bool = True, without: int = -1) -> dict[int, int]:
    """Fewest edges from `start` to what it reaches, itself with 0; `without` is not entered."""
    ways: dict[int, set[int]] = {vertex: set() for vertex in range(size)}
    for head, tail, _ in edges:
        ways[head].add(tail)
        if not directed:
            ways[tail].add(head)
    depths = {start: 0}
    waiting = deque([start])
    while waiting:
        vertex = waiting.popleft()
        for other in ways[vertex]:
            if other not in depths and other != without:
                depths[other] = depths[vertex] + 1
                waiting.append(other)
    return depths


def islands(size: int, edges: Edges) -> list[int]:
    """The smallest vertex that each is joined to."""
    return [min(distances(size, edges, vertex, directed=False)) for vertex in range(size)]


def loops(size: int, edges: Edges) -> list[int]:
    """The smallest vertex that each reaches and is reached by."""
    reached = [set(distances(size, edges, vertex)) for vertex in range(size)]
    return [min(other for other in range(size) if other in reached[v] and v in reached[other]) for v in range(size)]


def influence(size: int, edges: Edges, base: Sequence[float], damping: float, rounds: int) -> list[float]:
    """Round by round over the edges."""
    into = [0.0] * size
    count = [0] * size
    for _, tail, weight in edges:
        into[tail] += weight
        count[tail] += 1
    value = list(base)
    for _ in range(rounds):
        fresh = list(base)
        for head, tail, weight in edges:
            share = weight / into[tail] if into[tail] > 0 else 1.0 / count[tail]
            fresh[head] += damping * share * value[tail]
        value = fresh
    return value


def articulation_points(size: int, edges: Edges, values: Sequence[int]) -> Mapping[int, set[tuple[int, int]]]:
    """Each vertex without which its island falls apart -> every right answer (several pieces may be the largest)."""
    cuts: dict[int, set[tuple[int, int]]] = {}
    for vertex in range(size):
        whole = set(distances(size, edges, vertex, directed=False)) - {vertex}
        pieces: list[set[int]] = []
        while rest := whole - set().union(*pieces):
            first = min(rest)
            pieces.append(set(distances(size, edges, first, directed=False, without=vertex)))
        if len(pieces) > 1:
            most = max(map(len, pieces))
            cuts[vertex] = {
                (len(whole) - most, sum(values[member] for member in whole - piece))
                for piece in pieces
                if len(piece) == most
            }
    return cuts
