"""Changes attributes or data of a dead letter as edited in the JSON of `penstock dlq show -o json`. Pure.

Takes only differences from the JSON: everything else keeps its bytes, also where they are not text.
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
_FIXED = ("id", "source", "specversion")  #: these identify the event
_REQUIRED = ("type",)


def read_edited(text: str, file: str) -> dict[str, Any]:
    """The JSON object of one letter. Raises UsageError."""
    try:
        found = json.loads(text)
    except ValueError as problem:
        raise UsageError(f"{file} is not JSON: {problem}.", _HOW) from problem
    if not isinstance(found, dict) or not isinstance(found.get("letter"), str):
        raise UsageError(f"{file} is not one dead letter.", _HOW)
    if not isinstance(found.get("attributes"), dict) or not all(
        isinstance(value, str) for value in found["attributes"].values()
    ):
        raise UsageError(f"`attributes` in {file} is not an object with string values.", _HOW)
    return found


_HOW = "Create it with `penstock dlq show LETTER -o json`, then edit `attributes` and `data`."


def edit(letter: DeadLetter, document: Mapping[str, Any], shown: Mapping[str, Any]) -> DeadLetter:
    """The letter as edited in `document`. `shown`: `as_json` of its record. Raises UsageError."""
    before, after = shown["attributes"], document["attributes"]
    changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    for name in sorted(changed):
        _check(name, after)
    headers = [(name, value) for name, value in letter.record.headers if _attribute(name) not in changed]
    headers += [
        ("content-type" if name == "datacontenttype" else f"ce_{name}", after[name].encode())
        for name in sorted(changed)
        if name in after
    ]
    return DeadLetter(replace(letter.record, headers=tuple(headers), value=_data(letter, document, shown)))


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


def _data(letter: DeadLetter, document: Mapping[str, Any], shown: Mapping[str, Any]) -> bytes | None:
    names = [name for name in ("data", "data_base64") if name in document]
    if len(names) != 1:
        raise UsageError("The letter needs either data or data_base64.", _HOW)
    (name,) = names
    value = document[name]
    if name in shown and value == shown[name]:
        return letter.record.value
    if value is None:
        return None
    if not isinstance(value, str):
        raise UsageError(f"{name} is not a string.", "Write JSON data as a string, with quotes escaped.")
    try:
        return value.encode() if name == "data" else base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as problem:
        raise UsageError(f"{name} cannot be decoded: {problem}.", "Write valid base64.") from problem
