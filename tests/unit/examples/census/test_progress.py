"""Records are taken in order, each once, whatever a library repeats or drops, and only what is stored is committed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from examples.census.progress import Progress


def test_only_the_next_record_is_taken() -> None:
    progress = Progress()
    assert not progress.take(3, 0)  # a partition of somebody else
    progress.begin({3: 40})
    assert [progress.take(3, offset) for offset in (39, 41, 40, 40, 42, 41)] == [False, False, True, False, False, True]
    progress.begin({3: 44, 5: 0})  # a rebalance
    assert [progress.take(3, 42), progress.take(3, 44), progress.take(5, 0)] == [False, True, True]


def test_only_what_is_stored_counts() -> None:
    progress = Progress()
    progress.begin({3: 40})
    assert progress.take(3, 40)
    assert progress.stored == {3: 40}
    progress.done(progress.generation, [(3, 40)])
    assert progress.stored == {3: 41}
    before = progress.generation
    assert progress.take(3, 41)
    progress.begin({3: 41})  # while it was stored: it will come again
    progress.done(before, [(3, 41)])
    assert progress.stored == {3: 41}
    assert progress.take(3, 41)


def test_records_that_do_not_come() -> None:
    progress = Progress()
    progress.begin({3: 40})
    assert [progress.overdue(3, 40, now) for now in (0.0, 100.0)] == [None, None]  # there are none
    assert [progress.overdue(3, 42, now) for now in (101.0, 104.0, 105.0, 106.0)] == [None, None, 40, None]
    assert [progress.overdue(3, 42, now) for now in (114.0, 115.0, 134.0, 135.0)] == [None, 40, None, 40]
    assert progress.take(3, 40)
    assert [progress.overdue(3, 42, now) for now in (136.0, 146.0)] == [None, None]  # it is not stored yet
    progress.done(progress.generation, [(3, 40)])
    assert [progress.overdue(3, 42, now) for now in (150.0, 151.0)] == [None, 41]
    assert progress.take(3, 41)
    assert [progress.overdue(3, 42, now) for now in (152.0, 300.0)] == [None, None]
    progress.begin({0: 0})
    waits = [now for now in range(300, 900) if progress.overdue(0, 7, float(now)) == 0]
    assert waits == [305, 315, 335, 375, 455, 575, 695, 815]
    assert progress.overdue(3, 50, 999.0) is None  # a partition of somebody else


@given(st.lists(st.booleans(), max_size=19), st.integers(0, 50))
def test_whatever_is_dropped_all_records_are_taken_in_order(drops: list[bool], first: int) -> None:
    progress = Progress()
    progress.begin({0: first})
    end, taken, now, place, drop = first + 20, list[int](), 0.0, first, iter(drops)
    while progress.next[0] < end:
        now += 1.0
        if place < end:
            offset, place = place, place + 1
            if not next(drop, False) and progress.take(0, offset):
                taken.append(offset)
                progress.done(progress.generation, [(0, offset)])
        back = progress.overdue(0, end, now)
        place = place if back is None else back
    assert taken == list(range(first, end))
