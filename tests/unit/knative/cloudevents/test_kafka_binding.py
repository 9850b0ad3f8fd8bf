"""Record to request and to dead letter: every rule as rows of tables; requests are read back by a real parser."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from knative import memo
from knative.cloudevents import kafka_binding
from knative.cloudevents.http_binding import REPLY_DEPTH, read_reply
from knative.cloudevents.kafka_binding import (
    Unreadable,
    dead_letter_headers,
    describe,
    original_headers,
    to_json_request,
    to_request,
)
from knative.errors import SHOWN_CHARS
from knative.filters.attributes import attributes_of
from knative.ports import Headers
from tests.unit.knative.cloudevents.wire import Parsed

PREFIX = b"POST /x HTTP/1.1\r\nhost: h"
REQUIRED: list[tuple[str, bytes | None]] = [
    ("ce_id", b"1"),
    ("ce_source", b"/s"),
    ("ce_type", b"t"),
    ("ce_specversion", b"1.0"),
]
STRUCTURED: list[tuple[str, bytes | None]] = [("content-type", b"application/cloudevents+json")]
ENVELOPE = b'{"id":"1","source":"/s","type":"t","specversion":"1.0","data":{"a": 1.10}}'


def sent(headers: Headers, value: bytes | None = b"") -> dict[bytes, bytes]:
    parsed = Parsed(to_request(PREFIX, headers, value))
    assert parsed.body == (value or b"")
    pairs = dict(parsed.pairs)
    assert len(pairs) == len(parsed.pairs)
    assert pairs.pop(b"host") == b"h"
    assert pairs.pop(b"content-length") == b"%d" % len(parsed.body)
    return pairs


def unreadable(headers: list[tuple[str, bytes | None]], value: bytes | None = b"") -> str:
    with pytest.raises(Unreadable) as caught:
        to_request(PREFIX, headers, value)
    with pytest.raises(Unreadable) as as_json:
        to_json_request(PREFIX, headers, value)
    assert caught.value.reason == str(caught.value) == as_json.value.reason
    assert "\n" not in caught.value.reason
    assert len(caught.value.reason) < 200
    return caught.value.reason


def without(name: str) -> list[tuple[str, bytes | None]]:
    return [header for header in REQUIRED if header[0] != name]


def test_whole_request() -> None:
    headers = [*REQUIRED, ("content-type", b"text/plain; charset=utf-8"), ("other", b"stays behind")]
    assert to_request(PREFIX, headers, b"hi") == (
        b"POST /x HTTP/1.1\r\nhost: h\r\nce-id: 1\r\nce-source: /s\r\nce-type: t\r\nce-specversion: 1.0"
        b"\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 2\r\n\r\nhi"
    )


@pytest.mark.parametrize("value", [None, b"", b"\x00\xff\r\n\r\nPOST / HTTP/1.1", b"[1, true]"])
@pytest.mark.parametrize("kind", [None, b"application/json"])
def test_values_and_types(value: bytes | None, kind: bytes | None) -> None:
    pairs = sent([*REQUIRED, *([] if kind is None else [("content-type", kind)])], value)
    assert pairs.get(b"content-type") == kind


@pytest.mark.parametrize(
    ("value", "wire"),
    [("a b", b"a%20b"), (" a ", b"%20a%20"), ('"%"', b"%22%25%22"), ("€", b"%E2%82%AC"), ("", b""), ("a+b~", b"a+b~")],
)
def test_values_are_encoded(value: str, wire: bytes) -> None:
    assert sent([*REQUIRED, ("ce_note", value.encode())])[b"ce-note"] == wire


def test_names_in_any_case() -> None:
    pairs = sent([*((name.upper(), value) for name, value in REQUIRED), ("Content-TYPE", b"a/b"), ("CE_x1", b"y")])
    assert pairs[b"ce-id"] == b"1"
    assert pairs[b"ce-x1"] == b"y"
    assert pairs[b"content-type"] == b"a/b"


@pytest.mark.parametrize("name", ["ce_id", "ce_source", "ce_type", "ce_specversion"])
def test_required_attributes(name: str) -> None:
    attribute = name[3:]
    assert unreadable(without(name)) == f"attribute '{attribute}' is missing"
    assert unreadable([*without(name), (name, b"")]) == f"attribute '{attribute}' is empty"
    assert "null" in unreadable([*without(name), (name, None)])
    assert "twice" in unreadable([*REQUIRED, (name, b"x")])
    assert "twice" in unreadable([*REQUIRED, (name.upper(), b"x")])


def test_no_cloudevent_at_all() -> None:
    assert "not a CloudEvent" in unreadable([])
    assert "not a CloudEvent" in unreadable([("content-type", b"application/json"), ("a", None)])


@pytest.mark.parametrize("version", [b"1", b"0.2", b"2.0", b"1.0 ", b"\xff"])
def test_unknown_versions(version: bytes) -> None:
    assert "specversion" in unreadable([*without("ce_specversion"), ("ce_specversion", version)])
    assert sent([*without("ce_specversion"), ("ce_specversion", b"0.3")])[b"ce-specversion"] == b"0.3"


@pytest.mark.parametrize(
    "name",
    [
        "ce_",
        "CE_",
        "ce_a-b",
        "ce_a b",
        "ce_a\r\nevil: 1\r\nx",
        "ce_é",
        "ce_\u212a",
        "ce_\x00",
        "ce_data",
        "ce_Data_base64",
        "ce_datacontenttype",
        "ce_" + "-" * 5000,
        "ce_a:",
    ],
)
def test_bad_attribute_names(name: str) -> None:
    for _ in range(2):
        unreadable([*REQUIRED, (name, b"v")])


@pytest.mark.parametrize(
    "value", [b"\xff", b"\xc0\xa0", b"a\r\nevil: 1", b"a\nb", b"a\x00", b"\x7f", b"\xc2\x85", b"\t"]
)
def test_values_that_are_no_text(value: bytes) -> None:
    assert unreadable([*REQUIRED, ("ce_note", value)]).startswith("attribute 'note'")
    assert "content-type" in unreadable([*REQUIRED, ("content-type", b"a/b" + value + b";")])


def test_null_and_doubled_headers() -> None:
    assert "'ce_note' has a null value" in unreadable([*REQUIRED, ("ce_note", None)])
    assert "'ce_note' appears twice" in unreadable([*REQUIRED, ("ce_note", b"1"), ("CE_Note", b"1")])
    assert "twice" in unreadable([*REQUIRED, ("content-type", b"a/b"), ("Content-Type", b"a/b")])


@pytest.mark.parametrize(
    "twice",
    [
        [("ce_x", b"1"), ("CE_X", b"2")],
        [("ce_knativeerrorcode", b"1"), ("ce_KnativeErrorCode", b"2")],
        [("Content-Type", b"application/cloudevents+json")],
        [("Content-Type", b"a/b")],
    ],
)
def test_header_twice_is_unreadable_in_a_structured_record_too(twice: list[tuple[str, bytes | None]]) -> None:
    headers: list[tuple[str, bytes | None]] = [("content-type", b"application/cloudevents+json"), *twice]
    assert "appears twice" in unreadable(headers, ENVELOPE)


@pytest.mark.parametrize("kind", [None, b"", b"  "])
def test_empty_content_type_is_none(kind: bytes | None) -> None:
    assert b"content-type" not in sent([*REQUIRED, ("content-type", kind)])


def test_plain_headers_that_pass_through() -> None:
    plain: list[tuple[str, bytes | None]] = [
        ("traceparent", b"00-1"),
        ("Knative-X", b" 100% \xc3\xa9 "),
        ("x-b3-a", b""),
    ]
    pairs = sent([*REQUIRED, *plain, ("ce_traceparent", b"ext"), ("penstock-reason", b"r"), ("kn-x", b"y")])
    assert pairs.items() >= {b"traceparent": b"00-1", b"ce-traceparent": b"ext", b"x-b3-a": b""}.items()
    assert pairs[b"knative-x"] == b"100% \xc3\xa9"
    assert b"penstock-reason" not in pairs
    assert b"kn-x" not in pairs


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("traceparent", b"a\r\nevil: 1"),
        ("traceparent", b"\xff"),
        ("x-request-id", None),
        ("tracestate", b"a\x00"),
        ("knative-a\r\nevil: 1\r\nknative-b", b"v"),
        ("knative-a b", b"v"),
        ("knative-", b"v"),
        ("knative-é", b"v"),
        ("\u212anative-a", b"v"),
        ("knative-a:", b"v"),
        ("host", b"evil"),
        ("content-length", b"9"),
        ("", b"v"),
    ],
)
def test_plain_headers_that_could_do_harm_stay_behind(name: str, value: bytes | None) -> None:
    for _ in range(2):
        assert len(sent([*REQUIRED, (name, value)])) == len(REQUIRED)


@pytest.mark.parametrize("kind", [b"application/cloudevents+json", b" Application/CloudEvents+JSON; charset=utf-8"])
def test_structured_records_become_binary(kind: bytes) -> None:
    headers: list[tuple[str, bytes | None]] = [
        ("ce_id", b"other"),
        ("ce_source", None),
        ("ce_bad-", b""),
        ("traceparent", b"0"),
    ]
    parsed = Parsed(to_request(PREFIX, [*headers, ("Content-Type", kind)], ENVELOPE))
    pairs = dict(parsed.pairs)
    assert (pairs[b"ce-id"], pairs[b"content-type"], pairs[b"traceparent"]) == (b"1", b"application/json", b"0")
    assert parsed.body == b'{"a": 1.10}'
    unreadable([*REQUIRED, ("ce_bad-", b"")])


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (b"application/cloudevents+json", None),
        (b"application/cloudevents+json", b"{"),
        (b"application/cloudevents", b"{}"),
        (b"application/cloudevents+avro", ENVELOPE),
        (b"application/cloudevents-batch+json", b"[]"),
        (b"application/cloudevents+json; charset=latin-1", ENVELOPE),
        (b"application/cloudevents+json", b"{}"),
        (
            b"application/cloudevents+json",
            ENVELOPE.replace(b'"data"', b'"datacontenttype":"application/cloudevents","data"'),
        ),
    ],
)
def test_structured_records_that_cannot_be_read(kind: bytes, value: bytes | None) -> None:
    unreadable([*REQUIRED, ("content-type", kind)], value)


@pytest.mark.parametrize("headers", [REQUIRED, STRUCTURED])
def test_header_without_a_name(headers: list[tuple[str, bytes | None]]) -> None:
    nameless: Any = (None, b"x")
    assert unreadable([*headers, nameless], ENVELOPE) == "a header has no name"


ODD = [*REQUIRED, ("ce_id", None), ("x", b"\xff")]


def test_dead_letter_has_the_headers_of_its_event_and_says_what_failed() -> None:
    plain = [("penstock-reason", "é"), ("penstock-attempts", "3")]
    headers = dead_letter_headers(ODD, destination="http://h/é", code=503, data=b"\x00" * 5000, plain=plain)
    assert headers[: len(ODD)] == original_headers(headers) == ODD
    added = dict(headers[len(ODD) :])
    assert added.pop("ce_knativeerrordata") == base64.b64encode(b"\x00" * 768)
    assert added == {
        "ce_knativeerrordest": "http://h/é".encode(),
        "ce_knativeerrorcode": b"503",
        "penstock-reason": "é".encode(),
        "penstock-attempts": b"3",
    }


def test_dead_letter_of_a_dead_letter_says_only_what_failed_last() -> None:
    first = dead_letter_headers(ODD, destination="c", code=503, data=b"x", plain=[("penstock-reason", "r")])
    renamed = [*first, ("CE_KnativeErrorDest", b"x"), ("Penstock-Old", b"x")]
    again = dead_letter_headers(renamed, destination="d", code=0, data=b"", plain=[])
    assert again == [*ODD, ("ce_knativeerrordest", b"d"), ("ce_knativeerrorcode", b"0")]


def test_dead_letter_keeps_how_many_replies_led_to_the_event() -> None:
    """Otherwise a redrive would begin a loop of replies again."""
    reply = [*REQUIRED, (REPLY_DEPTH, b"64")]
    dead = dead_letter_headers(reply, destination="d", code=508, data=b"", plain=[("penstock-reason", "loop")])
    assert original_headers(dead) == reply
    assert REPLY_DEPTH.encode() not in to_request(PREFIX, dead, b"{}")


@pytest.mark.parametrize("headers", [REQUIRED, STRUCTURED, [*STRUCTURED, ("ce_knativeerrorcode", b"400")]])
def test_dead_letters_can_be_sent(headers: list[tuple[str, bytes | None]]) -> None:
    dead = dead_letter_headers(
        headers, destination="http://h/a b", code=500, data=b"no", plain=[("penstock-reason", "r")]
    )
    pairs = dict(Parsed(to_request(PREFIX, dead, ENVELOPE)).pairs)
    assert pairs[b"ce-knativeerrordest"] == b"http://h/a%20b"
    assert pairs[b"ce-knativeerrorcode"] == b"500"
    assert pairs[b"ce-knativeerrordata"] == base64.b64encode(b"no")


@pytest.mark.parametrize("size", [0, 1, 767, 768, 769, 100_000])
def test_error_data_is_whole_base64_of_bounded_length(size: int) -> None:
    data = dict(dead_letter_headers([], destination="d", code=1, data=b"x" * size, plain=[])).get("ce_knativeerrordata")
    assert (data is None) == (size == 0)
    assert len(data or b"") <= 1024
    assert base64.b64decode(data or b"", validate=True) == b"x" * min(size, 768)


def test_describe_takes_anything() -> None:
    assert describe(REQUIRED) == {"id": "1", "source": "/s", "type": "t"}
    assert describe([]) == {"id": "", "source": "", "type": ""}
    spoilt = [("CE_ID", b"\xff" * 5000), ("ce_source", None), (None, b"x"), ("ce_type", b"t"), ("ce_type", b"u")]
    described = describe(spoilt)  # type: ignore[arg-type]
    assert described == {"id": "\ufffd" * SHOWN_CHARS, "source": "", "type": "t"}


def test_table_stays_bounded_and_still_works() -> None:
    for number in range(3 * memo.ENTRIES_MAX):
        kinds: list[tuple[str, bytes | None]] = [("content-type", b"a/%d" % number), (f"x{number}", b"")]
        to_request(PREFIX, [*REQUIRED, (f"ce_a{number}", b""), *kinds], None)
    wide: list[tuple[str, bytes | None]] = [(f"ce_b{number}", b"v") for number in range(3000)]
    assert to_request(PREFIX, [*REQUIRED, *wide], None).count(b"\r\nce-b") == 3000
    to_request(PREFIX, [*REQUIRED, ("ce_" + "a" * 5000, b""), ("z" * 5000, b"")], None)
    assert len(kafka_binding._lines) <= memo.ENTRIES_MAX
    assert max(map(len, kafka_binding._lines)) <= memo.ENTRY_BYTES_MAX
    assert sent(REQUIRED)[b"ce-id"] == b"1"


def test_bytes_without_a_content_type_have_none_anywhere() -> None:
    envelope = b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data_base64":"aGVsbG8K"}'
    reply = read_reply([(b"content-type", b"application/cloudevents+json")], envelope)
    assert reply is not None
    headers, _, value = reply
    assert (value, b"content-type" in sent(headers, value)) == (b"hello\n", False)
    assert json.loads(Parsed(to_json_request(PREFIX, headers, value)).body) == json.loads(envelope)
    stored = [*STRUCTURED, ("ce_knativeerrorcode", b"500")]  # another producer's, and as a dead letter
    assert b"content-type" not in dict(Parsed(to_request(PREFIX, stored, envelope)).pairs)
    assert "data_base64" in json.loads(Parsed(to_json_request(PREFIX, stored, envelope)).body)
    for record in ((headers, value), (stored, envelope)):
        attributes = attributes_of(*record)
        assert attributes is not None
        assert "datacontenttype" not in attributes
