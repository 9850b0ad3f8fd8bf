"""Steps between Spark and the tables: lateness, what was seen, failures in words, offsets arithmetic, the summary."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.traffic.batches import LATENESS_S, of_deltas, of_records
from analytics.traffic.failures import explain_failure
from analytics.traffic.job import Summary
from analytics.traffic.offsets import Rate, difference
from analytics.traffic.seen import FORGET_S, Seen, merged
from analytics.traffic.windows import windows_of
from app.cli.output.traffic import batch_line, oddities, summary_rows
from knative.errors import NotReadyError, PenstockError

NOW = 1_790_000_040
OWNERS = {"t": ("ns", "a")}


def record_sums(start: int, events: int = 2, topic: str = "t", folded: int = 0) -> pa.Table:
    row = {"topic": topic, "start": start, "type": "x", "source": "/s", "events": events, "bytes": 7}
    return pa.Table.from_pylist([{**row, "newest": start + 59, "folded": folded}])


def delta_sums(start: int, events: int = 2, repeats: int = 0) -> pa.Table:
    row: dict[str, Any] = {
        "start": start, "kind": "settled", "ns": "ns", "channel": "a", "sub": "s", "type": "", "source": "",
        "events": events, "bytes": 0, "delivered": events, "retried": 0, "dead": 0, "filtered": 0, "ignored": 0,
        "repeats": repeats, "newest": start, "latency": [{"bucket": 3, "count": events}] if events else None,
    }  # fmt: skip
    return pa.Table.from_pylist([row])


def test_late_is_what_comes_after_its_window_was_over() -> None:
    first = of_records(record_sums(NOW), OWNERS, {}, NOW + 3600)
    on_time = of_records(record_sums(NOW - LATENESS_S), OWNERS, first.facts, NOW + 3600)
    late = of_records(record_sums(NOW - LATENESS_S - 60), OWNERS, first.facts, NOW + 3600)

    assert [one.counters["late"] for one in (first, on_time, late)] == [0, 0, 2]
    assert windows_of(late.table)[0].late == 2
    assert late.facts["newest"] == first.facts["newest"]


def test_a_clock_that_runs_ahead_makes_no_event_late() -> None:
    ahead = of_records(record_sums(NOW + 10**6), OWNERS, {}, NOW)

    assert of_records(record_sums(NOW), OWNERS, ahead.facts, NOW).counters["late"] == 0


def test_records_of_a_topic_without_an_owner_are_not_counted() -> None:
    batch = of_records(record_sums(NOW, topic="other"), OWNERS, {}, NOW)

    assert (batch.table.num_rows, batch.counters["records"], batch.facts["owners"]) == (0, 0, {"t": ["ns", "a"]})


def test_deltas_that_were_counted_leave_no_window() -> None:
    ranges = [{"by": "w", "first": 0, "last": 4, "at": NOW}]
    batch = of_deltas(delta_sums(NOW, 0, repeats=5), ranges, 6, 1, {"newest": NOW, "seen": {}}, NOW)

    assert batch.table.num_rows == 0
    assert batch.counters == {"records": 6, "late": 0, "repeats": 5, "unreadable": 1}
    assert batch.facts["seen"] == {"w": [NOW, [0, 4]]}
    late = of_deltas(delta_sums(NOW - 700), [], 1, 0, batch.facts, NOW)
    assert (windows_of(late.table)[0].late, windows_of(late.table)[0].latency) == (2, {3: 2})


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9))))
def test_ranges_hold_what_was_put_into_them(found: list[tuple[int, int]]) -> None:
    ranges = merged((first, first + more) for first, more in found)
    numbers = {number for first, more in found for number in range(first, first + more + 1)}

    assert {number for first, last in ranges for number in range(first, last + 1)} == numbers
    assert all(before[1] + 1 < after[0] for before, after in itertools.pairwise(ranges))


def test_what_was_seen_survives_json_and_is_forgotten_in_time() -> None:
    seen = Seen()
    seen.add("old", 0, 5, NOW)
    seen.add("new", 0, 5, NOW + FORGET_S)
    seen.add("new", 7, 7, NOW)

    assert Seen.from_json(seen.to_json()) == seen
    seen.forget(NOW + FORGET_S + 1)
    assert seen.rows() == [("new", 0, 5), ("new", 7, 7)]


@pytest.mark.parametrize(
    ("text", "says", "code"),
    [
        ("Timeout of 30000ms expired before the position", "Kafka at b:1 stopped answering.*nothing counts twice", 3),
        ("Caused by: o.a.k.UnknownTopicOrPartitionException: x", "A topic was deleted", 1),
        ("org.apache.kafka.common.errors.TopicAuthorizationException: no", "does not allow reading.*READ", 1),
        ("java.io.IOException: No space left on device", "The disk of .* is full", 1),
        ("java.io.FileNotFoundException: /x (Permission denied)", "cannot be written.*permissions", 1),
        ("Unrecognized token 'nonsense': was expecting", "The checkpoint in .* cannot be read.*--reset", 1),
        ("SparkContext was shut down", "Spark became unavailable.*Start again", 1),
        ("a.b.OddException: first\nCaused by: c.d.InnerError: the reason", "The job failed: InnerError: the reason", 1),
    ],
)
def test_failures_in_words(text: str, says: str, code: int) -> None:
    problem = explain_failure(RuntimeError(text), Path("/tables"), "b:1")
    with pytest.raises(PenstockError, match=says) as caught:
        raise problem
    assert caught.value.exit_code == code


def test_our_own_errors_stay_as_they_are() -> None:
    own = NotReadyError("x")

    assert explain_failure(own, Path("/t"), "b") is own
    assert "cannot be written" in str(explain_failure(OSError(13, "Permission denied"), Path("/t"), "b"))
    assert "stopped answering" in str(explain_failure(TimeoutError(), Path("/t"), "b"))
    assert "Spark became unavailable" in str(explain_failure(ConnectionRefusedError(111, "refused"), Path("/t"), "b"))


@pytest.mark.parametrize(
    ("first", "second", "events"),
    [
        ({0: 10, 1: 0}, {0: 15, 1: 3}, 8),
        ({0: 10, 1: -1}, {0: -1, 1: -1}, 90),  # nothing at or after that time: at the end
        ({0: 50, 1: 5}, {0: 10, 1: 7}, 2),  # a topic made anew
        ({}, {}, 0),
    ],
)
def test_offsets_that_went_by(first: dict[int, int], second: dict[int, int], events: int) -> None:
    assert difference(first, second, {0: 100, 1: 20}) == events


def test_rates() -> None:
    assert Rate("arrived", "ns/a", "", 10.0, 20.0, 50).per_s == 5.0
    assert Rate("arrived", "ns/a", "", 10.0, 10.0, 50).per_s == 0.0


def test_the_summary_in_words() -> None:
    summary = Summary(seconds=2.0)
    batch = of_records(record_sums(NOW), OWNERS, {}, NOW)
    summary.totals.add(batch.table)
    summary.totals.add(of_deltas(delta_sums(NOW, 9), [], 1, 0, {}, NOW).table)
    rows = summary_rows(summary)

    shown = [(row["line"], row["events"], row["rate"], row["tier"]) for row in rows]
    assert shown == [("ns/a > s", 9, 0.1, "deltas"), ("ns/a", 2, 0.0, "records")]
    assert batch_line("records", 3, {"records": 1200, "late": 2, "folded": 0}, 0.5) == (
        "records 3: 1,200 records in 0.5 s (2 late)"
    )
    assert oddities({"records.late": 0, "deltas.repeats": 0}) == []
    assert len(oddities({"records.late": 1, "deltas.repeats": 2, "deltas.unreadable": 3, "records.folded": 4})) == 4
