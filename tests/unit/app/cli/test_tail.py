"""`penstock tail --filter`: attributes as text, CESQL expressions, and a caret under the error."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from app.cli import tail
from app.cli.tail import read_again
from app.operations.event_filter import EventFilter, read_filters
from knative.errors import NotReadyError, PenstockError, UsageError
from tables.kafka.topic_reader import StoredRecord

_RECORD = StoredRecord(
    topic="t",
    partition=0,
    offset=1,
    timestamp_ms=0,
    key=None,
    value=b"",
    headers=tuple(
        (f"ce_{name}", text)
        for name, text in (("id", b"1"), ("source", b"/s"), ("type", b"order.x"), ("specversion", b"1.0"), ("a", b"7"))
    ),
)


@pytest.mark.parametrize(
    "wish",
    ["type=a=b", "source=/shop?x=1", "subject=John Smith", "time=2026-11-21T12:00:00Z", "data-x=1", "id=-1", "id="],
)
def test_plain_value_is_compared_as_text(wish: str) -> None:
    name, _, value = wish.partition("=")
    assert read_filters([wish]) == EventFilter({name: value})


@pytest.mark.parametrize(
    ("wishes", "passes"),
    [
        ((), True),
        (("type=order.x",), True),
        (("type=order",), False),
        (("type LIKE 'order.%'",), True),
        (("type='order.x'",), True),
        (("a=7 AND id=1",), True),
        (("a = 7", "type=order.x"), True),
        (("a = 7", "type=order.y"), False),
        (("a > 7",), False),
        (("a >= 7",), True),
        (("region = 'eu'",), False),
        (("EXISTS region OR int(a) = 7",), True),
    ],
)
def test_event_passes_all_of_them(wishes: tuple[str, ...], passes: bool) -> None:
    assert read_filters(wishes).passes(_RECORD) is passes


def test_record_that_is_not_an_event_passes_no_expression() -> None:
    broken = StoredRecord("t", 0, 1, 0, None, (("ce_id", None),), b"")
    assert not read_filters(["NOT EXISTS region"]).passes(broken)


@pytest.mark.parametrize(
    ("wishes", "says"),
    [
        (["type"], "--filter 'type' is incomplete. Write ATTRIBUTE=VALUE, such as type=order.placed, or a CESQL expr"),
        (["=x"], "--filter '=x' is incomplete."),
        (["id=1", "id=2"], "--filter asks for two values of id, and an event has only one value."),
        (["type == 'x'"], "  type == 'x'\n        ^"),
        (["a = 1 AND\n  (b = 2"], "    (b = 2\n          ^"),
        (["a-1 > 2"], "write a space after the sign, as in `1 - 1`. Correct it where the caret is:\n  a-1 > 2\n   ^"),
    ],
)
def test_error_shows_the_place(wishes: list[str], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_filters(wishes)
    assert says in str(caught.value)


def _records(*places: tuple[int, int, int]) -> list[StoredRecord]:
    return [replace(_RECORD, partition=number, offset=offset, timestamp_ms=ms) for number, offset, ms in places]


def test_tail_reads_again_and_prints_each_event_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A channel that is not there yet, Kafka that goes away, and another topic of the same name."""
    monkeypatch.setattr(tail, "LOOK_S", 0.0)
    missing = PenstockError("There is no channel ns/c; known: none.", "Write one.")
    away = NotReadyError("Kafka stopped answering.", "Try again.")
    tries: list[list[StoredRecord | PenstockError]] = [
        [missing],
        [missing],
        [*_records((0, 7, 100), (1, 3, 110), (0, 8, 120)), away],
        [*_records((0, 8, 120), (0, 9, 121)), away],
        [*_records((0, 0, 200), (0, 1, 201))],
    ]
    asked: list[tuple[int | None, int | None]] = []

    def read(last: int | None, since_ms: int | None) -> Iterator[StoredRecord]:
        asked.append((last, since_ms))
        for item in tries[len(asked) - 1]:
            if isinstance(item, PenstockError):
                raise item
            yield item

    places = [(stored_record.partition, stored_record.offset) for stored_record in read_again(read, 10, None)]

    assert places == [(0, 7), (1, 3), (0, 8), (0, 9), (0, 0), (0, 1)]
    assert asked == [(10, None), (10, None), (10, None), (None, 120), (None, 121)]
    assert capsys.readouterr().err.splitlines() == [
        "There is no channel ns/c; known: none. Waiting ... (Ctrl-C stops)",
        "Kafka stopped answering. Waiting ... (Ctrl-C stops)",
        "Kafka stopped answering. Waiting ... (Ctrl-C stops)",
    ]


def test_tail_reads_again_until_its_limit(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`--retry --timeout 10`, and a channel that does not come."""
    clock = iter(range(100))
    monkeypatch.setattr(tail, "LOOK_S", 0.0)
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    missing, tries = NotReadyError("There is no channel ns/c; known: none.", "Write one."), 0

    def read(_last: int | None, _since_ms: int | None) -> Iterator[StoredRecord]:
        nonlocal tries
        tries += 1
        assert tries <= 11, "the limit is over"
        yield from ()
        raise missing

    with pytest.raises(NotReadyError) as caught:
        list(read_again(read, 10, None, 10.0))
    assert (caught.value, tries) == (missing, 11)
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_tail_does_not_wait_for_a_wrong_question() -> None:
    def read(_last: int | None, _since_ms: int | None) -> Iterator[StoredRecord]:
        yield from ()
        raise UsageError("a channel and a broker have this name")

    with pytest.raises(UsageError):
        list(read_again(read, 10, None))
