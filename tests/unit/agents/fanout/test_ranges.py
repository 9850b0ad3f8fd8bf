"""Who takes a range, and where reading begins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.fanout.ranges import NEAR, covers, first_offset


@pytest.mark.parametrize(
    ("position", "takes"),
    [
        pytest.param(99, False, id="before: 99 would be lost"),
        pytest.param(100, True, id="at the start"),
        pytest.param(105, True, id="inside"),
        pytest.param(109, True, id="the last offset is left"),
        pytest.param(110, False, id="it has all of it"),
        pytest.param(500, False, id="far beyond"),
    ],
)
def test_covers(position: int, takes: bool) -> None:
    assert covers(100, 110, position) is takes


@given(st.lists(st.integers(0, 10 * NEAR), min_size=1))
def test_reading_begins_at_a_trigger_that_is_near_the_first(positions: list[int]) -> None:
    start = first_offset(positions)
    assert start in positions
    assert max(positions) - start <= NEAR
    assert not [one for one in positions if one < start and max(positions) - one <= NEAR]
