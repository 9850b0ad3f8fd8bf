"""CloudEvents JSON format (structured mode) to attributes and data bytes, without touching the data.

A JSON value under `data` is cut out of the envelope as the bytes that were sent: numbers of 20 digits, `1.10` and
white space stay. It is parsed only to find where it ends and that it is JSON. Refuses batches, other formats, and
writing the format.
"""

from __future__ import annotations

import binascii
import re
from json import JSONDecodeError, JSONDecoder
from typing import Any, NoReturn

from knative.cloudevents.attributes import BadEvent, fault_of_text, shown

#: An envelope becomes record and request headers, so it is bounded as those are at ingress.
MEMBERS_MAX = 512
ATTRIBUTES_BYTES_MAX = 131_072
#: Arrays and objects in each other that are read, wherever this is called from. What goes deeper is refused as soon as
#: it does not fit the interpreter's stack, which is at some 900.
NESTING_READ = 500

#: These are strings by the specification; any other attribute may also be an integer or a boolean.
_STRINGS_ONLY = frozenset(
    ("id", "source", "type", "specversion", "subject", "time", "dataschema", "schemaurl", "datacontenttype")
)

_white_space = re.compile(r"[ \t\n\r]*").match
_good_name = re.compile(r"[a-z0-9]+").fullmatch
_json_media_type = re.compile(r"\s*[^;\s]*[/+]json\s*(?:;.*)?", re.IGNORECASE | re.DOTALL).fullmatch


class _Integer(str):
    """The digits of a JSON number without fraction and exponent, not yet a number: there is no limit to its size."""

    __slots__ = ()


class _Real(str):
    """The text of a JSON number with a fraction or an exponent."""

    __slots__ = ()


def _refuse_constant(token: str) -> NoReturn:
    raise BadEvent("", f"malformed structured JSON: {token} is not JSON")


#: Attribute values: numbers keep their text. A nested object is of no use, and `len` lets it go at once.
_attribute_at = JSONDecoder(
    parse_int=_Integer, parse_float=_Real, parse_constant=_refuse_constant, object_pairs_hook=len
).raw_decode
#: Data: only its end is wanted, so numbers and objects are replaced by small integers as soon as they are read.
_data_at = JSONDecoder(
    parse_int=len, parse_float=len, parse_constant=_refuse_constant, object_pairs_hook=len
).raw_decode


def is_json(media_type: str) -> bool:
    """True for `*/json` and `*+json`, whatever the case and the parameters."""
    return _json_media_type(media_type) is not None


def read(body: bytes | None) -> tuple[dict[str, bytes], bytes | None]:
    """An envelope -> (`ce_<name>` and `content-type` -> UTF-8 bytes, data or None). Raises BadEvent.

    Says nothing of what the attributes mean: `events.check` does. With no `datacontenttype` the data is JSON by the
    format's own rule, and since the implied type would be lost outside the envelope, it is written down.
    """
    members = _members(_text(body))
    data = members.pop("data", None)
    data_base64 = members.pop("data_base64", (None, ""))[0]
    event: dict[str, bytes] = {}
    for name, (value, _) in members.items():
        if value is not None:
            event["content-type" if name == "datacontenttype" else f"ce_{name}"] = _attribute(name, value)
    if sum(map(len, event)) + sum(map(len, event.values())) > ATTRIBUTES_BYTES_MAX:
        raise BadEvent("", f"the attributes of the envelope are larger than {ATTRIBUTES_BYTES_MAX} bytes")
    if data is None and data_base64 is None:
        return event, None
    if data is None:
        value_bytes = _from_base64(data_base64)
    elif data_base64 is None:
        value_bytes = _data(data[0], data[1], event)
    else:
        raise BadEvent("data", "data and data_base64 exclude each other")
    event.setdefault("content-type", b"application/json")
    return event, value_bytes


def _text(body: bytes | None) -> str:
    if not body:
        raise BadEvent("", "malformed structured JSON: the body is empty")
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise BadEvent("", f"malformed structured JSON: not UTF-8 at byte {error.start}") from None
    if text[0] == "\ufeff":
        raise BadEvent("", "malformed structured JSON: it starts with a byte order mark")
    return text


def _members(text: str) -> dict[str, tuple[Any, str]]:
    """The members of the one object that `text` must be: name -> (value, its exact text for `data`, else "")."""
    try:
        return _scan(text)
    except JSONDecodeError as error:
        raise BadEvent("", f"malformed structured JSON: {error.msg} (character {error.pos})") from None
    except RecursionError:
        raise BadEvent("", "malformed structured JSON: nested too deeply") from None


def _scan(text: str) -> dict[str, tuple[Any, str]]:
    members: dict[str, tuple[Any, str]] = {}
    at = _after(text, 0, "{")
    more = text[at : at + 1] != "}"
    while more:
        if text[at : at + 1] != '"':
            raise JSONDecodeError("a member's name expected", text, at)
        name, at = _attribute_at(text, at)
        if name in members:
            raise BadEvent("", f"malformed structured JSON: member '{shown(name)}' is there twice")
        if len(members) == MEMBERS_MAX:
            raise BadEvent("", f"the envelope has more than {MEMBERS_MAX} members")
        start = _after(text, at, ":")
        value, at = (_data_at if name == "data" else _attribute_at)(text, start)
        members[name] = (value, text[start:at] if name == "data" else "")
        at = _space_end(text, at)
        more = text[at : at + 1] == ","
        if more:
            at = _space_end(text, at + 1)
    at = _after(text, at, "}")
    if at != len(text):
        raise JSONDecodeError("nothing more expected", text, at)
    return members


def _space_end(text: str, at: int) -> int:
    match = _white_space(text, at)
    return match.end() if match else at


def _after(text: str, at: int, mark: str) -> int:
    """Where the next token starts behind white space, `mark`, white space."""
    at = _space_end(text, at)
    if text[at : at + 1] != mark:
        raise JSONDecodeError(f"'{mark}' expected", text, at)
    return _space_end(text, at + 1)


def _attribute(name: str, value: Any) -> bytes:
    """The canonical text of an attribute of the envelope, as UTF-8."""
    if not _good_name(name):
        raise BadEvent(shown(name), "bad attribute name: only a-z and 0-9 are allowed")
    kind = value.__class__
    if kind is not str and (name in _STRINGS_ONLY or not (kind is bool or kind is _Integer)):
        raise BadEvent(shown(name), "must be a string" if name in _STRINGS_ONLY else "must be text, integer or boolean")
    if kind is bool:
        return b"true" if value else b"false"
    if kind is _Integer:
        return b"0" if value == "-0" else value.encode()
    if name == "datacontenttype":
        _check_media_type(value)
    encoded = _encode(shown(name), value)
    fault = fault_of_text(encoded)
    if fault:
        raise BadEvent(shown(name), fault)
    return encoded


def _check_media_type(value: str) -> None:
    text = value.strip()
    if not text:
        raise BadEvent("datacontenttype", "is empty; leave it out instead")
    if text.lower().startswith("application/cloudevents"):
        raise BadEvent(
            "datacontenttype", "is a CloudEvents media type, which would make a structured event of the data"
        )


def _encode(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise BadEvent(name, "has half of a surrogate pair") from None


def _from_base64(value: Any) -> bytes:
    if value.__class__ is not str:
        raise BadEvent("data_base64", "must be a string")
    try:
        return binascii.a2b_base64(value, strict_mode=True)
    except ValueError:
        raise BadEvent("data_base64", "is not base64") from None


def _data(value: Any, text: str, event: dict[str, bytes]) -> bytes:
    """The bytes that `data` stands for in binary mode: its own text, or for a string of another type what it says.

    Version 0.3 announces base64 in `datacontentencoding`; attribute and encoded text are both kept, since the one
    describes the other.
    """
    if value.__class__ is str:
        encoded = (
            event.get("ce_specversion") == b"0.3" and event.get("ce_datacontentencoding", b"").lower() == b"base64"
        )
        if encoded or not is_json(event.get("content-type", b"application/json").decode()):
            return _encode("data", value)
    return text.encode()
