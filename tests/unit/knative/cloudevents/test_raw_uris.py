"""URI attributes come with header encoding or without, and leave in the same form."""

from __future__ import annotations

import json

import pytest

from knative.cloudevents.http_binding import encode_value, read_reply, to_record
from knative.cloudevents.kafka_binding import (
    Unreadable,
    dead_letter_headers,
    original_headers,
    to_json_request,
    to_request,
)
from knative.ports import Headers
from tests.unit.knative.cloudevents.wire import Parsed, record_of_lines

RAW_URIS = "penstock-raw-uris"
PREFIX = b"POST /x HTTP/1.1\r\nhost: h"
REQUIRED = [(b"ce-id", b"1"), (b"ce-source", b"/s"), (b"ce-type", b"t"), (b"ce-specversion", b"1.0")]
_RECORD: Headers = [("ce_id", b"1"), ("ce_type", b"t"), ("ce_specversion", b"1.0")]


def record(*pairs: tuple[bytes, bytes]) -> dict[str, bytes]:
    return dict(to_record([*REQUIRED, *pairs], b"")[0])


def without(name: bytes) -> list[tuple[bytes, bytes]]:
    return [pair for pair in REQUIRED if pair[0] != name]


def _sent(headers: Headers, value: bytes | None = None) -> dict[bytes, bytes]:
    return dict(Parsed(to_request(PREFIX, headers, value)).pairs)


@pytest.mark.parametrize(
    ("wire", "uri", "is_raw"),
    [
        (b"https://files.example/a%20b", b"https://files.example/a%20b", True),
        (b"https://files.example/a%2Fb%2fc", b"https://files.example/a%2Fb%2fc", True),
        (b"urn:x:%C3%A4", b"urn:x:%C3%A4", True),
        (b"/a%C0%A0%0D%0A", b"/a%C0%A0%0D%0A", True),  # escapes of a URI are bytes, not text
        (b"/100%25", b"/100%25", True),  # by the letter this would be /100%, which is not a URI-reference
        (b"/100%25/a%20b", b"/100%25/a%20b", True),
        (b'"/a%20b"', b"/a%20b", True),
        (b" /a%20b\t", b"/a%20b", True),
        (b"/a%2520b", b"/a%20b", False),
        (b"/100%2525", b"/100%25", False),
        (b"/a", b"/a", False),
    ],
)
def test_uri_is_the_same_with_and_without_header_encoding(wire: bytes, uri: bytes, is_raw: bool) -> None:
    for name in ("source", "dataschema"):
        pairs = [*without(f"ce-{name}".encode()), (f"CE-{name}".encode(), wire)]
        for read in (to_record, record_of_lines):
            headers = dict(read(pairs, b"{}")[0])
            assert headers[f"ce_{name}"] == uri
            assert headers.get(RAW_URIS) == (name.encode() if is_raw else None)


def test_each_uri_attribute_has_a_form_of_its_own() -> None:
    source = (b"ce-source", b"/a%20b")
    headers = dict(to_record([*without(b"ce-source"), source, (b"ce-dataschema", b"/a%2520b")], None)[0])
    assert (headers["ce_dataschema"], headers[RAW_URIS]) == (b"/a%20b", b"source")
    headers = dict(to_record([*without(b"ce-source"), source, (b"ce-dataschema", b"/%C3%A4")], None)[0])
    assert (headers["ce_dataschema"], headers[RAW_URIS]) == (b"/%C3%A4", b"source,dataschema")


def test_schema_of_version_0_3_is_a_uri_too() -> None:
    schema = (b"ce-schemaurl", b"/a%20b")
    old = [*without(b"ce-specversion"), (b"ce-specversion", b"0.3"), schema]
    headers = dict(to_record(old, None)[0])
    assert (headers["ce_schemaurl"], headers[RAW_URIS]) == (b"/a%20b", b"schemaurl")
    assert record(schema)["ce_schemaurl"] == b"/a b"  # an extension of 1.0


def test_senders_cannot_say_in_which_form_a_uri_came() -> None:
    assert RAW_URIS not in record((RAW_URIS.encode(), b"source"))


def test_reply_may_have_an_escaped_source() -> None:
    reply = read_reply([*without(b"ce-source"), (b"ce-source", b"https://files.example/a%20b")], b"")
    assert reply is not None
    assert dict(reply[0])["ce_source"] == b"https://files.example/a%20b"


@pytest.mark.parametrize("wire", [b"https://x/a%20b", b"urn:x:%C3%A4", b"/100%25", b"/a%2520b", b"/a%2Fb"])
def test_uri_leaves_in_the_form_in_which_it_came(wire: bytes) -> None:
    pairs = [(b"ce-id", b"%25"), (b"ce-source", wire), (b"ce-type", b"t"), (b"ce-specversion", b"1.0")]
    headers, _, value = to_record([*pairs, (b"ce-dataschema", wire)], b"{}")
    out = _sent(headers, value)
    assert (out[b"ce-source"], out[b"ce-dataschema"], out[b"ce-id"]) == (wire, wire, b"%25")
    assert RAW_URIS.encode() not in out
    dead = dead_letter_headers(headers, destination="http://h/", code=500, data=b"", plain=())
    assert _sent(dead, value)[b"ce-source"] == wire
    assert original_headers(dead) == headers


def test_json_format_has_the_uri_itself() -> None:
    pairs = [(b"ce-id", b"1"), (b"ce-source", b"/a%20b"), (b"ce-type", b"t"), (b"ce-specversion", b"1.0")]
    request = Parsed(to_json_request(PREFIX, *to_record(pairs, None)[::2]))
    assert json.loads(request.body) == {"id": "1", "source": "/a%20b", "type": "t", "specversion": "1.0"}


def test_record_of_another_producer_is_encoded_by_the_letter() -> None:
    assert _sent([*_RECORD, ("ce_source", b"/a%20b")])[b"ce-source"] == b"/a%2520b"


@pytest.mark.parametrize("value", [b'/"%20"', "/ä%20".encode(), b"/a%20 b"])
def test_what_is_not_a_uri_is_encoded_whatever_the_record_says(value: bytes) -> None:
    pairs = _sent([*_RECORD, ("ce_source", value), (RAW_URIS, b"source")])
    assert pairs[b"ce-source"] == encode_value(value)


def test_raw_uri_cannot_break_out_of_its_line() -> None:
    with pytest.raises(Unreadable):
        _sent([*_RECORD, ("ce_source", b"/a%20\r\nevil: 1"), (RAW_URIS, b"source")])


def test_attribute_that_is_no_uri_in_this_version_is_not_named_as_raw() -> None:
    """The version is written so that it is known only after decoding."""
    old = [(b"ce-id", b"1"), (b"ce-source", b"/s"), (b"ce-type", b"t"), (b"ce-specversion", b"%30.3")]
    assert dict(to_record([*old, (b"ce-dataschema", b"a b")], None)[0]) == {
        "ce_id": b"1",
        "ce_source": b"/s",
        "ce_type": b"t",
        "ce_specversion": b"0.3",
        "ce_dataschema": b"a b",
    }
