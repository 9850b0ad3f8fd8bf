"""Structured mode: the data is cut out unchanged, the attributes become text, everything else is refused."""

from __future__ import annotations

import base64
import json
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from knative.cloudevents import json_format
from knative.cloudevents.attributes import BadEvent
from knative.cloudevents.json_format import is_json, read, write
from tests.support.profiles import examples


def envelope(**members: str) -> bytes:
    """An envelope whose member values are given as raw JSON."""
    return ("{" + ", ".join(f'"{name}": {value}' for name, value in members.items()) + "}").encode()


def refused(body: bytes | None) -> BadEvent:
    with pytest.raises(BadEvent) as caught:
        read(body)
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    "data",
    [
        "12345678901234567890",
        "1.10",
        "-0",
        "1E+400",
        "[1,  true,\n\tnull ]",
        '{"a" : {"b":[ ]}, "a":1}',
        '"text \\u00e9 é"',
        "null",
        "true",
        '""',
        '"\\ud800"',
        "{}",
        "9" * 10_000,
    ],
)
@pytest.mark.parametrize("kind", [None, "application/json", "text/JSON; charset=utf-8", "application/x+json"])
def test_json_data_is_cut_out_unchanged(data: str, kind: str | None) -> None:
    members = {"id": '"1"', "data": data} | ({} if kind is None else {"datacontenttype": json.dumps(kind)})
    event, value = read(envelope(**members))
    assert value == data.encode()
    assert event["content-type"] == (kind or "application/json").encode()


TOKENS = [
    "{",
    "}",
    ",",
    ":",
    " ",
    "\n",
    "1",
    "null",
    '"id"',
    '"data"',
    '"data_base64"',
    '"a"',
    '"\\u0061"',
    '"\\n"',
    '"\t"',
]
MEMBERS = [
    '"id":"1"',
    '"a" : "é" ',
    '"a":"","b":"B"',
    '"data":"YQ"',
    '"data_base64":"YQ=="',
    '"A":"1"',
    '"x":"\\ud800"',
]


def outcome(body: bytes) -> object:
    try:
        return read(body)
    except BadEvent as error:
        return str(error)


@examples(1000)
@given(
    st.lists(st.sampled_from(TOKENS + MEMBERS), max_size=8).map("".join),
    st.lists(st.sampled_from([*MEMBERS, '"c":true', '"\\u0061":"c"', '"b":"\\t"', '"b":"\x7f"']), max_size=5).map(
        ",".join
    ),
)
@example("", '"a":"b",')
@example("", '"a":"b" "c":"d"')
@example('"a":"b', "")
def test_member_that_is_plain_text_is_read_as_any_other(start: str, members: str) -> None:
    body = f"{{{start}{members}}}".encode()
    with patch.object(json_format, "_text_member", lambda *_: None):
        by_token = outcome(body)
    assert outcome(body) == by_token


def test_white_space_around_everything() -> None:
    event, value = read(b' \r\n\t{ \n"data"\t:\r [ 1 ] , "id" : "1"\n}\n ')
    assert (event["ce_id"], value) == (b"1", b"[ 1 ]")


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ('"hi"', b"hi"),
        ('""', b""),
        ('"a\\n\\u00e9\\"é"', 'a\né"é'.encode()),
        ('"\\ud83d\\ude00"', "😀".encode()),
        ("42", b"42"),
        ("null", b"null"),
        ('{"a": 1}', b'{"a": 1}'),
    ],
)
@pytest.mark.parametrize("kind", ["text/plain", "application/xml; x=y/json", "application/jsonx", "json"])
def test_string_of_another_type_is_its_text(data: str, value: bytes, kind: str) -> None:
    event, got = read(envelope(data=data, datacontenttype=json.dumps(kind)))
    assert got == value
    assert event["content-type"] == kind.encode()


@pytest.mark.parametrize(("text", "value"), [("", b""), ("aGk=", b"hi"), ("AP8=", b"\x00\xff")])
def test_data_base64_is_decoded(text: str, value: bytes) -> None:
    assert read(envelope(data_base64=json.dumps(text), datacontenttype='"image/png"'))[1] == value
    assert read(envelope(id='"1"', data_base64=json.dumps(text))) == ({"ce_id": b"1"}, value)


@pytest.mark.parametrize("data", [b"hello\n", b'{"a": 1}', b"null", b"", b"\xff"])
@pytest.mark.parametrize("version", [b"1.0", b"0.3"])
def test_data_without_a_type_has_none_after_a_round_trip(data: bytes, version: bytes) -> None:
    event = {"ce_id": b"1", "ce_source": b"/s", "ce_type": b"t", "ce_specversion": version}
    body = write(event, data)
    assert ("data_base64" in json.loads(body)) == (version == b"1.0")
    back, value = read(body)
    assert (back.pop("ce_datacontentencoding", None) is None) == (version == b"1.0")
    assert (back, value if version == b"1.0" else base64.b64decode(value or b"")) == (event, data)


@pytest.mark.parametrize(
    "raw", ['"a"', '"aGk"', '"aG k="', '"aGk=\\n"', '"aGk=="', '"aGk=aGk="', '"-_=="', '"é==="', "1"]
)
def test_bad_base64_is_rejected(raw: str) -> None:
    assert refused(envelope(data_base64=raw)).attribute == "data_base64"
    assert refused(envelope(data_base64='{"a":1}')).attribute == "data_base64"


def test_no_data_is_none_and_names_no_type() -> None:
    assert read(envelope(id='"1"')) == ({"ce_id": b"1"}, None)
    assert read(envelope(id='"1"', data_base64="null")) == ({"ce_id": b"1"}, None)
    assert read(b"{}") == ({}, None)
    assert read(envelope(data="null", data_base64="null"))[1] == b"null"


def test_data_twice_in_different_guise() -> None:
    assert refused(envelope(data="1", data_base64='"aGk="')).attribute == "data"
    assert refused(envelope(data="null", data_base64='""')).attribute == "data"


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ('"a b"', "a b"),
        ('"\\u20ac"', "€"),
        ("true", "true"),
        ("false", "false"),
        ("0", "0"),
        ("-17", "-17"),
        ("-0", "0"),
        ('""', ""),
        ("2147483648", "2147483648"),
        ("9" * 5000, "9" * 5000),
        ('"100%20"', "100%20"),
        ('"\\"q\\""', '"q"'),
    ],
)
def test_extensions_become_text(raw: str, text: str) -> None:
    assert read(envelope(note=raw))[0] == {"ce_note": text.encode()}


def test_null_is_unset() -> None:
    assert read(envelope(note="null", subject="null", datacontenttype="null")) == ({}, None)


@pytest.mark.parametrize(
    "raw",
    [
        "1.0",
        "1e3",
        "[]",
        "{}",
        '{"a":1}',
        '["a"]',
        '"\\u0000"',
        '"\\u0085"',
        '"\\ud800"',
        '"\x7f"',
        '"\\ufffe"',
        '"\ufdd0"',
        '"\\udbff\\udfff"',
    ],
)
def test_values_that_are_no_attribute(raw: str) -> None:
    assert refused(envelope(note=raw)).attribute == "note"


@pytest.mark.parametrize(
    "name", ["id", "source", "type", "specversion", "subject", "time", "dataschema", "datacontenttype"]
)
@pytest.mark.parametrize("raw", ["1", "1.0", "true", "{}", "[]"])
def test_core_attribute_that_is_not_a_string_is_rejected(name: str, raw: str) -> None:
    error = refused(envelope(**{name: raw}))
    assert (error.attribute, error.reason) == (name, "must be a string")


@pytest.mark.parametrize("name", ["", "A", "ID", "a-b", "a_b", "a b", "é", "data_Base64", "a\\n"])
def test_bad_attribute_name_is_rejected(name: str) -> None:
    assert "is not a valid name" in str(refused(envelope(**{name: '"x"'})))


@pytest.mark.parametrize(
    "kind", ['""', '"  "', '"application/cloudevents+json"', '" Application/CloudEvents-batch"', '"a\\n"']
)
def test_bad_datacontenttype_is_rejected(kind: str) -> None:
    assert refused(envelope(data="1", datacontenttype=kind)).attribute == "datacontenttype"


def test_member_that_appears_twice_is_rejected() -> None:
    assert "'id' appears twice" in str(refused(b'{"id":"1","id":"1"}'))
    assert "'id' appears twice" in str(refused(b'{"id":"1","\\u0069d":null}'))
    assert "'data' appears twice" in str(refused(b'{"data":1,"data":1}'))


@pytest.mark.parametrize(
    "body",
    [
        None,
        b"",
        b" ",
        b"[]",
        b'"x"',
        b"1",
        b"null",
        b"{",
        b'{"a"',
        b'{"a":',
        b'{"a":1',
        b'{"a":1,',
        b'{"a":1,}',
        b"{,}",
        b'{"a" 1}',
        b"{a:1}",
        b"{'a':1}",
        b'{"a":1}x',
        b'{"a":1}{}',
        b'{"a":01}',
        b'{"a":+1}',
        b'{"a":.5}',
        b'{"a":1.}',
        b'{"a":NaN}',
        b'{"data":Infinity}',
        b'{"data":[-Infinity]}',
        b'{"a":"\n"}',
        b'{"a":"\\x"}',
        b'{"a":tru}',
        b'{"a":"x}',
        b"\xef\xbb\xbf{}",
        b'{"a":"\xff"}',
        b'{"a":"\xed\xa0\x80"}',
        '{"a":1}'.encode("utf-16"),
        b"{}\x00",
        b"\x0b{}",
        b'{"a":1 /* c */}',
        b'{"data":[1,]}',
        b'{"data":{"a":1,}}',
    ],
)
def test_malformed_json_is_rejected(body: bytes | None) -> None:
    assert "malformed structured JSON" in str(refused(body))


@pytest.mark.parametrize("name", ["data", "note"])
@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_json_that_is_nested_too_deeply_is_rejected(name: str, opening: str) -> None:
    assert "too deeply" in str(refused(f'{{"{name}":{opening * 100_000}'.encode()))


def test_envelopes_are_bounded() -> None:
    many = {f"a{number}": "1" for number in range(json_format.MEMBERS_MAX)}
    assert len(read(envelope(**many))[0]) == json_format.MEMBERS_MAX
    assert "members" in str(refused(envelope(**many, more="1")))
    assert "larger" in str(refused(envelope(note=json.dumps("x" * json_format.ATTRIBUTES_BYTES_MAX))))
    assert read(envelope(data=json.dumps("x" * 1_000_000)))[1] == json.dumps("x" * 1_000_000).encode()


@pytest.mark.parametrize(
    ("kind", "expected"), [('"application/json"', b"aGk="), ('"image/png"', b"aGk="), (None, b"aGk=")]
)
def test_version_0_3_with_encoded_data(kind: str | None, expected: bytes) -> None:
    members = {"specversion": '"0.3"', "datacontentencoding": '"Base64"', "data": '"aGk="'}
    event, value = read(envelope(**members, **({} if kind is None else {"datacontenttype": kind})))
    assert value == expected
    assert event["ce_datacontentencoding"] == b"Base64"
    assert event.get("content-type") == (None if kind is None else json.loads(kind).encode())


@pytest.mark.parametrize(
    ("media_type", "expected"),
    [
        ("application/json", True),
        ("TEXT/JSON", True),
        ("a/b+json", True),
        ("a/b+JSON ; x=y", True),
        ("a/json;x", True),
        ("text/plain", False),
        ("a/jsonp", False),
        ("json", False),
        ("text/plain; a=b/json", False),
        ("", False),
    ],
)
def test_media_type_is_json_or_not(media_type: str, expected: bool) -> None:
    assert is_json(media_type) is expected


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_so_many_levels_are_read_wherever_it_is_called_from(opening: str, closing: str) -> None:
    nested = opening * json_format.NESTING_READ + "1" + closing * json_format.NESTING_READ
    body = f'{{"id":"1","source":"/s","type":"t","specversion":"1.0","data":{nested}}}'.encode()

    def called_from(frames: int) -> bytes | None:
        return called_from(frames - 1) if frames else json_format.read(body)[1]

    assert called_from(200) == nested.encode()
