"""Waits double up to the longest one, and never overflow."""

from __future__ import annotations

from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from knative.backoff import doubling_s, exponential_s
from knative.delivery.policy import DURATION_MAX_S


def test_waits_double_up_to_the_longest() -> None:
    assert list(islice(doubling_s(0.5, 3.0), 5)) == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert list(islice(doubling_s(5.0, 3.0), 2)) == [3.0, 3.0]


@given(st.integers(0, 10**6), st.floats(0, DURATION_MAX_S), st.floats(0, DURATION_MAX_S))
def test_no_wait_is_longer_than_the_longest_or_shorter_than_the_one_before(
    n: int, first_s: float, longest_s: float
) -> None:
    assert exponential_s(n, first_s, longest_s) <= exponential_s(n + 1, first_s, longest_s) <= longest_s
