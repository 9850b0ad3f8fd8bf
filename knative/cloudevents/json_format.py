"""CloudEvents JSON format (structured mode) to attributes and data bytes, without changing the data.

A JSON value under `data` is cut out of the envelope as the bytes that were sent: numbers of 20 digits, `1.10` and
white space stay. It is parsed only to find its end and to check that it is JSON. Does not read batches.
"""

from __future__ import annotations

import binascii
import json
import re
from collections.abc import Mapping
from json import JSONDecodeError, JSONDecoder
from typing import Any, NoReturn

from knative.cloudevents.attributes import BadEvent, fault_of_text, shown

#: An envelope becomes record and request headers, so it has the same limits as headers at ingress.
MEMBERS_MAX = 512
ATTRIBUTES_BYTES_MAX = 131_072
#: Nesting of arrays and objects that is always supported, wherever `read` is called from. Deeper values fail when they
#: exceed the interpreter's stack, at about 900.
NESTING_READ = 500

#: These are strings by the specification; any other attribute may also be an integer or a boolean.
_STRINGS_ONLY = frozenset(
    ("id", "source", "type", "specversion", "subject", "time", "dataschema", "schemaurl", "datacontenttype")
)

_white_space = re.compile(r"[ \t\n\r]*").match
#: A member other than `data` whose value is a string without escapes, as most are: its name and value, and whether
#: another member follows.
_text_member = re.compile(
    r'"(?!data")([a-z0-9]++)"[ \t\n\r]*+:[ \t\n\r]*+"([^"\\\x00-\x1f]*+)"[ \t\n\r]*+(,[ \t\n\r]*+)?+'
).match
_good_name = re.compile(r"[a-z0-9]+").fullmatch
_json_media_type = re.compile(r"\s*[^;\s]*[/+]json\s*(?:;.*)?", re.IGNORECASE | re.DOTALL).fullmatch


class _Integer(str):
    """The digits of a JSON number without fraction and exponent. Kept as text, because its size has no limit."""

    __slots__ = ()


class _Real(str):
    """The text of a JSON number with a fraction or an exponent."""

    __slots__ = ()


def _refuse_constant(token: str) -> NoReturn:
    raise BadEvent("", f"malformed structured JSON: {token} is not JSON")


#: For attribute values: numbers keep their text. Nested objects are not valid here, and `len` drops them at once.
_attribute_at = JSONDecoder(
    parse_int=_Integer, parse_float=_Real, parse_constant=_refuse_constant, object_pairs_hook=len
).raw_decode
#: For data: only its end is needed, so numbers and objects are replaced by small integers as soon as they are read.
_data_at = JSONDecoder(
    parse_int=len, parse_float=len, parse_constant=_refuse_constant, object_pairs_hook=len
).raw_decode


def is_json(media_type: str) -> bool:
    """Returns whether this is `*/json` or `*+json`, in any case and with any parameters."""
    return _json_media_type(media_type) is not None


def read(body: bytes | None) -> tuple[dict[str, bytes], bytes | None]:
    """Returns an envelope as (`ce_<name>` and `content-type` -> UTF-8 bytes, data or None). Raises BadEvent.

    Does not check what the attributes mean: `attributes.check` does. Without `datacontenttype`, `data` is JSON by the
    rule of the format. Outside the envelope that implied type would be lost, so it is added. Bytes in base64 have no
    implied type.
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
        return event, _from_base64(data_base64)
    if data_base64 is not None:
        raise BadEvent("data", "cannot be combined with data_base64")
    if data[0].__class__ is str and _is_base64_of_0_3(event):
        return event, _encode("data", data[0])
    value_bytes = _data(data[0], data[1], event)
    event.setdefault("content-type", b"application/json")
    return event, value_bytes


def _is_base64_of_0_3(event: Mapping[str, bytes]) -> bool:
    """Returns whether `data` is base64. Version 0.3 announces it in `datacontentencoding`. Both the attribute and the
    encoded text are kept, because the attribute describes the text."""
    return event.get("ce_specversion") == b"0.3" and event.get("ce_datacontentencoding", b"").lower() == b"base64"


def write(event: Mapping[str, bytes], data: bytes | None) -> bytes:
    """Returns the envelope of an event, the inverse of `read`: `event` holds `ce_<name>` and `content-type`, all valid.

    JSON data is put in as it is, byte by byte, other text as a string, and everything else as base64, including data
    without a content type: as `data` it would be read as JSON.
    """
    members = {"datacontenttype" if name == "content-type" else name[3:]: text.decode() for name, text in event.items()}
    if data is None:
        return _object(members)
    media_type = members.get("datacontenttype", "")
    if is_json(media_type):
        if _is_json_text(data):
            return _object(members)[:-1] + b',"data":' + data + b"}"
    elif media_type.lstrip()[:5].lower() == "text/":
        text = data.decode("utf-8", "replace")
        if text.encode() == data:  # otherwise these bytes are not text
            return _object({**members, "data": text})
    encoded = binascii.b2a_base64(data, newline=False).decode()
    if members["specversion"] != "0.3":
        return _object({**members, "data_base64": encoded})
    # Version 0.3 has no `data_base64`. An event that says already that its data is base64 has it as text.
    if members.get("datacontentencoding", "").lower() == "base64":
        return _object({**members, "data": data.decode("ascii", "replace")})
    return _object({**members, "datacontentencoding": "base64", "data": encoded})


def _object(members: Mapping[str, str]) -> bytes:
    return json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode()


def _is_json_text(data: bytes) -> bool:
    """Returns whether `read` would cut exactly these bytes out of an envelope."""
    try:
        text = data.decode()
        return bool(text) and text[0] not in " \t\n\r\ufeff" and _data_at(text, 0)[1] == len(text)
    except (ValueError, RecursionError):
        return False


def _text(body: bytes | None) -> str:
    if not body:
        raise BadEvent("", "malformed structured JSON: the body is empty")
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise BadEvent("", f"malformed structured JSON: it is not UTF-8 at byte {error.start}") from None
    if text[0] == "\ufeff":
        raise BadEvent("", "malformed structured JSON: it starts with a byte order mark")
    return text


def _members(text: str) -> dict[str, tuple[Any, str]]:
    """Returns the members of the one object that `text` must be: name -> (value, its exact text for `data` or "")."""
    try:
        return _scan(text)
    except JSONDecodeError as error:
        raise BadEvent("", f"malformed structured JSON: {error.msg} (character {error.pos})") from None
    except RecursionError:
        raise BadEvent("", "malformed structured JSON: it is nested too deeply") from None


def _scan(text: str) -> dict[str, tuple[Any, str]]:
    members: dict[str, tuple[Any, str]] = {}
    at = _after(text, 0, "{")
    more: object = text[at : at + 1] != "}"
    while more:
        member = _text_member(text, at)
        if member is not None:
            name, at = member[1], member.end()
        elif text[at : at + 1] != '"':
            raise JSONDecodeError("the name of a member is expected", text, at)
        else:
            name, at = _attribute_at(text, at)
        if name in members:
            raise BadEvent("", f"malformed structured JSON: member '{shown(name)}' appears twice")
        if len(members) == MEMBERS_MAX:
            raise BadEvent("", f"the envelope has more than {MEMBERS_MAX} members")
        if member is not None:
            members[name], more = (member[2], ""), member[3]
            continue
        start = _after(text, at, ":")
        value, at = (_data_at if name == "data" else _attribute_at)(text, start)
        members[name] = (value, text[start:at] if name == "data" else "")
        at = _space_end(text, at)
        more = text[at : at + 1] == ","
        if more:
            at = _space_end(text, at + 1)
    at = _after(text, at, "}")
    if at != len(text):
        raise JSONDecodeError("nothing is expected here", text, at)
    return members


def _space_end(text: str, at: int) -> int:
    match = _white_space(text, at)
    return match.end() if match else at


def _after(text: str, at: int, mark: str) -> int:
    """Returns the start of the next token after white space, `mark`, white space."""
    at = _space_end(text, at)
    if text[at : at + 1] != mark:
        raise JSONDecodeError(f"'{mark}' expected", text, at)
    return _space_end(text, at + 1)


def _attribute(name: str, value: Any) -> bytes:
    """Returns the canonical text of an attribute of the envelope, as UTF-8."""
    if not _good_name(name):
        raise BadEvent(shown(name), "is not a valid name: only a-z and 0-9 are allowed")
    kind = value.__class__
    if kind is not str and (name in _STRINGS_ONLY or not (kind is bool or kind is _Integer)):
        raise BadEvent(shown(name), "must be a string" if name in _STRINGS_ONLY else "must be text, integer or boolean")
    if kind is bool:
        return b"true" if value else b"false"
    if kind is _Integer:
        return b"0" if value == "-0" else value.encode()
    if name == "datacontenttype":
        _check_media_type(value)
    encoded = _encode(name, value)
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
            "datacontenttype", "is a CloudEvents media type, which would turn the data into a structured event"
        )


def _encode(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise BadEvent(shown(name), "has half of a surrogate pair") from None


def _from_base64(value: Any) -> bytes:
    if value.__class__ is not str:
        raise BadEvent("data_base64", "must be a string")
    try:
        return binascii.a2b_base64(value, strict_mode=True)
    except ValueError:
        raise BadEvent("data_base64", "is not base64") from None


def _data(value: Any, text: str, event: Mapping[str, bytes]) -> bytes:
    """Returns the bytes of `data` in binary mode: its own text, or the content of a string if the data is not JSON."""
    if value.__class__ is str and not is_json(event.get("content-type", b"application/json").decode()):
        return _encode("data", value)
    return text.encode()
