"""The engine that walks the graph in this process: numpy, and scipy's graph routines for large graphs.

A million edges take seconds. scipy is imported when a question needs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

import numpy as np

from analytics.topology.engines.articulation import cut_vertices
from analytics.topology.engines.port import DAMPING, ROUNDS, Floats, Graph, Ints, shares, smallest_label


class LocalEngine:
    """Stateless."""

    name = "local"

    def islands(self, graph: Graph) -> Ints:
        """See `Engine`."""
        return _components(graph, "weak")

    def loops(self, graph: Graph) -> Ints:
        """See `Engine`."""
        return _components(graph, "strong")

    def hops(self, graph: Graph, starts: Iterable[int]) -> Iterator[tuple[int, Ints, Ints]]:
        """See `Engine`. Computes one start after the other, so the caller may stop early."""
        order = np.argsort(graph.heads, kind="stable")
        first = np.searchsorted(graph.heads[order], np.arange(graph.size + 1))
        ends = graph.tails[order]
        seen = np.full(graph.size, -1, dtype=np.int64)  # the number of the last start that reached it
        for number, start in enumerate(starts):
            yield start, *_reach(start, number, first, ends, seen)

    def influence(self, graph: Graph, base: Floats) -> Floats:
        """See `Engine`."""
        share = shares(graph) * DAMPING
        value = base
        for _ in range(ROUNDS):
            value = base + np.bincount(graph.heads, weights=share * value[graph.tails], minlength=graph.size)
        return value

    def articulation_points(self, graph: Graph, values: Ints) -> dict[int, tuple[int, int]]:
        """See `Engine`."""
        return cut_vertices(graph, values)

    def close(self) -> None:
        """Nothing to release."""


def _components(graph: Graph, connection: str) -> Ints:
    if not len(graph.heads):
        return np.arange(graph.size, dtype=np.int64)
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ones = np.ones(len(graph.heads), dtype=np.int8)
    matrix = coo_array((ones, (graph.heads, graph.tails)), shape=(graph.size, graph.size)).tocsr()
    _, labels = connected_components(matrix, directed=True, connection=connection)
    return smallest_label(labels)


def _reach(start: int, number: int, first: Ints, ends: Ints, seen: Ints) -> tuple[Ints, Ints]:
    """Level by level. `seen` holds `number` for visited vertices, so it need not be cleared between starts."""
    seen[start] = number
    level = np.array([start], dtype=np.int64)
    found: list[Ints] = []
    depths: list[Ints] = []
    while len(level):
        counts = first[level + 1] - first[level]
        places = np.repeat(first[level] - np.concatenate(([0], np.cumsum(counts)[:-1])), counts) + np.arange(
            counts.sum()
        )
        level = cast(Ints, np.unique(ends[places]))
        level = level[seen[level] != number]
        seen[level] = number
        if len(level):
            found.append(level)
            depths.append(np.full(len(level), len(found), dtype=np.int64))
    if not found:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    return np.concatenate(found), np.concatenate(depths)
