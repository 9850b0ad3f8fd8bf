"""Articulation points (cut vertices): vertices without which their island falls apart, and how much is cut off.

Tarjan's low points in a depth-first walk without recursion: one pass, time and memory linear in the edges.

    low[child] >= order[v]  ->  the child's whole subtree hangs on v; the rest of the island is one more piece
"""

from __future__ import annotations

import numpy as np

from analytics.topology.engines.port import Graph, Ints


def cut_vertices(graph: Graph, values: Ints) -> dict[int, tuple[int, int]]:
    """Returns vertex -> (vertices, sum of values) outside the largest piece that remains without the vertex."""
    starts, ends = _neighbours(graph)
    size = graph.size
    order, low = [-1] * size, [0] * size
    below, worth = [1] * size, [int(value) for value in values]
    pieces: dict[int, list[tuple[int, int]]] = {}
    articulation_points: dict[int, tuple[int, int]] = {}
    for root in range(size):
        if order[root] >= 0 or starts[root] == starts[root + 1]:
            continue
        seen = _walk(root, starts, ends, order, low, below, worth, pieces)
        whole, total = below[root], worth[root]
        for vertex in seen:
            hanging = pieces.pop(vertex, [])
            # Nothing is above the root, so it is a cut vertex only if two or more subtrees hang on it.
            if not hanging or (vertex == root and len(hanging) == 1):
                continue
            mine = int(values[vertex])
            # For any other vertex, everything that does not hang on it stays together as one more piece.
            rest = (whole - 1 - sum(n for n, _ in hanging), total - mine - sum(v for _, v in hanging))
            parts = sorted([*hanging, rest]) if vertex != root else sorted(hanging)
            articulation_points[vertex] = (whole - 1 - parts[-1][0], total - mine - parts[-1][1])
    return articulation_points


def _walk(
    root: int,
    starts: list[int],
    ends: list[int],
    order: list[int],
    low: list[int],
    below: list[int],
    worth: list[int],
    pieces: dict[int, list[tuple[int, int]]],
) -> list[int]:
    """Walks depth-first from `root`, with an explicit stack: a chain of channels can exceed Python's recursion limit.

    Fills `order`, `low`, the sums of subtrees (`below`, `worth`), and `pieces`. Returns the vertices that it saw.
    """
    seen = [root]
    order[root] = low[root] = 0
    stack, parents, places = [root], [-1], [starts[root]]
    while stack:
        vertex, place = stack[-1], places[-1]
        if place < starts[vertex + 1]:
            places[-1] = place + 1
            other = ends[place]
            if order[other] < 0:
                order[other] = low[other] = len(seen)
                seen.append(other)
                stack.append(other)
                parents.append(vertex)
                places.append(starts[other])
            # An edge to an earlier vertex: the subtree has a second way up. The edge to the parent does not count, and
            # as neighbours are distinct, there is only one.
            elif other != parents[-1] and order[other] < low[vertex]:
                low[vertex] = order[other]
            continue
        stack.pop()
        places.pop()
        parent = parents.pop()
        if parent < 0:
            continue
        low[parent] = min(low[parent], low[vertex])
        below[parent] += below[vertex]
        worth[parent] += worth[vertex]
        # No edge leads from the subtree to above the parent: without the parent, the subtree is cut off.
        if low[vertex] >= order[parent]:
            pieces.setdefault(parent, []).append((below[vertex], worth[vertex]))
    return seen


def _neighbours(graph: Graph) -> tuple[list[int], list[int]]:
    """Returns the distinct neighbours of each vertex, without itself: those of v are ends[starts[v]:starts[v + 1]]."""
    apart = graph.heads != graph.tails
    heads, tails = graph.heads[apart], graph.tails[apart]
    both = np.unique(np.concatenate([heads * graph.size + tails, tails * graph.size + heads]))
    first, second = both // graph.size, both % graph.size
    starts = np.searchsorted(first, np.arange(graph.size + 1))
    return starts.tolist(), second.tolist()
