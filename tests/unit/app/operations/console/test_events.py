"""How much a look at topics reads."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.operations.console import events
from app.operations.console.events import Bounded, newest_starts
from knative.errors import UsageError
from tables.timing import ANSWER_S
from web.console.limits import Limits

_RANGES = st.dictionaries(
    st.integers(0, 9), st.tuples(st.integers(0, 50), st.integers(0, 50)).map(lambda p: (p[0], sum(p)))
)


@pytest.mark.parametrize(
    ("ranges", "most", "starts"),
    [
        ({}, 10, {}),
        ({0: (5, 100)}, 10, {0: 90}),
        ({0: (5, 100), 1: (0, 100)}, 10, {0: 95, 1: 95}),
        ({0: (0, 100), 1: (7, 9)}, 10, {0: 92, 1: 7}),  # the few of partition 1 leave eight to the other
        ({0: (0, 4), 1: (0, 6)}, 10, {0: 0, 1: 0}),
        ({0: (0, 4), 1: (0, 6)}, 0, {0: 4, 1: 6}),
    ],
)
def test_newest_of_all_partitions_are_read(
    ranges: Mapping[int, tuple[int, int]], most: int, starts: Mapping[int, int]
) -> None:
    assert newest_starts(ranges, most) == starts


@given(_RANGES, st.integers(0, 100))
def test_as_many_are_read_as_may_be(ranges: dict[int, tuple[int, int]], most: int) -> None:
    starts = newest_starts(ranges, most)
    read = sum(high - starts[number] for number, (_, high) in ranges.items())
    total = sum(high - low for low, high in ranges.values())
    assert max(0, min(most, total) - len(ranges)) <= read <= min(most, total)
    assert all(low <= starts[number] <= high for number, (low, high) in ranges.items())


def test_topics_share_what_may_be_read() -> None:
    bounded = Bounded(Limits(read_max=10))
    assert bounded.newest({0: (0, 3)}, topics=2) == {0: 0}
    assert (len(list(bounded.of(range(3)))), bounded.is_whole) == (3, True)
    assert bounded.newest({0: (0, 90)}) == {0: 83}
    assert (bounded.read, bounded.is_whole) == (3, False)


def test_time_that_a_reading_has_begins_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(events, "time", SimpleNamespace(monotonic=lambda: now_s))
    bounded = Bounded(Limits())
    now_s += 2 * ANSWER_S  # it waits until others have read
    reading = bounded.of(range(3))
    assert next(reading) == 0
    now_s += 2 * ANSWER_S
    assert list(reading) == []
    assert (bounded.read, bounded.is_over, bounded.is_whole) == (1, True, False)


def test_wrong_filter_is_named_as_the_form_names_it() -> None:
    with pytest.raises(UsageError, match=r"^The filter 'type' is incomplete"):
        events._filter("type")
    with pytest.raises(UsageError, match=r"^The filter is neither"):
        events._filter("type = ")
