"""A mergeable sketch of durations: counts in logarithmic buckets, quantiles at most 5 % off.

    bucket k holds the seconds in (1e-4 * 1.1^(k-1), 1e-4 * 1.1^k];  0 holds all up to 0.1 ms, the last one all above

    {k: count}  --merge-->  {k: count}  --quantile-->  seconds

Sketches of different processes and seconds add up, in any order, to the sketch of all of them; averages would not. A
sketch is a plain dict, and the number of buckets limits its size.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial

SMALLEST_S = 1e-4
GROWTH = 1.1
BUCKET_MAX = 240  #: up to ten days, which is longer than the default retention

#: Upper bound of each bucket. The last bucket has none.
BOUNDS_S = tuple(SMALLEST_S * GROWTH**k for k in range(BUCKET_MAX))

LatencySketch = dict[int, int]

_bucket = partial(bisect_left, BOUNDS_S)


def bound_s(bucket: int) -> float:
    """Returns the upper bound of a bucket in seconds (for the last one: its lower bound times 1.1)."""
    return SMALLEST_S * GROWTH ** min(max(bucket, 0), BUCKET_MAX)


def add(sketch: LatencySketch, seconds: float, count: int = 1) -> None:
    """Add one value, or `count` equal ones."""
    bucket = bisect_left(BOUNDS_S, seconds)
    sketch[bucket] = sketch.get(bucket, 0) + count


def of(values: Iterable[float]) -> LatencySketch:
    """Returns the sketch of some durations in seconds. Takes a tenth of a microsecond per value."""
    return dict(Counter(map(_bucket, values)))


def merge(into: LatencySketch, other: Mapping[int, int]) -> None:
    """Add the counts of `other`."""
    for bucket, count in other.items():
        into[bucket] = into.get(bucket, 0) + count


def total(sketch: Mapping[int, int]) -> int:
    """Returns the number of values in a sketch."""
    return sum(sketch.values())


def quantile(sketch: Mapping[int, int], q: float) -> float | None:
    """Returns the quantile `q` (0..1) in seconds: the middle of its bucket, at most 5 % off.

    None for an empty sketch. Raises ValueError if `q` is out of range.
    """
    if not 0.0 <= q <= 1.0:
        raise ValueError(f"{q} is not between 0 and 1")
    size = total(sketch)
    if size <= 0:
        return None
    rank = max(1, math.ceil(q * size))
    seen = 0
    for bucket in sorted(sketch):
        seen += sketch[bucket]
        if seen >= rank:
            break
    # The harmonic mean of the bucket's bounds: the relative error is the same at both of them, 4.8 %.
    return bound_s(bucket) * 2.0 / (1.0 + GROWTH)
