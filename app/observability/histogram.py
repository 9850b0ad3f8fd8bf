"""Histograms of seconds as plain lists of integers, cheap enough for the hot path.

    counts[bisect_left(BOUNDS_S, seconds)] += 1       one list per series; index i = values up to BOUNDS_S[i]

The last count is for values above all bounds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

#: Upper bounds of the buckets in seconds, from a fast subscriber to a backlog of an hour.
BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 300.0, 3600.0)


def empty() -> list[int]:
    """Returns counts of a new series."""
    return [0] * (len(BOUNDS_S) + 1)


class Histogram:
    """One series. Written by one thread; the hot path may do the two additions of `add` itself."""

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = empty()
        self.total_s = 0.0

    def add(self, seconds: float) -> None:
        """Count one value."""
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.total_s += seconds


def cumulative(counts: Sequence[int]) -> list[tuple[str, int]]:
    """Returns buckets as Prometheus needs them: (upper bound as text, number of values up to it), `+Inf` last."""
    rows, running = [], 0
    for bound, count in zip((*BOUNDS_S, float("inf")), counts, strict=True):
        running += count
        rows.append(("+Inf" if bound == float("inf") else f"{bound:g}", running))
    return rows
