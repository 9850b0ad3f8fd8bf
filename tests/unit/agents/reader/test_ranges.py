"""Who takes a range, and where reading begins."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.reader.ranges import NEAR, Range, Record, covers, first_offset, parts


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
def test_range_covers_the_positions_in_it(position: int, takes: bool) -> None:
    assert covers(100, 110, position) is takes


@given(st.lists(st.integers(0, 10 * NEAR), min_size=1))
def test_reading_begins_at_a_trigger_that_is_near_the_first(positions: list[int]) -> None:
    start = first_offset(positions)
    assert start in positions
    assert max(positions) - start <= NEAR
    assert not [position for position in positions if position < start and max(positions) - position <= NEAR]


@pytest.mark.parametrize(
    ("offsets", "most", "expected"),
    [
        ([], 2, [(10, 20, [])]),
        ([12], 2, [(10, 20, [12])]),
        ([12, 15, 19], 3, [(10, 20, [12, 15, 19])]),
        ([12, 15, 19], 2, [(10, 19, [12, 15]), (19, 20, [19])]),
        ([12, 15, 17], 1, [(10, 15, [12]), (15, 17, [15]), (17, 20, [17])]),
        ([12], sys.maxsize, [(10, 20, [12])]),
    ],
)
def test_parts_of_a_range_hold_the_same_log(
    offsets: list[int], most: int, expected: list[tuple[int, int, list[int]]]
) -> None:
    whole = Range(3, 10, 20, [Record(offset, None, b"", [], 1, 0) for offset in offsets], len(offsets))
    ranges = list(parts(whole, most))
    assert [(part.start, part.end, [record.offset for record in part.records]) for part in ranges] == expected
    assert {part.number for part in ranges} == {3}
