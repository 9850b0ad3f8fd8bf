"""The sketch of durations: buckets, merging, and quantiles near those of the values themselves."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knative.traffic import latency_sketch

seconds = st.floats(1.1e-4, 5e5)
sketches = st.dictionaries(st.integers(0, latency_sketch.BUCKET_MAX), st.integers(1, 10**9), max_size=20)


@given(seconds)
def test_bucket_holds_what_lies_between_its_bounds(value: float) -> None:
    (bucket,) = latency_sketch.of([value])

    assert latency_sketch.bound_s(bucket - 1) < value <= latency_sketch.bound_s(bucket)


@pytest.mark.parametrize(
    ("value", "bucket"), [(-5.0, 0), (0.0, 0), (1e-4, 0), (1.0001e-4, 1), (1e9, latency_sketch.BUCKET_MAX)]
)
def test_ends_hold_what_is_beyond_them(value: float, bucket: int) -> None:
    assert latency_sketch.of([value]) == {bucket: 1}


@given(st.lists(seconds, min_size=1, max_size=200), st.floats(0, 1))
def test_quantile_is_at_most_five_percent_off(values: list[float], q: float) -> None:
    exact = sorted(values)[max(1, math.ceil(q * len(values))) - 1]

    assert latency_sketch.quantile(latency_sketch.of(values), q) == pytest.approx(exact, rel=0.0501)


@given(sketches, sketches, sketches)
def test_order_of_merging_makes_no_difference(
    a: latency_sketch.LatencySketch, b: latency_sketch.LatencySketch, c: latency_sketch.LatencySketch
) -> None:
    left: latency_sketch.LatencySketch = {}
    for sketch in (a, b, c):
        latency_sketch.merge(left, sketch)
    right = dict(c)
    latency_sketch.merge(right, b)
    latency_sketch.merge(right, a)

    assert left == right
    assert latency_sketch.total(left) == latency_sketch.total(a) + latency_sketch.total(b) + latency_sketch.total(c)


@given(st.lists(seconds, max_size=50), st.lists(seconds, max_size=50))
def test_merged_sketches_are_the_sketch_of_all(some: list[float], more: list[float]) -> None:
    merged = latency_sketch.of(some)
    latency_sketch.merge(merged, latency_sketch.of(more))
    added: latency_sketch.LatencySketch = {}
    for value in some + more:
        latency_sketch.add(added, value)

    assert merged == added == latency_sketch.of(some + more)


def test_nothing_has_no_quantile() -> None:
    assert latency_sketch.quantile({}, 0.5) is None


@pytest.mark.parametrize("q", [-0.1, 1.1, math.nan])
def test_share_is_between_0_and_1(q: float) -> None:
    with pytest.raises(ValueError, match="is not between 0 and 1"):
        latency_sketch.quantile({1: 1}, q)
