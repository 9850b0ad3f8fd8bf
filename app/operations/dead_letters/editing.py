"""Changes attributes or data of a dead letter as edited in the JSON of `penstock dlq show -o json`. Pure.

Takes only differences from the JSON: everything else keeps its bytes, even where they are not text.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.operations.dead_letters.letters import DeadLetter
from knative.errors import UsageError

_ATTRIBUTE = re.compile(r"[a-z0-9]+", re.ASCII)
_ERROR = "knativeerror"  #: attributes of the dead letter, not of the event
_CONTROL = re.compile(r"[^\t\n\r\x20-\U0010ffff]|\r(?!\n)|[\x7f\ufffe\uffff]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")  #: JSON may have them, and UTF-8 cannot
_FIXED = ("id", "source", "specversion")  #: these identify the event
_REQUIRED = ("type",)


def read_edited(text: str, file: str) -> dict[str, Any]:
    """Returns the JSON object of one letter. Raises UsageError."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise UsageError(f"{file} is not JSON: {problem}.", _HOW) from problem
    if not isinstance(document, dict) or not isinstance(document.get("letter"), str):
        raise UsageError(f"{file} is not one dead letter.", _HOW)
    if not isinstance(document.get("attributes"), dict) or not all(
        isinstance(value, str) for value in document["attributes"].values()
    ):
        raise UsageError(f"`attributes` in {file} is not an object with string values.", _HOW)
    return document


_HOW = "Create it with `penstock dlq show LETTER -o json`, then edit `attributes` and `data`."


def edited_document(original: Mapping[str, Any], attributes: str, data: str) -> dict[str, Any]:
    """Returns the document of a letter that was edited in a form: its attributes as JSON, and its data, as text or
    base64 as `form_of` gives it. Raises UsageError."""
    try:
        after = json.loads(attributes)
    except (ValueError, RecursionError) as problem:
        raise UsageError(f"The attributes are not JSON: {problem}.", 'Write {"type": "...", ...}.') from problem
    if not isinstance(after, dict) or not all(isinstance(value, str) for value in after.values()):
        raise UsageError("The attributes are not a JSON object with strings.", 'Write {"type": "...", ...}.')
    errors = {name: value for name, value in original["attributes"].items() if name.startswith(_ERROR)}
    name, before = form_of(original)
    text = data.replace("\r\n", "\n")  # browsers send line ends so, whatever they were
    content: str | None = text if name == "data_base64" else _line_ends(original, text)
    if text == before.replace("\r\n", "\n"):
        name = "data" if "data" in original else "data_base64"
        content = original[name]
    return {"attributes": {**errors, **after}, name: content}


def form_of(document: Mapping[str, Any]) -> tuple[str, str]:
    """Returns what a form edits of the data: `data` and a text, or `data_base64` where a form would change the text."""
    if "data_base64" in document:
        return "data_base64", document["data_base64"]
    text = document["data"] or ""
    if _CONTROL.search(text):
        return "data_base64", base64.b64encode(text.encode()).decode()
    return "data", text


def _line_ends(original: Mapping[str, Any], text: str) -> str:
    """Returns the text with line ends as the data had them."""
    return text.replace("\n", "\r\n") if "\r\n" in (original.get("data") or "") else text


def edit(letter: DeadLetter, document: Mapping[str, Any], original: Mapping[str, Any]) -> DeadLetter:
    """Returns the letter as edited in `document`. `original`: `as_json` of its record. Raises UsageError."""
    before, after = original["attributes"], document["attributes"]
    changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    for name in sorted(changed):
        _check(name, after)
    headers = [(name, value) for name, value in letter.record.headers if _attribute(name) not in changed]
    headers += [
        ("content-type" if name == "datacontenttype" else f"ce_{name}", after[name].encode())
        for name in sorted(changed)
        if name in after
    ]
    return DeadLetter(replace(letter.record, headers=tuple(headers), value=_data(letter, document, original)))


def _attribute(header: str) -> str:
    if header == "content-type":
        return "datacontenttype"
    return header[3:] if header.startswith("ce_") else ""


def _check(name: str, after: Mapping[str, str]) -> None:
    if name in _FIXED:
        raise UsageError(f"The {name} of a dead letter cannot be changed.", "Send a new event: `penstock send`.")
    if name in _REQUIRED and not after.get(name):
        raise UsageError(f"An event needs a {name}.", "Add it again.")
    if not _ATTRIBUTE.fullmatch(name):
        raise UsageError(f"{name!r} is not a valid attribute name.", "Use lower-case letters and digits only.")
    if _SURROGATE.search(after.get(name, "")):
        raise UsageError(f"The {name} has half of a surrogate pair.", "Write the character itself, or both halves.")


def _data(letter: DeadLetter, document: Mapping[str, Any], original: Mapping[str, Any]) -> bytes | None:
    names = [name for name in ("data", "data_base64") if name in document]
    if len(names) != 1:
        raise UsageError("The letter needs either data or data_base64.", _HOW)
    (name,) = names
    value = document[name]
    if name in original and value == original[name]:
        return letter.record.value
    if value is None:
        return None
    if not isinstance(value, str):
        raise UsageError(f"{name} is not a string.", "Write JSON data as a string, with quotes escaped.")
    try:
        return value.encode() if name == "data" else base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as problem:
        raise UsageError(f"{name} cannot be decoded: {problem}.", "Write valid base64.") from problem
