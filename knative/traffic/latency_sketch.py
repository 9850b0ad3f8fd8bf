"""A mergeable sketch of durations: counts by logarithmic buckets, quantiles within five percent.

    bucket k holds the seconds in (1e-4 * 1.1^(k-1), 1e-4 * 1.1^k];  0 holds all up to 0.1 ms, the last all above

    {k: count}  --merge-->  {k: count}  --quantile-->  seconds

Sketches of different processes and seconds add up to the sketch of all of them, in any order, which is why there are
no averages here. A sketch is a plain dict; its size is bounded by the number of buckets. Refuses to keep the values.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial

SMALLEST_S = 1e-4
GROWTH = 1.1
BUCKET_MAX = 240  #: up to ten days: longer than an event is kept

#: Upper bound of each bucket but the last, which has none.
BOUNDS_S = tuple(SMALLEST_S * GROWTH**k for k in range(BUCKET_MAX))

LatencySketch = dict[int, int]

_bucket = partial(bisect_left, BOUNDS_S)


def bound_s(bucket: int) -> float:
    """The upper bound of a bucket in seconds (the last one's lower bound, grown once)."""
    return SMALLEST_S * GROWTH ** min(max(bucket, 0), BUCKET_MAX)


def add(sketch: LatencySketch, seconds: float, count: int = 1) -> None:
    """One value (or `count` equal ones) more."""
    bucket = bisect_left(BOUNDS_S, seconds)
    sketch[bucket] = sketch.get(bucket, 0) + count


def of(values: Iterable[float]) -> LatencySketch:
    """The sketch of some seconds; a tenth of a microsecond for each."""
    return dict(Counter(map(_bucket, values)))


def merge(into: LatencySketch, other: Mapping[int, int]) -> None:
    """Add what `other` counted."""
    for bucket, count in other.items():
        into[bucket] = into.get(bucket, 0) + count


def total(sketch: Mapping[int, int]) -> int:
    """How many values it counted."""
    return sum(sketch.values())


def quantile(sketch: Mapping[int, int], q: float) -> float | None:
    """Seconds that the share `q` (0..1) of the values does not exceed: the bucket's middle, at most 5 % off.

    None for an empty sketch. Raises ValueError for a share that is none.
    """
    if not 0.0 <= q <= 1.0:
        raise ValueError(f"{q} is no share between 0 and 1")
    size = total(sketch)
    if size <= 0:
        return None
    rank = max(1, math.ceil(q * size))
    seen = 0
    for bucket in sorted(sketch):
        seen += sketch[bucket]
        if seen >= rank:
            break
    return bound_s(bucket) * 2.0 / (1.0 + GROWTH)
