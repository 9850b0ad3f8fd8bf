"""Totals of the census: each chunk counts once, whatever comes twice, and gaps are reported."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.census.model import CODES, Place, Problem, Refused, Result, encode
from analytics.census.offset_sequence import OffsetGapError, Succession
from analytics.census.totals import (
    Row,
    Summary,
    apply,
    next_offset,
    partition_of,
    summarize,
    to_plain,
    to_wide,
)
from tests.support.profiles import examples

A, B = "a" * 32, "b" * 32


def result(number: int, file: str = A, code: int = 1, last: bool = False, year: int = 2019) -> bytes:
    return encode(Result(Place(file, number), year, f"{file[0]}.gz", 10, {code: 9}, {Problem.SHORT: 1}, last))


def totals(*values: bytes | None, partition: int = 0) -> Summary:
    return summarize(apply({}, partition, list(enumerate(values))))


def test_totals_by_year_and_code() -> None:
    found = totals(result(0), result(1, code=5), result(0, B, year=2018), result(2, last=True))

    assert found.years[2019] == {**dict.fromkeys(CODES, 0), 1: 18, 5: 9}
    assert found.years[2018] == {**dict.fromkeys(CODES, 0), 1: 9}
    assert found.problems == {Problem.SHORT: 4, Problem.NO_CODE: 0, Problem.OUT_OF_RANGE: 0}
    assert found.lines == 40
    assert [(file.name, file.chunks, file.chunks_in_all, file.complete) for file in found.files] == [
        ("b.gz", 1, None, False), ("a.gz", 3, 3, True),
    ]  # fmt: skip
    assert not found.complete


@pytest.mark.parametrize(
    ("values", "complete"),
    [
        ([result(0), result(1, last=True)], True),
        ([result(1, last=True), result(0)], True),
        ([result(0), result(0), result(1, last=True)], True),
        ([result(1, last=True)], False),
        ([result(0)], False),
        ([], False),
        ([result(0, last=True), b"junk"], False),
        ([result(0, last=True), encode(Refused("compute/0/1", "not a valid year"))], False),
    ],
)
def test_complete_means_that_nothing_is_missing_or_doubtful(values: list[bytes], complete: bool) -> None:
    assert totals(*values).complete is complete


def test_what_cannot_be_read_is_counted_once() -> None:
    refused = encode(Refused("compute/0/1", "not a valid year"))
    found = totals(b"junk", None, refused, refused, encode(Refused("compute/0/2", "not a valid year")))

    assert (found.unreadable, found.refused) == (2, ("compute/0/1", "compute/0/2"))
    assert found.lines == 0


def test_a_gap_is_reported() -> None:
    rows = apply({}, 3, [(5, result(0)), (7, result(1, last=True))])

    assert next_offset(rows, 3) == 8
    assert summarize(rows).holes == 6
    assert not summarize(rows).complete


def test_the_position_is_stored_last_and_alone_decides() -> None:
    records = [(0, result(0)), (1, result(1)), (2, encode(Refused("compute/0/1", "x")))]
    rows = apply({}, 2, records)

    assert list(rows)[-1] == "2/position"
    assert {partition_of(key) for key in rows} == {2}
    assert apply(rows, 2, records) == {}
    assert next_offset({}, 2) is None
    for stored in range(len(rows)):  # killed between two rows: what is stored of it, and then all of it again
        part = dict(list(rows.items())[:stored])
        again = {**part, **apply(part, 2, records)}
        assert summarize(again).years == summarize(rows).years
        assert summarize(again).refused == summarize(rows).refused


def test_two_partitions_that_counted_the_same_chunk_are_noticed() -> None:
    rows = {**apply({}, 0, [(0, result(0))]), **apply({}, 1, [(0, result(0)), (1, result(1, last=True))])}

    assert summarize(rows).twice == 1
    assert not summarize(rows).complete


@examples(40)
@given(st.integers(1, 60), st.randoms(use_true_random=False), st.integers(1, 4))
def test_repeats_batches_and_kills_change_nothing(chunks: int, dice: random.Random, partitions: int) -> None:
    """Results come several times, in any order; a reader is killed after any row and starts at its position."""
    logs: list[list[bytes]] = [[] for _ in range(partitions)]
    numbers = [*range(chunks), *(dice.randrange(chunks) for _ in range(chunks))]
    dice.shuffle(numbers)
    for number in numbers:
        logs[number % partitions].append(result(number, code=number % 13, last=number == chunks - 1))
    stored: dict[str, Row] = {}
    for partition, log in enumerate(logs):
        while (place := next_offset(stored, partition) or 0) < len(log):
            end = min(len(log), place + dice.randrange(1, 8))
            changed = list(apply(stored, partition, [(n, log[n]) for n in range(place, end)]).items())
            kept = len(changed) if dice.random() < 0.6 else dice.randrange(len(changed))
            stored.update(changed[:kept])
    found = summarize(stored)
    expected = {code: 9 * len([n for n in range(chunks) if n % 13 == code]) for code in CODES}

    assert found.years == {2019: expected}
    assert found.complete
    assert found.repeats <= len(numbers) * 8


def test_the_pages() -> None:
    found = totals(result(0, last=True))

    assert to_plain(found)["2019"]["1"] == {"description": "house, apartment, flat", "count": 9}
    assert to_plain(found)["2019"].keys() == {str(code) for code in CODES}
    wide = to_wide(found, behind=0)
    assert (wide["complete"], wide["years"]["2019"]["1"], wide["files"][0]["name"]) == (True, 9, "a.gz")
    assert to_wide(found, behind=3)["complete"] is False


def test_succession() -> None:
    order = Succession()
    order.start(3, 40)
    assert not order.take(3, 39)
    with pytest.raises(OffsetGapError, match="after offset 39 of partition 3 came 45"):
        order.take(3, 45)  # the first of a partition can be dropped too
    order.start(3, 45)
    assert order.take(3, 45)
    assert not order.take(3, 45)
    assert order.take(3, 46)
    with pytest.raises(OffsetGapError, match="after offset 46 of partition 3 came 48"):
        order.take(3, 48)
    assert [order.again(3, now) for now in (0.0, 0.5, 1.0, 1.9, 2.0)] == [47, None, 47, None, 47]
    for now in range(3, 10):
        assert order.again(3, now) == 47
    with pytest.raises(OffsetGapError, match="offset 47 of partition 3 does not come"):
        order.again(3, 10)
    assert order.take(3, 47)
    assert order.again(3, 10) == 48  # another place has its own count
    order.start(3, 44)  # a rebalance goes back
    with pytest.raises(OffsetGapError):
        order.take(3, 45)
    assert order.take(3, 44)
    assert order.take(0, 0)


def test_records_that_do_not_come() -> None:
    order = Succession()
    order.start(3, 40)
    assert [order.overdue(3, 40, now) for now in (0.0, 100.0)] == [None, None]  # there are none
    assert [order.overdue(3, 42, now) for now in (105.0, 110.0, 111.0)] == [None, 40, None]
    assert [order.overdue(3, 42, now) for now in (129.0, 130.0, 169.0, 170.0)] == [None, 40, None, 40]
    assert order.take(3, 40)
    assert [order.overdue(3, 42, now) for now in (171.0, 180.0, 181.0)] == [None, None, 41]
    assert order.take(3, 41)
    assert [order.overdue(3, 42, now) for now in (182.0, 300.0)] == [None, None]
    waits = [now for now in range(300, 1_000) if order.overdue(0, 7, float(now)) == 0]
    assert waits == [310, 330, 370, 450, 570, 690, 810, 930]


@given(st.lists(st.booleans(), max_size=19), st.integers(0, 50))  # ten attempts for one record, at most
def test_whatever_is_dropped_all_records_are_taken_in_order(drops: list[bool], first: int) -> None:
    order = Succession()
    order.start(0, first)
    end, taken, now, place = first + 20, [], 0.0, first
    dropped = iter(drops)
    while order.next[0] < end:
        now += 1.0
        if place < end:
            offset, place = place, place + 1
            if next(dropped, False):
                continue
            try:
                if order.take(0, offset):
                    taken.append(offset)
                continue
            except OffsetGapError:
                back = order.again(0, now)
        else:
            back = order.overdue(0, end, now)
        if back is not None:
            place = back
    assert taken == list(range(first, end))
