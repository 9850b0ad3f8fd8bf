"""What a process sums up of its traffic between two seconds: exact, bounded, and gone once it was taken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knative.delivery.attempt import Settled
from knative.ports import Headers
from knative.traffic.counters import NAME_BYTES_MAX, TrafficCounters
from knative.traffic.counts import Counts
from knative.traffic.delta import COMBINATIONS_MAX, Delta

AT = 1_700_000_000


def headers(kind: bytes | None = b"t", source: bytes | None = b"/s", *before: str) -> Headers:
    return [*((name, b"x") for name in before), ("ce_type", kind), ("ce_source", source), ("ce_id", b"1")]


def test_accepted_events_of_a_channel() -> None:
    counters = TrafficCounters("w")
    counter = counters.channel("ns", "ch")
    for _ in range(3):
        counter.accepted(headers(), 7)
    counter.accepted(headers(b"other"), 1)

    assert list(counters.take(AT)) == [
        Delta("w", 1, AT, "accepted", "ns", "ch", "", "t", "/s", Counts(3, 21)),
        Delta("w", 2, AT, "accepted", "ns", "ch", "", "other", "/s", Counts(1, 1)),
    ]
    assert list(counters.take(AT + 1)) == []


def test_settled_events_of_a_subscription() -> None:
    counters = TrafficCounters("w")
    counter = counters.subscription("ns", "ch", "sub")
    counter.delivered(headers(), b"12345", 0.00005, 0)
    counter.delivered(headers(), None, 0.00005, 2)
    counter.settled(headers(), b"1", Settled.DELIVERED, 0.00005, 3)
    counter.settled(headers(), b"1", Settled.DEAD_LETTERED, 1.0, 4)
    counter.settled(headers(), None, Settled.DEAD_LETTERED, 1.0, 0)  # no event at all: never attempted
    counter.settled(headers(), b"1", Settled.FILTERED, 1.0, 0)
    counter.settled(headers(), b"1", Settled.IGNORED, 1.0, 1)

    (delta,) = counters.take(AT)

    assert delta == Delta("w", 1, AT, "settled", "ns", "ch", "sub", "t", "/s", Counts(7, 9, 3, 8, 2, 1, 1), {0: 3})
    assert delta.counts.events == delta.counts.settled


def test_type_and_source_are_found_wherever_they_are() -> None:
    counters = TrafficCounters("w")
    counter = counters.channel("ns", "ch")
    for sequence in (headers(), headers(b"t", b"/s", "a", "b"), [("CE_Source", b"/s"), ("Ce_Type", b"t")], headers()):
        counter.accepted(sequence, 1)

    assert [(d.type, d.source, d.counts.events) for d in counters.take(AT)] == [("t", "/s", 4)]


@pytest.mark.parametrize("without", [[], [("content-type", b"x")], headers(None, None), headers(b"", b"")])
def test_what_says_no_type_and_no_source_counts_under_none(without: Headers) -> None:
    counters = TrafficCounters("w")
    counters.channel("ns", "ch").accepted(without, 1)

    assert [(d.type, d.source, d.counts.events) for d in counters.take(AT)] == [("", "", 1)]


def test_bytes_that_are_no_text_count_too() -> None:
    counters = TrafficCounters("w")
    counters.channel("ns", "ch").accepted(headers(b"\xff"), 1)

    assert [d.type for d in counters.take(AT)] == ["\ufffd"]


def test_combinations_are_bounded_per_process_and_second() -> None:
    counters = TrafficCounters("w")
    traffic_counter, two = counters.channel("ns", "a"), counters.channel("ns", "b")
    for _ in range(2):
        for number in range(COMBINATIONS_MAX + 100):
            traffic_counter.accepted(headers(b"%d" % number), 1)
            two.accepted(headers(b"%d" % number), 1)
        deltas = list(counters.take(AT))
        assert len(deltas) == 2 * (COMBINATIONS_MAX + 1)
        assert [d.counts.events for d in deltas if (d.type, d.source) == ("", "")] == [100, 100]


def test_endless_names_are_not_kept() -> None:
    counters = TrafficCounters("w")
    counters.channel("ns", "ch").accepted(headers(b"t" * NAME_BYTES_MAX), 1)

    assert [d.type for d in counters.take(AT)] == [""]


@given(st.lists(st.floats(0, 1e4), max_size=100))
def test_every_duration_is_in_the_sketch(ages: list[float]) -> None:
    counters = TrafficCounters("w")
    counter = counters.subscription("ns", "ch", "sub")
    for age_s in ages:
        counter.delivered(headers(), b"", age_s, 0)

    assert sum(sum(d.latency.values()) for d in counters.take(AT)) == len(ages)


def test_durations_do_not_pile_up_while_a_second_is_long() -> None:
    counters = TrafficCounters("w")
    counter = counters.subscription("ns", "ch", "sub")
    for _ in range(20_000):
        counter.delivered(headers(), b"", 0.5, 0)

    assert max(len(row.plain) for row in counter._rows.values()) <= 4096
    assert [sum(d.latency.values()) for d in counters.take(AT)] == [20_000]


def test_closed_counter_is_reported_once_more() -> None:
    counters = TrafficCounters("w")
    old = counters.subscription("ns", "ch", "sub")
    new = counters.subscription("ns", "ch", "sub")  # made anew while the former one still drains
    old.delivered(headers(), b"", 0.5, 0)
    old.close()
    assert [d.counts.delivered for d in counters.take(AT)] == [1]

    new.delivered(headers(), b"", 0.5, 0)
    new.close()
    assert [d.counts.delivered for d in counters.take(AT)] == [1]
    assert counters._counters == {}
