"""The engine that walks the graph in this process. A million edges take seconds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

import numpy as np

from analytics.topology.engines.articulation import cut_vertices
from analytics.topology.engines.port import DAMPING, ROUNDS, Floats, Graph, Ints, shares, smallest_label


class LocalEngine:
    """Answers in this process. Stateless."""

    name = "local"

    def islands(self, graph: Graph) -> Ints:
        """See `Engine`."""
        return _islands(graph)

    def loops(self, graph: Graph) -> Ints:
        """See `Engine`."""
        return _loops(graph)

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


def _islands(graph: Graph) -> Ints:
    """Every part takes the label of a neighbour that is smaller; at least every second one disappears in each round."""
    labels = np.arange(graph.size, dtype=np.int64)
    while True:
        heads, tails = labels[graph.heads], labels[graph.tails]
        apart = heads != tails
        if not apart.any():
            return labels
        np.minimum.at(labels, np.maximum(heads, tails)[apart], np.minimum(heads, tails)[apart])
        while (labels != labels[labels]).any():
            labels = labels[labels]


def _loops(graph: Graph) -> Ints:
    """Finds Tarjan's low points in a depth-first walk without recursion. The last vertex of a loop that the walk leaves
    is the first one that it saw of it: no edge from the loop leads further back."""
    by_head = np.argsort(graph.heads, kind="stable")
    first: list[int] = np.searchsorted(graph.heads[by_head], np.arange(graph.size + 1)).tolist()
    ends: list[int] = graph.tails[by_head].tolist()
    places = first[:-1]  # the next edge of each vertex
    order, low, labels = [0] * graph.size, [0] * graph.size, [-1] * graph.size
    seen = 0
    without_label: list[int] = []
    for root in range(graph.size):
        path = [] if order[root] else [root]
        while path:
            vertex = path[-1]
            if not order[vertex]:
                seen += 1
                order[vertex] = low[vertex] = seen
                without_label.append(vertex)
            if places[vertex] < first[vertex + 1]:
                end = ends[places[vertex]]
                places[vertex] += 1
                if not order[end]:
                    path.append(end)
                elif labels[end] < 0:
                    low[vertex] = min(low[vertex], order[end])
                continue
            path.pop()
            if path:
                low[path[-1]] = min(low[path[-1]], low[vertex])
            while low[vertex] == order[vertex] and labels[vertex] < 0:
                labels[without_label.pop()] = vertex
    return smallest_label(np.array(labels, dtype=np.int64))


def _reach(start: int, number: int, first: Ints, ends: Ints, seen: Ints) -> tuple[Ints, Ints]:
    """Walks level by level. `seen` holds `number` for visited vertices, so it need not be cleared between starts."""
    seen[start] = number
    level = np.array([start], dtype=np.int64)
    levels: list[Ints] = []
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
            levels.append(level)
            depths.append(np.full(len(level), len(levels), dtype=np.int64))
    if not levels:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    return np.concatenate(levels), np.concatenate(depths)
