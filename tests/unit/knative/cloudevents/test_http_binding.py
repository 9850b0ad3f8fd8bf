"""HTTP to record: every rule of the binding as rows of tables."""

from __future__ import annotations

import pytest

from knative import memo
from knative.cloudevents import http_binding
from knative.cloudevents.http_binding import BadEvent, encode_value, read_reply, to_record
from tests.unit.knative.cloudevents.wire import record_of_lines

REQUIRED = [(b"ce-id", b"1"), (b"ce-source", b"/s"), (b"ce-type", b"t"), (b"ce-specversion", b"1.0")]
STRUCTURED = [(b"Content-Type", b"application/cloudevents+json; charset=UTF-8")]
ENVELOPE = b'{"id":"1","source":"/s","type":"t","specversion":"1.0","data":{"a": 1.10}}'


def record(*pairs: tuple[bytes, bytes], body: bytes | None = b"") -> dict[str, bytes]:
    headers, _, _ = to_record([*REQUIRED, *pairs], body)
    assert len(dict(headers)) == len(headers)
    return dict(headers)


def without(name: bytes) -> list[tuple[bytes, bytes]]:
    return [pair for pair in REQUIRED if pair[0] != name]


def refused(pairs: list[tuple[bytes, bytes]], body: bytes | None = b"") -> BadEvent:
    with pytest.raises(BadEvent) as caught:
        to_record(pairs, body)
    assert "\n" not in str(caught.value)
    return caught.value


def test_binary_mode_keeps_attributes_and_drops_other_headers() -> None:
    pairs = [(b"Host", b"h"), (b"Content-Type", b"text/plain; charset=utf-8"), *REQUIRED, (b"Accept", b"*/*")]
    headers, key, value = to_record(pairs, b"\x00[1, true]\xff")
    assert headers == [
        ("ce_id", b"1"),
        ("ce_source", b"/s"),
        ("ce_type", b"t"),
        ("ce_specversion", b"1.0"),
        ("content-type", b"text/plain; charset=utf-8"),
    ]
    assert (key, value) == (None, b"\x00[1, true]\xff")


@pytest.mark.parametrize("body", [None, b"", b"{not json", b"\xff\x00", b"[1, true]"])
def test_binary_mode_never_touches_the_body(body: bytes | None) -> None:
    assert to_record([*REQUIRED, (b"content-type", b"application/json")], body)[2] is body


def test_no_content_type_is_not_made_up() -> None:
    assert "content-type" not in record(body=b"x")


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (b"CE-Foo", "ce_foo"),
        (b"ce-0", "ce_0"),
        (b"cE-" + b"A" * 64, "ce_" + "a" * 64),
        (b"ce-" + b"a" * 400, "ce_" + "a" * 400),
        (b"ce-traceparent", "ce_traceparent"),
        (b"ce-schemaurl", "ce_schemaurl"),
    ],
)
def test_attribute_is_stored_under_its_name_in_lower_case(raw: bytes, name: str) -> None:
    assert record((raw, b"v"))[name] == b"v"


@pytest.mark.parametrize("name", [b"ce-", b"ce-a-b", b"ce-a_b", b"ce-a.b", b"ce-\xe4", b"CE-Data", b"ce-data_base64"])
def test_bad_attribute_name_is_rejected(name: bytes) -> None:
    refused([*REQUIRED, (name, b"v")])


def test_invalid_names_have_a_reason() -> None:
    assert "content-type" in refused([*REQUIRED, (b"ce-dataContentType", b"text/plain")]).reason
    assert "body" in refused([*REQUIRED, (b"ce-data", b"x")]).reason
    assert "no name after the prefix" in refused([*REQUIRED, (b"ce-", b"x")]).reason
    assert len(str(refused([*REQUIRED, (b"ce-" + b"-" * 5000, b"x")]))) < 200


@pytest.mark.parametrize("name", [b"id", b"source", b"type", b"specversion"])
def test_attribute_that_is_required_is_neither_missing_nor_empty(name: bytes) -> None:
    header = b"ce-" + name
    missing = refused(without(header))
    assert (missing.attribute, missing.reason) == (name.decode(), "is missing")
    assert str(missing) == f"attribute '{name.decode()}' is missing"
    for blank in (b"", b"  ", b'""'):
        empty = refused([*without(header), (header, blank)])
        assert (empty.attribute, empty.reason) == (name.decode(), "is empty")


@pytest.mark.parametrize("body", [None, b"", b"hello"])
def test_no_cloudevent_at_all(body: bytes | None) -> None:
    assert "they belong in headers" in str(refused([(b"content-type", b"text/plain"), (b"host", b"h")], body))
    refused([], body)


@pytest.mark.parametrize("version", [b"1.0", b"0.3", b'"1.0"', b"1%2E0", b"1.0 ", b"0.3\t"])
def test_version_that_is_supported_is_kept(version: bytes) -> None:
    headers = dict(to_record([*without(b"ce-specversion"), (b"ce-specversion", version)], None)[0])
    assert headers["ce_specversion"] in (b"1.0", b"0.3")


@pytest.mark.parametrize("version", [b"1", b"0.2", b"1.0.0", b"2.0", b"v1.0", b"1.00"])
def test_unsupported_versions_are_rejected(version: bytes) -> None:
    assert refused([*without(b"ce-specversion"), (b"ce-specversion", version)]).attribute == "specversion"


@pytest.mark.parametrize("name", [b"subject", b"time", b"dataschema", b"partitionkey"])
def test_optional_attributes_are_not_empty(name: bytes) -> None:
    error = refused([*REQUIRED, (b"ce-" + name, b"")])
    assert error.attribute == name.decode()
    assert "empty" in error.reason


def test_empty_extension_is_kept() -> None:
    assert record((b"ce-note", b""))["ce_note"] == b""


def test_empty_content_type_is_rejected() -> None:
    assert refused([*REQUIRED, (b"content-type", b"")]).attribute == "datacontenttype"


@pytest.mark.parametrize(
    ("wire", "value"),
    [
        (b"plain", "plain"),
        (b"a b", "a b"),
        (b"a%20b", "a b"),
        (b"  a  ", "a"),
        (b"%20a%20", " a "),
        (b"Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € 😀"),
        (b"%e2%82%ac", "€"),
        (b"\xe2\x82\xac", "€"),
        (b"%41", "A"),
        (b"100%", "100%"),
        (b"%zz %4", "%zz %4"),
        (b"%2525", "%25"),
        (b'"quoted"', "quoted"),
        (b'"a \\"b\\" \\\\c"', 'a "b" \\c'),
        (b'"a%20b"', "a b"),
        (b'"', '"'),
        (b'""', ""),
        (b'a"b', 'a"b'),
        (b'"a', '"a'),
        (b"%22a%22", '"a"'),
        (b"a\\b", "a\\b"),
        (b"a+b", "a+b"),
        (b"1.10", "1.10"),
    ],
)
def test_values_are_undone_once(wire: bytes, value: str) -> None:
    assert record((b"ce-note", wire))["ce_note"] == value.encode()


@pytest.mark.parametrize(
    "wire",
    [
        b"%C0%A0",
        b"%FF",
        b"\xff",
        b"\xc3",
        b"%ED%A0%80",
        b"a%00b",
        b"%0A",
        b"%0d%0aevil:%201",
        b"%7F",
        b"%C2%85",
        b"a\nb",
        b"a\r\nb",
        b"a\x00b",
        b"a\tb",
        b"\xc2\x9f",
        b'"a\\\nb"',
        b"\n",
        b"a\n",
        b"%EF%BF%BE",
        b"%ef%b7%90",
        b"\xef\xbf\xbf",
    ],
)
def test_values_that_are_no_text(wire: bytes) -> None:
    assert refused([*REQUIRED, (b"ce-note", wire)]).attribute == "note"
    assert refused([(b"ce-id", wire), *without(b"ce-id")]).attribute == "id"


def test_repeated_attribute_is_rejected() -> None:
    for name in (b"id", b"subject", b"note"):
        pairs = [*without(b"ce-" + name), (b"ce-" + name, b"a"), (b"CE-" + name.upper(), b"a")]
        error = refused(pairs)
        assert (error.attribute, error.reason) == (name.decode(), "appears twice")
    assert refused([*REQUIRED, (b"content-type", b"a/b"), (b"Content-Type", b"a/b")]).attribute == "datacontenttype"


def test_time_source_and_dataschema_are_judged() -> None:
    assert record((b"ce-time", b"2026-11-21t10:00:00.123456789z"))["ce_time"] == b"2026-11-21t10:00:00.123456789z"
    assert refused([*REQUIRED, (b"ce-time", b"2026-02-30T10:00:00Z")]).attribute == "time"
    assert record((b"ce-dataschema", b"/a%2520b"))["ce_dataschema"] == b"/a%20b"
    assert refused([*REQUIRED, (b"ce-dataschema", b"/a%zzb")]).attribute == "dataschema"
    assert refused([*without(b"ce-source"), (b"ce-source", b"<a>")]).attribute == "source"


def test_version_0_3_keeps_its_own_attributes() -> None:
    old = [*without(b"ce-specversion"), (b"ce-specversion", b"0.3"), (b"ce-datacontentencoding", b"base64")]
    headers, _, value = to_record([*old, (b"ce-schemaurl", b"http://x/y")], b"aGk=")
    assert dict(headers)["ce_schemaurl"] == b"http://x/y"
    assert dict(headers)["ce_datacontentencoding"] == b"base64"
    assert value == b"aGk="
    for schema in (b"a b", b""):
        assert refused([*old, (b"ce-schemaurl", schema)]).attribute == "schemaurl"
    assert record((b"ce-schemaurl", b"an extension of 1.0"))["ce_schemaurl"] == b"an extension of 1.0"


@pytest.mark.parametrize(
    ("extra", "key"),
    [
        ([], None),
        ([(b"ce-subject", b"s%20t")], b"s t"),
        ([(b"ce-subject", b"s"), (b"ce-partitionkey", b"p%C3%A9")], "pé".encode()),
        ([(b"ce-partitionkey", b"p")], b"p"),
    ],
)
def test_key_is_partitionkey_then_subject(extra: list[tuple[bytes, bytes]], key: bytes | None) -> None:
    headers, got, _ = to_record([*REQUIRED, *extra], None)
    assert got == key
    assert ("ce_partitionkey" in dict(headers)) == any(name == b"ce-partitionkey" for name, _ in extra)


def test_plain_headers_that_pass_through() -> None:
    plain = [
        (b"TraceParent", b"00-1-2-01"),
        (b"x-request-id", b"r"),
        (b"Knative-Foo", b"100%25"),
        (b"X-B3-TraceId", b"7"),
    ]
    headers = record(
        *plain, (b"Authorization", b"secret"), (b"x-other", b"o"), (b"ce-traceparent", b"ext"), (b"b3", b"0")
    )
    assert headers.pop("ce_traceparent") == b"ext"
    assert {name: value for name, value in headers.items() if not name.startswith("ce_")} == {
        "traceparent": b"00-1-2-01",
        "x-request-id": b"r",
        "knative-foo": b"100%25",
        "x-b3-traceid": b"7",
    }


def test_plain_header_in_parts_is_one_list() -> None:
    assert record((b"tracestate", b"a=1"), (b"Tracestate", b"b=2, c=3"))["tracestate"] == b"a=1, b=2, c=3"


@pytest.mark.parametrize("name", [b"tracestate", b"x-request-id", b"Knative-Foo"])
def test_tab_in_a_plain_header_is_white_space(name: bytes) -> None:
    for pairs, body in (([*REQUIRED, (b"x", b"y")], b""), (STRUCTURED, ENVELOPE)):
        for read in (to_record, record_of_lines):
            headers, _, _ = read([*pairs, (name, b"a=1,\tb=2\t")], body)
            assert dict(headers)[name.decode().lower()] == b"a=1, b=2"
    assert refused([*REQUIRED, (b"ce-note", b"a\tb")]).attribute == "note", "an attribute has no control characters"


@pytest.mark.parametrize("value", [b"a\r\nb", b"\xff", b"a\x00"])
def test_plain_headers_must_be_text(value: bytes) -> None:
    assert refused([*REQUIRED, (b"traceparent", value)]).attribute == "traceparent"
    assert refused([*STRUCTURED, (b"traceparent", value)], ENVELOPE).attribute == "traceparent"


@pytest.mark.parametrize("value", [b"a\nb", b"text/plain;\tx=y", b"\xff"])
def test_content_type_must_be_text(value: bytes) -> None:
    assert refused([*REQUIRED, (b"content-type", value)]).attribute == "datacontenttype"


@pytest.mark.parametrize(
    "media_type",
    [
        b"application/cloudevents+json",
        b"Application/CloudEvents+JSON",
        b"application/cloudevents+json ; charset=utf-8",
        b'application/cloudevents+json;charset="UTF-8"',
        b"application/cloudevents+json; x=y",
        b" application/cloudevents+json",
    ],
)
def test_structured_event_is_stored_as_a_binary_one(media_type: bytes) -> None:
    headers, key, value = to_record([(b"content-type", media_type)], ENVELOPE)
    assert dict(headers) == {
        "ce_id": b"1",
        "ce_source": b"/s",
        "ce_type": b"t",
        "ce_specversion": b"1.0",
        "content-type": b"application/json",
    }
    assert (key, value) == (None, b'{"a": 1.10}')


@pytest.mark.parametrize(
    "media_type",
    [
        b"application/cloudevents",
        b"application/cloudevents+avro",
        b"application/cloudevents+jsonx",
        b"application/cloudevents-batch+json",
        b"APPLICATION/cloudevents-batch",
        b"application/cloudeventsfoo",
        b"application/cloudevents+json; charset=latin-1",
        b"application/cloudevents+json;CHARSET = 'utf-16'",
    ],
)
def test_other_formats_and_batches(media_type: bytes) -> None:
    error = refused([*REQUIRED, (b"content-type", media_type)], ENVELOPE)
    assert ("batch" in str(error)) == (b"batch" in media_type)


def test_envelope_wins_over_headers() -> None:
    spoilt = [
        (b"ce-id", b"other"),
        (b"ce-id", b"twice"),
        (b"ce-data-", b"x"),
        (b"ce-datacontenttype", b"a"),
        (b"ce-n", b"\xff"),
    ]
    headers, _, _ = to_record([*spoilt, *STRUCTURED, (b"traceparent", b"00")], ENVELOPE)
    assert dict(headers)["ce_id"] == b"1"
    assert dict(headers)["traceparent"] == b"00"
    assert "ce_n" not in dict(headers)
    assert refused([*REQUIRED, (b"ce-data-", b"x")]).attribute == "data-", "a bad name seen there stays bad elsewhere"


def test_structured_events_are_judged_like_binary_ones() -> None:
    assert refused(STRUCTURED, b'{"id":"1","source":"/s","type":"t"}').attribute == "specversion"
    assert refused(STRUCTURED, ENVELOPE.replace(b'"/s"', b'"a b"')).attribute == "source"
    assert refused(STRUCTURED, ENVELOPE.replace(b'"data":', b'"time":"x","data":')).attribute == "time"
    assert refused(STRUCTURED, ENVELOPE.replace(b'"data":', b'"subject":"","data":')).attribute == "subject"
    assert refused(STRUCTURED, None).attribute == ""
    assert to_record(STRUCTURED, ENVELOPE.replace(b'"data":', b'"partitionkey":7,"data":'))[1] == b"7"


@pytest.mark.parametrize(
    ("pairs", "body", "expected"),
    [
        ([], b"", False),
        ([(b"Content-Type", b"text/html")], b"<p>", False),
        ([(b"ce-id", b"1"), (b"ce-source", b"/s")], b"", False),
        ([*REQUIRED, (b"Content-Type", b"application/json")], b"{}", True),
        (STRUCTURED, ENVELOPE, True),
    ],
)
def test_answer_that_claims_an_event_is_a_reply(pairs: list[tuple[bytes, bytes]], body: bytes, expected: bool) -> None:
    reply = read_reply(pairs, body)
    assert (reply is not None) == expected
    assert reply is None or dict(reply[0])["ce_id"] == b"1"


def test_empty_reply_has_data_only_when_it_says_of_which_type() -> None:
    untyped, typed = read_reply(REQUIRED, b""), read_reply([*REQUIRED, (b"content-type", b"text/plain")], b"")
    assert untyped is not None
    assert typed is not None
    assert (untyped[2], typed[2]) == (None, b"")


@pytest.mark.parametrize(
    ("pairs", "body"),
    [
        ([(b"CE-SpecVersion", b"1.0")], b""),
        ([(b"Content-Type", b"Application/CloudEvents+json")], b""),
        (STRUCTURED, b"{"),
        ([(b"content-type", b"application/cloudevents-batch+json")], b"[]"),
        ([(b"content-type", b"application/cloudevents+avro")], b"x"),
        ([*REQUIRED, (b"ce-id", b"2")], b""),
    ],
)
def test_replies_that_claim_and_fail(pairs: list[tuple[bytes, bytes]], body: bytes) -> None:
    with pytest.raises(BadEvent):
        read_reply(pairs, body)


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        (b"plain!~", b"plain!~"),
        (b"a b", b"a%20b"),
        (b'"%"', b"%22%25%22"),
        ("€😀".encode(), b"%E2%82%AC%F0%9F%98%80"),
        (b"\x7f\r\n", b"%7F%0D%0A"),
        (b"", b""),
    ],
)
def test_value_is_percent_encoded(value: bytes, wire: bytes) -> None:
    assert encode_value(value) == wire


def test_tables_stay_bounded_and_still_work() -> None:
    for number in range(3 * memo.ENTRIES_MAX):
        own = [(b"ce-source", b"/%d" % number), (b"x-%d" % number, b""), (b"content-type", b"a/%d" % number)]
        to_record([*without(b"ce-source"), *own], None)
    to_record([*REQUIRED, (b"x-" + b"a" * 5000, b"")], None)
    assert max(len(http_binding._names), len(http_binding._content_types)) <= memo.ENTRIES_MAX
    assert max(map(len, http_binding._names)) <= memo.ENTRY_BYTES_MAX
    assert record((b"ce-note", b"x"))["ce_note"] == b"x"
