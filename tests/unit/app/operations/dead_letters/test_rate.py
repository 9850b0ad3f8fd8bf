"""How fast a redrive goes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.operations.dead_letters.rate import RateLimiter, read_rate
from knative.errors import UsageError


@pytest.mark.parametrize(
    ("text", "per_s"), [("", None), ("10/s", 10), ("10", 10), ("600/m", 10), ("36/h", 0.01), ("0.5/s", 0.5)]
)
def test_rate_is_read_as_letters_per_second(text: str, per_s: float | None) -> None:
    assert read_rate(text) == per_s


@pytest.mark.parametrize("text", ["0/s", "-1/s", "fast", "10/d", "1e3", "/s"])
def test_invalid_rate_is_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="--rate"):
        read_rate(text)


@given(st.floats(0.01, 1000), st.lists(st.floats(0, 5), min_size=1, max_size=30))
def test_pace_is_kept(rate: float, pauses: list[float]) -> None:
    """Whenever it is asked, places are at least 1/rate apart, and the first one is at once."""
    pace, now_s, places = RateLimiter(rate), 0.0, []
    for pause_s in pauses:
        now_s += pause_s
        wait_s = pace.wait_s(now_s)
        assert wait_s >= 0
        places.append(now_s + wait_s)
    assert places[0] == pauses[0]
    assert all(later - earlier >= 1 / rate - 1e-6 for earlier, later in pairwise(places))


def test_without_a_rate_nothing_waits() -> None:
    pace = RateLimiter(None)
    assert [pace.wait_s(now_s) for now_s in (0.0, 0.0, 3.0)] == [0, 0, 0]
