"""What is seen of deltas, failures in words, offsets arithmetic, the summary."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.traffic.failures import explain_failure
from analytics.traffic.frames import ROWS
from analytics.traffic.job import Summary
from analytics.traffic.offsets import Rate, difference
from analytics.traffic.seen import FORGET_S, Seen, merged
from analytics.traffic.totals import Totals, by_day, by_topic, not_empty
from analytics.traffic.windows import DAY_S, Window, table_of
from app.cli.output.traffic import batch_line, oddities, summary_rows
from knative.errors import NotReadyError, PenstockError
from knative.traffic.counts import Counts

NOW = 1_790_000_040


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9))))
def test_ranges_hold_what_was_put_into_them(pairs: list[tuple[int, int]]) -> None:
    ranges = merged((first, first + more) for first, more in pairs)
    numbers = {number for first, more in pairs for number in range(first, first + more + 1)}

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
        ("org.apache.kafka.common.errors.TopicAuthorizationException: no", "does not allow this user to read.*READ", 1),
        ("java.io.IOException: No space left on device", "The disk of .* is full", 1),
        ("java.io.FileNotFoundException: /x (Permission denied)", "cannot be written.*permissions", 1),
        ("SparkContext was shut down", "Spark became unavailable.*Run the job again", 1),
        ("a.b.OddException: first\nCaused by: c.d.InnerError: the reason", "The job failed: InnerError: the reason", 1),
    ],
)
def test_failure_of_spark_is_a_sentence_with_an_exit_code(text: str, says: str, code: int) -> None:
    problem = explain_failure(RuntimeError(text), "/tables", "b:1")
    with pytest.raises(PenstockError, match=says) as caught:
        raise problem
    assert caught.value.exit_code == code


def test_our_own_errors_stay_as_they_are() -> None:
    own = NotReadyError("x")

    assert explain_failure(own, "/t", "b") is own
    assert "cannot be written" in str(explain_failure(OSError(13, "Permission denied"), "/t", "b"))
    assert "stopped answering" in str(explain_failure(TimeoutError(), "/t", "b"))
    assert "Spark became unavailable" in str(explain_failure(ConnectionRefusedError(111, "refused"), "/t", "b"))


@pytest.mark.parametrize(
    ("first", "second", "events"),
    [
        ({0: 10, 1: 0}, {0: 15, 1: 3}, 8),
        ({0: 10, 1: -1}, {0: -1, 1: -1}, 90),  # nothing at or after that time: at the end
        ({0: 50, 1: 5}, {0: 10, 1: 7}, 2),  # a topic made anew
        ({}, {}, 0),
    ],
)
def test_events_are_the_difference_of_offsets(first: dict[int, int], second: dict[int, int], events: int) -> None:
    assert difference(first, second, {0: 100, 1: 20}) == events


def test_rate_is_that_of_the_time_between_two_looks() -> None:
    assert Rate("arrived", "ns/a", "", 10.0, 20.0, 50).per_s == 5.0
    assert Rate("arrived", "ns/a", "", 10.0, 10.0, 50).per_s == 0.0


def rows(*windows: Window, **more: Any) -> pa.Table:
    """Rows of a batch."""
    columns = {"topic": "t", "newest": NOW, "folded": 0, "repeats": 0, **more}
    table = table_of(windows)
    for name, value in columns.items():
        table = table.append_column(ROWS.field(name), pa.array([value] * len(windows), ROWS.field(name).type))
    return table


def stored(start: int, events: int, **more: Any) -> Window:
    return Window(start, 60, "stored", "ns", "a", counts=Counts(events), **more)


def test_totals_are_of_lines() -> None:
    totals = Totals()
    totals.add(rows(stored(NOW, 1, late=1, type="x"), stored(NOW + 120, 2, source="y")))
    totals.add(rows(stored(NOW - 60, 5, latency={2: 1}), stored(NOW, 4, latency={2: 2})))
    totals.add(rows(Window(NOW, 60, "accepted", "ns", "a")))

    [window] = totals.windows.values()
    assert (window.counts.events, window.late, window.latency, window.size) == (12, 1, {2: 3}, 240)


def test_batch_is_summed_by_day_and_topic() -> None:
    """Deltas that were counted before have no window, and are repeats."""
    batch = pa.concat_tables(
        [
            rows(stored(DAY_S + 60, 2), stored(2 * DAY_S - 60, 3, late=3), stored(2 * DAY_S, 4), folded=1),
            rows(Window(60, 60, "settled", "ns", "a", "s"), repeats=5, topic="d"),
        ]
    )

    assert by_day(batch) == {DAY_S: 5, 2 * DAY_S: 4}
    assert not_empty(batch).num_rows == 3
    assert sorted(by_topic(batch), key=lambda row: str(row["topic"])) == [
        {"topic": "d", "kind": "settled", "events": 0, "late": 0, "folded": 0, "repeats": 5, "newest": NOW},
        {"topic": "t", "kind": "stored", "events": 9, "late": 3, "folded": 3, "repeats": 0, "newest": NOW},
    ]


def test_summary_is_rows_and_sentences() -> None:
    summary = Summary(seconds=2.0)
    settled = Window(NOW, 60, "settled", "ns", "a", "s", counts=Counts(9, 0, 9))
    summary.totals.add(rows(stored(NOW, 2), settled))

    lines = [(row["line"], row["events"], row["rate"], row["tier"]) for row in summary_rows(summary)]
    assert lines == [("ns/a > s", 9, 0.1, "deltas"), ("ns/a", 2, 0.0, "records")]
    counters = {"records.records": 1000, "deltas.records": 200, "records.late": 2, "records.folded": 0}
    assert batch_line(3, counters, 0.5) == "run 3: 1,200 records in 0.5 s (2 late)"
    assert oddities({"records.late": 0, "deltas.repeats": 0}) == []
    assert len(oddities({"records.late": 1, "deltas.repeats": 2, "deltas.unreadable": 3, "records.folded": 4})) == 4
