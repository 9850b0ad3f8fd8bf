"""Events and dead letters as lines and as JSON; nothing in them drives the terminal."""

from __future__ import annotations

from app.cli.output.records import as_lines
from app.operations.stored_records import as_json
from tables.kafka.topic_reader import StoredRecord


def _record(**changes: object) -> StoredRecord:
    fields: dict[str, object] = {
        "topic": "t", "partition": 1, "offset": 7, "timestamp_ms": 1_700_000_000_123, "key": b"k",
        "headers": (("ce_id", b"1"), ("ce_type", b"a"), ("ce_source", b"/s"), ("content-type", b"text/plain")),
        "value": b"hello",
    }  # fmt: skip
    return StoredRecord(**{**fields, **changes})  # type: ignore[arg-type]


def test_event_is_one_line() -> None:
    assert as_lines(_record()) == ["2023-11-14T22:13:20.123+00:00 1/7 key=k 1 a /s hello"]


def test_dead_letter_says_why() -> None:
    headers = (("ce_id", b"1"), ("ce_knativeerrorcode", b"500"), ("penstock-attempts", b"3"), ("x-request-id", b"9"))
    lines = as_lines(_record(headers=headers, value=None, key=None))
    assert lines[0].endswith(" 1/7 1 - - (no data)")
    assert lines[1:] == ["    knativeerrorcode: 500", "    penstock-attempts: 3"]


def test_dead_letter_shows_no_secret_of_its_destination() -> None:
    headers = (("ce_id", b"1"), ("ce_knativeerrordest", b"http://anna:secret@billing/in?token=secret"))
    assert as_lines(_record(headers=headers))[1:] == ["    knativeerrordest: http://billing/in"]


def test_nothing_in_an_event_drives_the_terminal() -> None:
    lines = as_lines(_record(value=b"a\x1b[2J", headers=(("ce_id", b"\x1b]0;x\x07"),)))
    assert all(line.isprintable() for line in lines)


def test_json_has_the_bytes() -> None:
    document = as_json(_record(value=b"\xff"))
    assert document["attributes"] == {"id": "1", "type": "a", "source": "/s", "datacontenttype": "text/plain"}
    assert (document["key"], document["data_base64"]) == ("k", "/w==")
    assert as_json(_record(value=None))["data"] is None
