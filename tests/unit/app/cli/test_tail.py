"""`penstock tail --filter`: attributes as text, CESQL expressions, and a caret under the error."""

from __future__ import annotations

import pytest

from app.cli.tail import EventFilter, read_filters
from knative.errors import UsageError
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
def test_a_plain_value_is_compared_as_text(wish: str) -> None:
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
def test_an_event_passes_all_of_them(wishes: tuple[str, ...], passes: bool) -> None:
    assert read_filters(wishes).passes(_RECORD) is passes


def test_a_record_that_is_not_an_event_passes_no_expression() -> None:
    broken = StoredRecord("t", 0, 1, 0, None, (("ce_id", None),), b"")
    assert not read_filters(["NOT EXISTS region"]).passes(broken)


@pytest.mark.parametrize(
    ("wishes", "says"),
    [
        (["type"], "--filter 'type' is incomplete. Write ATTRIBUTE=VALUE, such as type=order.placed, or a CESQL expr"),
        (["=x"], "--filter '=x' is incomplete."),
        (["id=1", "id=2"], "--filter asks for two values of id; an event has only one."),
        (["type == 'x'"], "  type == 'x'\n        ^"),
        (["a = 1 AND\n  (b = 2"], "    (b = 2\n          ^"),
        (["a-1 > 2"], "write a space behind the sign, as in `1 - 1`. Correct it where the caret is:\n  a-1 > 2\n   ^"),
    ],
)
def test_an_error_shows_the_place(wishes: list[str], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_filters(wishes)
    assert says in str(caught.value)
