"""The buckets of a histogram."""

from __future__ import annotations

from app.observability.histogram import BOUNDS_S, Histogram, cumulative


def test_buckets_are_cumulative_and_their_bounds_belong_to_them() -> None:
    times = Histogram()
    for seconds in (-0.1, 0.0, 0.001, 0.0011, 3_600.0, 3_601.0):
        times.add(seconds)

    rows = cumulative(times.counts)

    assert rows[:2] == [("0.001", 3), ("0.0025", 4)]
    assert rows[-2:] == [("3600", 5), ("+Inf", 6)]
    assert len(rows) == len(BOUNDS_S) + 1
