"""The report of the demo: a good one, and what is wrong with others."""

from __future__ import annotations

from app.cli.demos.report import Attempt, DemoCounts, percentile_ms
from tables.kafka.topic_reader import StoredRecord


def _record(**changes: object) -> StoredRecord:
    fields: dict[str, object] = {
        "topic": "t", "partition": 1, "offset": 7, "timestamp_ms": 1_700_000_000_123, "key": b"k",
        "headers": (("ce_id", b"1"), ("ce_type", b"a"), ("ce_source", b"/s"), ("content-type", b"text/plain")),
        "value": b"hello",
    }  # fmt: skip
    return StoredRecord(**{**fields, **changes})  # type: ignore[arg-type]


def _attempt(event_id: str, sequence: int, status: int = 200, name: str = "good") -> Attempt:
    return Attempt(name, status, event_id, "k", sequence, 0, 2_000_000)


def _tally() -> DemoCounts:
    return DemoCounts({"a": 202, "b": 202, "c": 503}, {"ns/good": "good", "ns/picky": "picky"})


def test_report_counts_deliveries_retries_and_dead_letters() -> None:
    counts = _tally()
    for attempt in (_attempt("a", 0), _attempt("b", 1), _attempt("a", 0, name="picky")):
        counts.attempt(attempt)
    counts.attempt(_attempt("b", 1, 500, "picky"))
    counts.attempt(_attempt("b", 1, 500, "picky"))
    assert counts.missing == {("picky", "b")}
    letter = _record(headers=(("ce_id", b"b"), ("penstock-subscription", b"ns/picky")))
    counts.dead_letter(letter)
    counts.dead_letter(letter)
    assert counts.report() == {
        "sent": 3, "accepted": 2, "delivered": 3, "retried": 1, "dead_lettered": 1, "lost": 0, "duplicates": 0,
        "out_of_order": 0, "p50_ms": 2.0, "p99_ms": 2.0, "picky_p99_ms": 2.0,
    }  # fmt: skip


def test_demo_finds_what_is_wrong() -> None:
    counts = _tally()
    for attempt in (_attempt("b", 1), _attempt("a", 0), _attempt("a", 0)):
        counts.attempt(attempt)
    counts.attempt(_attempt("b", 1, 500, "picky"))
    letter = _record(headers=(("ce_id", b"b"), ("penstock-subscription", b"ns/picky")), timestamp_ms=1)
    counts.dead_letter(letter)
    counts.attempt(_attempt("b", 1, 500, "picky"))  # at 2 ms: tried again although it had become a dead letter
    report = counts.report()
    assert (report["lost"], report["duplicates"], report["out_of_order"], report["retried"]) == (1, 2, 1, 0)


def test_percentile_is_in_milliseconds_and_none_without_values() -> None:
    values = [number * 1_000_000 for number in range(1, 101)]
    assert (percentile_ms(values, 0.5), percentile_ms(values, 0.99)) == (50.0, 99.0)
    assert percentile_ms([5_000_000], 0.99) == 5.0
    assert percentile_ms([], 0.5) is None
