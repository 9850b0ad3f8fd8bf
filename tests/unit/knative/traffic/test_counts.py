"""Counts add up number by number, and every list of them is made of their names."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from analytics.traffic import windows
from knative.traffic.counters import TrafficCounters
from knative.traffic.counts import NAMES, OF_SUBSCRIPTIONS, SETTLED, Counts, column, read

numbers = st.integers(0, 2**53)
counts = st.builds(Counts, *(numbers for _ in NAMES))


@given(counts, counts)
def test_sum_has_the_sum_of_each_number(left: Counts, right: Counts) -> None:
    whole = left + right
    assert {name: getattr(left, name) + getattr(right, name) for name in NAMES} == dict(
        zip(NAMES, whole.values(), strict=True)
    )
    assert left + Counts() == left


@given(counts)
def test_counts_come_back_from_their_numbers_by_name(total: Counts) -> None:
    assert read(lambda name: total.nonzero().get(name, 0)) == total


def test_names_are_those_of_stored_and_settled_events() -> None:
    assert NAMES == ("events", "bytes", "delivered", "retried", "dead", "filtered", "ignored")
    assert ("events", "bytes", *OF_SUBSCRIPTIONS) == NAMES
    assert set(SETTLED) <= set(OF_SUBSCRIPTIONS)


def test_columns_of_tables_and_frames_follow_from_the_names() -> None:
    assert windows.COUNTS == (
        "events", "bytes", "delivered", "retried", "dead_lettered", "filtered", "ignored", "late",
    )  # fmt: skip
    assert [column(name) for name in NAMES] == list(windows.COUNTS[:-1])


def test_what_is_counted_in_place_becomes_a_value_of_its_own() -> None:
    counters = TrafficCounters("w")
    counter = counters.subscription("ns", "ch", "sub")
    counter.delivered([], b"x", 0.1, 0)
    (delta,) = counters.take(0)
    counter.delivered([], b"x", 0.1, 0)
    assert (type(delta.counts), delta.counts) == (Counts, Counts(1, 1, 1))
