"""A dead letter that is edited as JSON: what has changed is taken, and all else keeps its bytes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from app.cli.dlq.show import letter_json
from app.operations.dead_letters.editing import edit, read_edited
from app.operations.dead_letters.ledger import Ledger
from app.operations.dead_letters.letters import DeadLetter
from app.operations.stored_records import as_json
from knative.errors import UsageError
from tests.unit.app.operations.dead_letters.samples import dead_letter


def _edited(letter: DeadLetter, /, **changes: object) -> DeadLetter:
    original = letter_json(letter, Ledger({}))
    document = read_edited(json.dumps({**original, **changes}), "f.json")
    return edit(letter, document, as_json(letter.record))


def test_unchanged_letter_is_the_same_to_the_byte() -> None:
    odd = replace(dead_letter().record, headers=(*dead_letter().record.headers, ("ce_bin", b"\xff")), value=b"\xff")
    for letter in (dead_letter(), DeadLetter(odd), DeadLetter(replace(odd, value=None))):
        assert _edited(letter) == letter


def test_edited_letter_has_the_new_attributes_and_data() -> None:
    attributes = {"id": "1", "type": "t2", "subject": "größer", "datacontenttype": "application/json"}
    fixed = _edited(dead_letter(), attributes=attributes, data='{"a": 1}')
    assert dict(fixed.original_headers()) == {
        "ce_id": b"1", "ce_type": b"t2", "ce_subject": "größer".encode(), "content-type": b"application/json",
        "traceparent": b"00-1-2-01",
    }  # fmt: skip
    assert fixed.record.value == b'{"a": 1}'
    assert (fixed.ref, fixed.event_id, fixed.subscription) == ("t.dlq/2/0", "1", "ns/a")
    binary = dead_letter()
    edited = {**letter_json(binary, Ledger({})), "data_base64": "/w=="}
    del edited["data"]
    assert edit(binary, edited, as_json(binary.record)).record.value == b"\xff"
    assert _edited(dead_letter(), data=None).record.value is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attributes": {"id": "2", "type": "t"}}, "The id of a dead letter cannot be changed"),
        ({"attributes": {"id": "1"}}, "An event needs a type"),
        ({"attributes": {"id": "1", "type": "t", "Bad-Name": "x"}}, "'Bad-Name' is not a valid attribute name"),
        ({"attributes": {"id": "1", "type": 1}}, "not an object with string values"),
        ({"data": {"a": 1}}, "data is not a string"),
        ({"data_base64": "/w=="}, "either data or data_base64"),
        ({"letter": None}, "not one dead letter"),
    ],
)
def test_invalid_edit_is_rejected(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        _edited(dead_letter(), **changes)
    with pytest.raises(UsageError, match="not JSON"):
        read_edited("{", "f.json")
