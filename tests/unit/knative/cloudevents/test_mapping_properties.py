"""Properties of the mapping, end to end: request -> record -> request -> a real HTTP parser, with hostile input."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from cloudevents.core.base import BaseCloudEvent
from cloudevents.core.bindings.http import HTTPMessage, from_http
from cloudevents.core.formats.json import JSONFormat
from hypothesis import assume, example, given
from hypothesis import strategies as st

from knative.cloudevents.attributes import is_uri_reference
from knative.cloudevents.http_binding import BadEvent, encode_value, is_pass_through, read_reply, to_record
from knative.cloudevents.json_format import read
from knative.cloudevents.kafka_binding import Unreadable, dead_letter_headers, describe, to_request
from tests.support.profiles import examples
from tests.unit.knative.cloudevents.wire import Parsed

PREFIX = b"POST /x HTTP/1.1\r\nhost: h"
PLAIN = ("traceparent", "tracestate", "x-request-id", "knative-a", "x-b3-b")

bounded = examples(150)

# Ingress rejects Unicode's 66 noncharacters in an attribute.
noncharacters = [
    *map(chr, range(0xFDD0, 0xFDF0)),
    *(chr(plane << 16 | low) for plane in range(17) for low in (0xFFFE, 0xFFFF)),
]
text = st.text(st.characters(exclude_categories=("Cc", "Cs"), exclude_characters=noncharacters), max_size=30)
filled = text.filter(bool)
core = ("id", "source", "type", "specversion", "time", "dataschema", "datacontenttype", "subject", "partitionkey")
names = st.from_regex(r"[a-z0-9]{1,24}", fullmatch=True).filter(
    lambda name: name not in core and name not in ("data", "schemaurl", "datacontentencoding")
)
#: Attributes by name, values as they are after decoding.
attributes = st.builds(
    lambda extensions, fixed: {**extensions, **fixed},
    st.dictionaries(names, text, max_size=4),
    st.fixed_dictionaries(
        {
            "id": filled,
            "source": st.sampled_from(["/s", "urn:x:y", "https://h/a?b=c#d", "/100%25", "/a%20b"]),
            "type": filled,
            "specversion": st.sampled_from(["1.0", "0.3"]),
        },
        optional={"subject": filled, "partitionkey": filled, "time": st.just("2026-11-21T10:00:00.123456789Z")},
    ),
)

bodies = st.one_of(st.none(), st.binary(max_size=60))
wire_names = st.one_of(
    st.sampled_from(
        [b"ce-id", b"CE-Source", b"ce-type", b"ce-specversion", b"content-type", b"ce-time", b"ce-subject"]
    ),
    st.sampled_from([b"ce-", b"traceparent", b"knative-x", b"ce-data", b"ce-dataschema", b"host", b"\xff"]),
    st.binary(max_size=12).map(lambda tail: b"ce-" + tail),
    st.binary(max_size=12),
)
wire_values = st.one_of(
    st.binary(max_size=20),
    st.sampled_from([b"1.0", b"0.3", b"/s", b"", b'"a"', b"%", b"a\r\nb: c", b"application/cloudevents+json"]),
    st.sampled_from(
        [b"application/cloudevents-batch", b"2026-11-21T10:00:00Z", b"2026-02-30T10:00:00Z", b"text/plain"]
    ),
)
record_names = st.one_of(
    st.sampled_from(["ce_note", "CE_id", "ce_", "content-type", "Content-Type", "host", "content-length", *PLAIN]),
    st.text(max_size=12),
    st.text(max_size=12).map(lambda tail: "ce_" + tail),
    st.text(max_size=12).map(lambda tail: "knative-" + tail),
)
record_values = st.one_of(
    st.none(), wire_values, st.sampled_from([b"\r\n\r\nPOST /evil HTTP/1.1\r\n\r\n", b"a\nevil: 1"])
)


def percent(value: str) -> bytes:
    return quote(value, safe="!#$&'()*+,/:;<=>?@[\\]^`{|}~").encode()


def raw(value: str) -> bytes:
    return value.replace("%", "%25").replace('"', "%22").encode()


def quoted(value: str) -> bytes:
    return b'"' + value.replace("%", "%25").replace("\\", "\\\\").replace('"', '\\"').encode() + b'"'


@bounded
@given(attributes, st.sampled_from([percent, quoted]), bodies, st.booleans())
def test_what_goes_in_comes_out(
    event: dict[str, str], encode: Callable[[str], bytes], body: bytes | None, upper: bool
) -> None:
    pairs = [
        ((f"CE-{name.upper()}" if upper else f"ce-{name}").encode(), encode(value)) for name, value in event.items()
    ]
    headers, key, value = to_record([*pairs, (b"Content-Type", b"a/b; c=d"), (b"Accept", b"*/*")], body)
    expected = {f"ce_{name}": text.encode() for name, text in event.items()} | {"content-type": b"a/b; c=d"}
    assert dict(headers) == expected
    assert value is body
    assert key == (expected.get("ce_partitionkey") or expected.get("ce_subject"))

    parsed = Parsed(to_request(PREFIX, headers, value))
    out = dict(parsed.pairs)
    assert len(out) == len(parsed.pairs)
    assert (out.pop(b"host"), int(out.pop(b"content-length"))) == (b"h", len(body or b""))
    assert parsed.body == (body or b"")
    assert all(0x21 <= code <= 0x7E for name, wire in out.items() if name != b"content-type" for code in wire)
    again, key_again, _ = to_record(parsed.pairs, parsed.body)
    assert dict(again) == expected
    assert key_again == key


@bounded
@given(st.from_regex(r"[a-z/:?#]{0,3}(?:%[0-9A-Fa-f]{2}|%25|[a-z/?]){1,8}", fullmatch=True))
@example("/100%25")
def test_uri_leaves_as_it_came(uri: str) -> None:
    fields = [(b"ce-id", b"1"), (b"ce-source", uri.encode()), (b"ce-type", b"t"), (b"ce-specversion", b"1.0")]
    assume(is_uri_reference(uri.encode()))
    headers, _, value = to_record(fields, None)
    assert dict(Parsed(to_request(PREFIX, headers, value)).pairs)[b"ce-source"] == uri.encode()


@bounded
@given(text)
@example("%41")
@example('"a"')
@example("\\")
def test_every_text_survives_its_encodings(value: str) -> None:
    required = [(b"ce-id", b"1"), (b"ce-source", b"/s"), (b"ce-type", b"t"), (b"ce-specversion", b"1.0")]
    wires = [percent(value), quoted(value), encode_value(value.encode())]
    if value == value.strip(" \t"):
        wires.append(raw(value))
    for wire in wires:
        assert dict(to_record([*required, (b"ce-note", wire)], None)[0])["ce_note"] == value.encode()


@examples(400)
@given(st.lists(st.tuples(wire_names, wire_values), max_size=8), st.booleans(), bodies)
def test_any_request_is_an_event_or_a_bad_event(
    pairs: list[tuple[bytes, bytes]], complete: bool, body: bytes | None
) -> None:
    if complete:
        pairs = [(b"ce-id", b"1"), (b"ce-source", b"/s"), (b"ce-type", b"t"), (b"ce-specversion", b"1.0"), *pairs]
    try:
        headers, _, value = to_record(pairs, body)
        read_reply(pairs, body or b"")
    except BadEvent as error:
        check_message(str(error))
        return
    stored = dict(headers)
    assert value is (body if body or "content-type" in stored else None)
    assert len(stored) == len(headers)
    # What ingress accepts can be delivered, and says the same again.
    assert dict(to_record(Parsed(to_request(PREFIX, headers, value)).pairs, value)[0]) == stored


@examples(500)
@given(st.lists(st.tuples(record_names, record_values), max_size=6), st.booleans(), bodies)
def test_nothing_in_a_record_can_forge_a_header(
    headers: list[tuple[str, bytes | None]], complete: bool, value: bytes | None
) -> None:
    if complete:
        headers = [("ce_id", b"1"), ("ce_source", b"/s"), ("ce_type", b"t"), ("ce_specversion", b"1.0"), *headers]
    describe(headers)
    dead_letter_headers(headers, destination="d", code=500, data=value or b"", plain=[("penstock-reason", "r")])
    try:
        request = to_request(PREFIX, headers, value)
    except Unreadable as error:
        check_message(error.reason)
        return
    parsed = Parsed(request)
    expected = [(b"host", b"h"), (b"content-length", b"%d" % len(value or b""))]
    for name, content in headers:
        low = name.lower()
        if low.startswith("ce_"):
            expected.append((b"ce-" + low[3:].encode(), encode_value(content or b"")))
        elif low == "content-type" and content and content.strip(b" \t"):
            expected.append((b"content-type", content.strip(b" \t")))
        elif name.isascii() and is_pass_through(low) and content is not None and is_clean(content):
            expected.append((low.encode(), content.strip(b" \t")))
    assert sorted(parsed.pairs) == sorted([(name, wire.rstrip(b" \t")) for name, wire in expected])
    assert parsed.body == (value or b"")


def check_message(message: str) -> None:
    """What goes into an answer, a log or a dead letter is one line of bounded length."""
    assert message.isprintable()
    assert len(message) < 300


def is_clean(content: bytes) -> bool:
    try:
        decoded = content.strip(b" \t").decode()
    except UnicodeDecodeError:
        return False
    return not any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in decoded)


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@bounded
@given(attributes, json_values, st.sampled_from([None, "  ", "\n"]), st.booleans(), st.booleans())
def test_structured_and_binary_mode_store_the_same(
    event: dict[str, str], data: Any, space: str | None, ascii_only: bool, data_first: bool
) -> None:
    text = json.dumps(data, indent=space, ensure_ascii=ascii_only)
    if not ascii_only and any(0xD800 <= ord(char) < 0xE000 for char in text):
        return
    members = [
        *(f"{json.dumps(name)}:{json.dumps(value)}" for name, value in event.items()),
        '"datacontenttype":"a/json"',
    ]
    members.insert(0 if data_first else len(members), f'"data":{text}')
    envelope = ("{" + ",".join(members) + "}").encode()
    structured = to_record([(b"content-type", b"application/cloudevents+json")], envelope)
    pairs = [(f"ce-{name}".encode(), encode_value(value.encode())) for name, value in event.items()]
    binary = to_record([*pairs, (b"content-type", b"a/json")], text.encode())
    assert dict(structured[0]) == dict(binary[0])
    assert structured[1:] == binary[1:]


@examples(300)
@given(
    st.one_of(
        st.binary(max_size=60),
        st.text(st.sampled_from('{}[]",:\\ \n0123.eE-+truefalsn"idata_base64'), max_size=60).map(str.encode),
        json_values.map(lambda value: json.dumps(value).encode()),
        st.dictionaries(st.sampled_from(["id", "data", "data_base64", "a", "B"]), json_values).map(
            lambda members: json.dumps(members).encode()
        ),
    )
)
def test_any_body_is_an_envelope_or_a_bad_event(body: bytes) -> None:
    try:
        event, value = read(body)
    except BadEvent as error:
        check_message(str(error))
        return
    members = json.loads(body)
    assert isinstance(members, dict)
    assert (value is not None) == ("data" in members or members.get("data_base64") is not None)
    assert all(isinstance(text, bytes) for text in event.values())


sdk_attributes = st.fixed_dictionaries(
    {"id": filled, "source": st.just("/s"), "type": filled, "specversion": st.just("1.0")},
    optional={"subject": filled, "note": filled, "partitionkey": filled},
)


def attributes_of(event: BaseCloudEvent) -> dict[str, Any]:
    """What the SDK read, without the `time` it makes up for an event that has none."""
    return {name: value for name, value in event.get_attributes().items() if value is not None and name != "time"}


@examples(60)
@given(sdk_attributes, st.text(min_size=1, max_size=20))
def test_cloudevents_sdk_reads_what_we_send(event: dict[str, str], data: str) -> None:
    """An oracle for attributes and text data; the SDK parses JSON and times, so these are not compared."""
    pairs = [(f"ce-{name}".encode(), percent(value)) for name, value in event.items()]
    body = data.encode("utf-8", "replace")
    headers, _, value = to_record([*pairs, (b"content-type", b"text/plain")], body)
    parsed = Parsed(to_request(PREFIX, headers, value))
    message = HTTPMessage({name.decode(): wire.decode() for name, wire in parsed.pairs}, parsed.body)
    theirs = from_http(message, JSONFormat())
    assert attributes_of(theirs) == {**event, "datacontenttype": "text/plain"}
    assert theirs.get_data() in (body, body.decode())


@examples(60)
@given(sdk_attributes, json_values)
def test_cloudevents_sdk_agrees_on_envelopes(event: dict[str, str], data: Any) -> None:
    envelope = json.dumps({**event, "datacontenttype": "application/json", "data": data}).encode()
    pairs = [(b"content-type", b"application/cloudevents+json")]
    headers, _, value = to_record(pairs, envelope)
    theirs = from_http(HTTPMessage({"content-type": pairs[0][1].decode()}, envelope), JSONFormat())
    ours = {name.removeprefix("ce_"): text.decode() for name, text in headers}
    ours["datacontenttype"] = ours.pop("content-type")
    assert attributes_of(theirs) == ours
    assert json.loads(value or b"") == theirs.get_data()
