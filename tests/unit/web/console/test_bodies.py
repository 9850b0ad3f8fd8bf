"""Data of events for people: nothing in it is lost unseen, misleads, or takes long."""

from __future__ import annotations

import json
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.console_acts import stored_event
from web.console.bodies import body_of, curl, hexdump, indented

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(_JSON, st.sampled_from([(",", ":"), (" , ", " : ")]))
def test_indented_json_means_the_same(value: object, separators: tuple[str, str]) -> None:
    text = json.dumps([value], separators=separators)
    pretty = indented(text)
    assert pretty is not None
    assert json.loads(pretty) == [value]


def test_numbers_and_names_stay_as_they_are_written() -> None:
    text = '{"a":1.10,"a":12345678901234567890123,"b":[],"c":{},"d":["x,{",1e400]}'
    rows = ["{", '  "a": 1.10,', '  "a": 12345678901234567890123,', '  "b": [],', '  "c": {},', '  "d": [']
    assert indented(text) == "\n".join([*rows, '    "x,{",', "    1e400", "  ]", "}"])


@pytest.mark.parametrize("text", ["", "7", '"a"', "{", "nothing", "[" * 100_000])
def test_what_is_not_json_is_text(text: str) -> None:
    assert indented(text) is None


def test_deep_json_is_no_page_of_spaces() -> None:
    deep = "[" * 900 + "1," * 9_000 + "1" + "]" * 900
    pretty = indented(deep)
    assert pretty is not None
    assert len(pretty) < 100 * len(deep)


@pytest.mark.parametrize(
    ("data", "form", "text"),
    [
        (None, "no data", ""),
        (b"", "no data", ""),
        (b'{"a":1}', "JSON", '{\n  "a": 1\n}'),
        (b"a\r\nb", "text", "a\nb"),
        ("\u202egpj.exe".encode(), "text", "\\u202egpj.exe"),
        (b"\x1b[2J", "text", "\\x1b[2J"),
        (b"\xff\x00A", "bytes", "000000  ff 00 41" + 41 * " " + "..A"),
    ],
)
def test_data_has_a_form_and_a_text(data: bytes | None, form: str, text: str) -> None:
    body = body_of(data)
    assert (body.form, body.text, body.size, body.is_whole) == (form, text, len(data or b""), True)


@pytest.mark.parametrize(
    "data", [b"a" * 70_000, "é".encode() * 40_000 + b"x", b"\xff" * 5_000, b"a" * 66_000 + b"\xff"]
)
def test_only_the_beginning_of_large_data_is_shown(data: bytes) -> None:
    body = body_of(data)
    assert (body.size, body.is_whole) == (len(data), False)
    assert len(body.text) < 300_000


def test_dump_has_sixteen_bytes_in_a_row() -> None:
    rows = hexdump(bytes(range(40))).splitlines()
    assert [row[:9] for row in rows] == ["000000  0", "000010  1", "000020  2"]


@given(st.binary(max_size=200) | st.text().map(lambda text: text.encode("utf-8", "replace")), st.text(max_size=20))
def test_command_sends_the_same_and_runs_nothing(data: bytes, value: str) -> None:
    command = curl(stored_event(1, data, subject=value, datacontenttype="text/plain"), "http://localhost/it's")
    assert command is not None
    assert command.isprintable()
    words = shlex.split(command)
    start = words.index("curl")
    before_data = words if start else words[:-1]
    assert {word for word in before_data if word in ("|", ";", "&", "&&", "$", "`")} <= {"|"}
    assert words[start + 2] == "http://localhost/it's"
    assert "content-type: text/plain" in words
    if start:  # the data in base64, which has no character that a shell reads
        assert words[2:4] == ["|", "base64"]
    else:
        assert words[-1].encode() == data


def test_command_for_large_data_is_not_shown() -> None:
    assert curl(stored_event(1, b"a" * 70_000), "http://localhost/") is None
