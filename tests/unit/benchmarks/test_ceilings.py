"""The ceiling of an ordered subscription: what the busiest partition allows."""

from __future__ import annotations

import pytest

from benchmarks.ceilings import added, ordered_s, share_of_ceiling


def test_events_are_the_difference_of_two_ends() -> None:
    assert added({0: 5, 1: 7}, {0: 5, 1: 9, 2: 3}) == {0: 0, 1: 2, 2: 3}


def test_busiest_partition_sets_the_time() -> None:
    assert ordered_s({0: 30, 1: 50, 2: 20}, 0.01) == pytest.approx(0.5)
    assert ordered_s({}, 0.01) == 0


def test_share_is_of_that_time() -> None:
    assert share_of_ceiling({0: 50, 1: 10}, 0.01, 0.5) == pytest.approx(100)
    assert share_of_ceiling({0: 50, 1: 50}, 0.01, 1.0) == pytest.approx(50)
    with pytest.raises(ValueError, match="not a valid duration"):
        share_of_ceiling({0: 1}, 0.01, 0.0)
