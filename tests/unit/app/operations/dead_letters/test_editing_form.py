"""A dead letter that is edited in a form: browsers change line ends, and what nobody has edited keeps its bytes."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.operations.dead_letters.editing import edit, edited_document, form_of
from app.operations.dead_letters.letters import DeadLetter
from app.operations.stored_records import as_json
from knative.errors import UsageError
from tables.kafka.topic_reader import StoredRecord

_HEADERS = (
    ("ce_id", b"1"), ("ce_type", b"t"), ("ce_knativeerrordest", b"http://user:secret@x/"), ("penstock-attempts", b"3"),
)  # fmt: skip


def _letter(data: bytes | None) -> DeadLetter:
    return DeadLetter(StoredRecord("t.dlq", 0, 0, 0, None, _HEADERS, data))


def _sent(text: str) -> str:
    """What a browser sends of a text area."""
    return re.sub(r"\r\n|\r|\n", "\r\n", text)


def _edited(data: bytes | None, text: str | None = None, **attributes: str) -> DeadLetter:
    """`text` None: as the form shows it."""
    letter = _letter(data)
    original = as_json(letter.record)
    after = json.dumps({"id": "1", "type": "t", **attributes})
    document = edited_document(original, after, _sent(form_of(original)[1] if text is None else text))
    return edit(letter, document, original)


@given(st.one_of(st.binary(), st.text(alphabet="a\r\n\t\x00\x1b\ufffe é").map(str.encode), st.none()))
def test_what_is_not_edited_stays(data: bytes | None) -> None:
    edited = _edited(data)
    assert edited.record.value == data
    assert edited.record.headers == _HEADERS


@pytest.mark.parametrize(
    ("data", "text", "after"),
    [
        (b"a\nb", "a\nc", b"a\nc"),
        (b"a\r\nb", "a\nc", b"a\r\nc"),
        (b"a", "", b""),
        (None, "new", b"new"),
        (b"\xff", "AAE=", b"\x00\x01"),
        (b"a\x00", "AAE=", b"\x00\x01"),
    ],
)
def test_data_is_replaced(data: bytes | None, text: str, after: bytes) -> None:
    assert _edited(data, text).record.value == after


def test_attributes_are_replaced_and_those_of_the_dead_letter_stay() -> None:
    headers = dict(_edited(b"a", type="other", more="x").record.headers)
    assert (headers["ce_type"], headers["ce_more"]) == (b"other", b"x")
    assert headers["ce_knativeerrordest"] == b"http://user:secret@x/"


@pytest.mark.parametrize(
    "attributes",
    [
        "", "[]", "{", '{"type": 1}', '{"type": "t"}', '{"id": "2", "type": "t"}',
        '{"id": "1", "type": "t", "subject": "\\ud800"}', "[" * 200_000,
    ],
)  # fmt: skip
def test_what_is_not_valid_says_why(attributes: str) -> None:
    letter = _letter(b"a")
    original = as_json(letter.record)
    with pytest.raises(UsageError):
        edit(letter, edited_document(original, attributes, "a"), original)
