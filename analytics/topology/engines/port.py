"""The graph as numbers, and the port of the engines that walk it.

Vertices are numbered in the order of their sorted ids, so every engine gives the same answer to the same question.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

DAMPING = 0.85  #: of influence, at each edge
ROUNDS = 20  #: edges that influence goes back


@dataclass(frozen=True, slots=True)
class Graph:
    """Directed edges heads[i] -> tails[i] with a weight each; vertices 0..size-1. Edges may occur twice."""

    size: int
    heads: Ints
    tails: Ints
    weights: Floats

    @classmethod
    def of(cls, size: int, pairs: Sequence[tuple[int, int]], weights: Sequence[float] | None = None) -> Graph:
        """Build it from pairs (from, to); each weight is 1 by default."""
        both = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        given = np.ones(len(both)) if weights is None else np.array(weights, dtype=np.float64)
        return cls(size, both[:, 0].copy(), both[:, 1].copy(), given)

    def with_edges(self, heads: Ints, tails: Ints, weights: Floats) -> Graph:
        """Returns the same vertices with more edges."""
        return Graph(
            self.size,
            np.concatenate([self.heads, heads]),
            np.concatenate([self.tails, tails]),
            np.concatenate([self.weights, weights]),
        )

    def only(self, kept: NDArray[np.bool_]) -> Graph:
        """Returns the same vertices with only these edges."""
        return Graph(self.size, self.heads[kept], self.tails[kept], self.weights[kept])


class Engine(Protocol):
    """Answers the questions that need a walk. The label of a part is the smallest number of its vertices."""

    @property
    def name(self) -> str:
        """`local` or `graphframes`."""

    def islands(self, graph: Graph) -> Ints:
        """Returns for each vertex its weakly connected component."""

    def loops(self, graph: Graph) -> Ints:
        """Returns for each vertex its strongly connected component. A single vertex is a component too."""

    def hops(self, graph: Graph, starts: Iterable[int]) -> Iterator[tuple[int, Ints, Ints]]:
        """Yields (start, other vertices that it reaches, fewest edges to each), by edges, then number."""

    def influence(self, graph: Graph, base: Floats) -> Floats:
        """Returns base + DAMPING * what follows, ROUNDS deep: a vertex gets a share, by weight, of what follows it."""

    def articulation_points(self, graph: Graph, values: Ints) -> dict[int, tuple[int, int]]:
        """Returns vertices that hold their island together -> (vertices, sum of values) outside the largest piece."""

    def close(self) -> None:
        """Release everything that the engine holds."""


def shares(graph: Graph) -> Floats:
    """Returns each edge's share of the weight that comes into its target; equal shares if all weights are 0."""
    into = np.bincount(graph.tails, weights=graph.weights, minlength=graph.size)
    count = np.bincount(graph.tails, minlength=graph.size)
    total, edges = into[graph.tails], count[graph.tails]
    return cast(
        Floats, np.where(total > 0, graph.weights / np.where(total > 0, total, 1.0), 1.0 / np.maximum(edges, 1))
    )


def smallest_label(labels: Ints) -> Ints:
    """Turns any labels of parts into the smallest number of a vertex in each part."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return cast(Ints, first[inverse].astype(np.int64))
