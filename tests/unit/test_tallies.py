"""What a process sums up of its traffic between two seconds: exact, bounded, and gone once it was taken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knative.ports import Headers
from knative.traffic.counters import NAME_BYTES_MAX, Tallies
from knative.traffic.delta import COMBINATIONS_MAX, Delta

AT = 1_700_000_000


def headers(kind: bytes | None = b"t", source: bytes | None = b"/s", *before: str) -> Headers:
    return [*((name, b"x") for name in before), ("ce_type", kind), ("ce_source", source), ("ce_id", b"1")]


def test_accepted_events_of_a_channel() -> None:
    tallies = Tallies("w")
    tally = tallies.channel("ns", "ch")
    for _ in range(3):
        tally.accepted(headers(), 7)
    tally.accepted(headers(b"other"), 1)

    assert list(tallies.take(AT)) == [
        Delta("w", 1, AT, "accepted", "ns", "ch", "", "t", "/s", 3, 21),
        Delta("w", 2, AT, "accepted", "ns", "ch", "", "other", "/s", 1, 1),
    ]
    assert list(tallies.take(AT + 1)) == []


def test_settled_events_of_a_subscription() -> None:
    tallies = Tallies("w")
    tally = tallies.subscription("ns", "ch", "sub")
    tally.delivered(headers(), b"12345", 0.00005, 0)
    tally.delivered(headers(), None, 0.00005, 2)
    tally.settled(headers(), b"1", "delivered", 0.00005, 3)
    tally.settled(headers(), b"1", "dead-lettered", 1.0, 4)
    tally.settled(headers(), None, "dead-lettered", 1.0, 0)  # no event at all: never attempted
    tally.settled(headers(), b"1", "filtered", 1.0, 0)
    tally.settled(headers(), b"1", "ignored", 1.0, 1)

    (delta,) = tallies.take(AT)

    assert delta == Delta("w", 1, AT, "settled", "ns", "ch", "sub", "t", "/s", 7, 9, 3, 8, 2, 1, 1, {0: 3})
    assert delta.events == delta.delivered + delta.dead + delta.filtered + delta.ignored


def test_type_and_source_are_found_wherever_they_are() -> None:
    tallies = Tallies("w")
    tally = tallies.channel("ns", "ch")
    for one in (headers(), headers(b"t", b"/s", "a", "b"), [("CE_Source", b"/s"), ("Ce_Type", b"t")], headers()):
        tally.accepted(one, 1)

    assert [(d.type, d.source, d.events) for d in tallies.take(AT)] == [("t", "/s", 4)]


@pytest.mark.parametrize("without", [[], [("content-type", b"x")], headers(None, None), headers(b"", b"")])
def test_what_says_no_type_and_no_source_counts_under_none(without: Headers) -> None:
    tallies = Tallies("w")
    tallies.channel("ns", "ch").accepted(without, 1)

    assert [(d.type, d.source, d.events) for d in tallies.take(AT)] == [("", "", 1)]


def test_bytes_that_are_no_text_count_too() -> None:
    tallies = Tallies("w")
    tallies.channel("ns", "ch").accepted(headers(b"\xff"), 1)

    assert [d.type for d in tallies.take(AT)] == ["\ufffd"]


def test_combinations_are_bounded_over_the_whole_process_and_anew_each_second() -> None:
    tallies = Tallies("w")
    one, two = tallies.channel("ns", "a"), tallies.channel("ns", "b")
    for _ in range(2):
        for number in range(COMBINATIONS_MAX + 100):
            one.accepted(headers(b"%d" % number), 1)
            two.accepted(headers(b"%d" % number), 1)
        deltas = list(tallies.take(AT))
        assert len(deltas) == 2 * (COMBINATIONS_MAX + 1)
        assert [d.events for d in deltas if (d.type, d.source) == ("", "")] == [100, 100]


def test_endless_names_are_not_kept() -> None:
    tallies = Tallies("w")
    tallies.channel("ns", "ch").accepted(headers(b"t" * NAME_BYTES_MAX), 1)

    assert [d.type for d in tallies.take(AT)] == [""]


@given(st.lists(st.floats(0, 1e4), max_size=100))
def test_every_duration_is_in_the_sketch(ages: list[float]) -> None:
    tallies = Tallies("w")
    tally = tallies.subscription("ns", "ch", "sub")
    for age_s in ages:
        tally.delivered(headers(), b"", age_s, 0)

    assert sum(sum(d.latency.values()) for d in tallies.take(AT)) == len(ages)


def test_durations_do_not_pile_up_while_a_second_is_long() -> None:
    tallies = Tallies("w")
    tally = tallies.subscription("ns", "ch", "sub")
    for _ in range(20_000):
        tally.delivered(headers(), b"", 0.5, 0)

    assert max(len(row.plain) for row in tally._rows.values()) <= 4096
    assert [sum(d.latency.values()) for d in tallies.take(AT)] == [20_000]


def test_what_is_closed_is_told_once_more_and_then_forgotten() -> None:
    tallies = Tallies("w")
    old = tallies.subscription("ns", "ch", "sub")
    new = tallies.subscription("ns", "ch", "sub")  # made anew while the former one still drains
    old.delivered(headers(), b"", 0.5, 0)
    old.close()
    assert [d.delivered for d in tallies.take(AT)] == [1]

    new.delivered(headers(), b"", 0.5, 0)
    new.close()
    assert [d.delivered for d in tallies.take(AT)] == [1]
    assert tallies._tallies == {}
