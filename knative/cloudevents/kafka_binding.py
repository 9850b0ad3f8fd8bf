"""Kafka records to HTTP requests for subscribers, and to dead letters.

Records may come from any producer: binary or structured, in any case, with any bytes. A record that is not a CloudEvent
raises `Unreadable` and goes to the dead letters; it never crashes the worker. Nothing in a record can inject a header
or another request into what is sent.

`to_request` is a hot path: one pass over the headers, then one call that checks all attribute values together.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from itertools import chain
from typing import Any

from knative.cloudevents import json_format
from knative.cloudevents.attributes import SPEC_VERSIONS, BadEvent, fault_of_name, fault_of_text, shown
from knative.cloudevents.http_binding import RAW_URIS, REPLY_DEPTH, SAFE, check_format, encode_value, is_pass_through
from knative.cloudevents.record_headers import UNREADABLE_NAME, UNREADABLE_REASON
from knative.errors import SHOWN_CHARS
from knative.memo import remember
from knative.ports import Headers

#: `knativeerrordata` is base64 of at most this many characters.
ERROR_DATA_CHARACTERS_MAX = 1024

#: Headers of ours that a dead letter keeps.
_OF_THE_EVENT = frozenset((REPLY_DEPTH, RAW_URIS))

_DESCRIBED = ("id", "source", "type")
_STRUCTURED = b"application/cloudevents"

_ID, _SOURCE, _TYPE, _SPECVERSION = (b"\r\nce-%s: " % name for name in (b"id", b"source", b"type", b"specversion"))
_URIS = frozenset((_SOURCE, b"\r\nce-dataschema: ", b"\r\nce-schemaurl: "))
_CONTENT_TYPE = "content-type"
_CONTENT_TYPE_LINE = b"\r\ncontent-type: "
_SAFE_IN_URI = SAFE + b"%"
_PRINTABLE = bytes(range(0x20, 0x7F))


#: Record header name -> start of its line if it is an attribute, else b"".
_attributes: dict[str, bytes] = {}
#: Record header name that is not an attribute -> start of its line; b"" = it is not sent.
_plain: dict[str, bytes] = {}
#: Value of a content-type header -> its line (b"" = none). Only values that may be sent.
_content_types: dict[bytes, bytes] = {}


class Unreadable(ValueError):
    """A record that is not a CloudEvent. `reason` is one line that fits into a log and a dead letter."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def to_request(prefix: bytes, headers: Headers, value: bytes | None) -> bytes:
    """Returns a record as the whole HTTP/1.1 request, binary mode. Raises Unreadable.

    `prefix` is the request line and first headers without the final CRLF. The four required attributes must be present;
    other attributes only have to be text. `content-length` is always sent, 0 for a null value. A plain header that
    passes through is dropped if its value cannot be sent as it is.
    """
    lines: dict[bytes, Any] = {}  # values may be None until they are joined
    rest: list[tuple[str, bytes | None]] = []
    attributes = _attributes
    for name, content in headers:
        try:
            line = attributes[name]
        except KeyError:
            line = _intern(name, headers)
        if line:
            lines[line] = content
        else:
            rest.append((name, content))
    tail = _rest_of_head(rest)
    if tail is None:
        return to_request(prefix, *_from_structured(headers, value))
    try:
        # A repeated attribute makes `lines` shorter. A null value raises TypeError in `join`. `_fault` names both.
        if (
            len(lines) + len(rest) != len(headers)
            or not (lines[_ID] and lines[_SOURCE] and lines[_TYPE])
            or lines[_SPECVERSION] not in SPEC_VERSIONS
        ):
            raise _fault(headers)
        head = b"".join(chain.from_iterable(lines.items()))
    except (KeyError, TypeError):
        raise _fault(headers) from None
    # CR, LF and one space: the bytes of an attribute's line frame that are not in `SAFE`. Counting such bytes finds
    # every value that needs encoding, and every value that tries to break out of its line.
    if len(head.translate(None, SAFE)) != 3 * len(lines):
        head = _encoded(lines, rest)
    if value is None:
        value = b""
    return b"".join((prefix, head, tail, b"\r\ncontent-length: %d\r\n\r\n" % len(value), value))


def to_json_request(prefix: bytes, headers: Headers, value: bytes | None) -> bytes:
    """Makes the request in structured mode: the event is one JSON object. Raises Unreadable for the same records."""
    if _is_structured(headers):
        headers, value = _from_structured(headers, value)
    to_request(prefix, headers, None)  # checks them
    event: dict[str, bytes] = {}
    rest: list[tuple[str, bytes | None]] = []
    for name, content in headers:
        low = name.lower()
        if low[:3] == "ce_" or (low == _CONTENT_TYPE and content):
            event[low] = (content or b"").strip(b" \t") if low == _CONTENT_TYPE else content or b""
        elif low != _CONTENT_TYPE:
            rest.append((name, content))
    try:
        body = json_format.write(event, value)
    except UnicodeDecodeError:
        raise Unreadable("an attribute is not valid UTF-8") from None
    tail = _rest_of_head(rest) or b""
    head = b"\r\ncontent-type: application/cloudevents+json; charset=utf-8"
    return b"".join((prefix, head, tail, b"\r\ncontent-length: %d\r\n\r\n" % len(body), body))


def dead_letter_headers(
    headers: Headers, *, destination: str, code: int, data: bytes, plain: Sequence[tuple[str, str]]
) -> list[tuple[str, bytes | None]]:
    """Returns the headers of the dead letter for a record that could not be delivered to `destination`.

    All original headers are kept, readable or not. Those of an earlier dead letter (`ce_knativeerror*`, `penstock-*`)
    are replaced. `code` is the HTTP status, `data` the start of the answer's body (truncated here; b"" adds no
    attribute), `plain` the `penstock-*` headers to add.
    """
    kept = original_headers(headers)
    kept.append(("ce_knativeerrordest", destination.encode("utf-8", "replace")))
    kept.append(("ce_knativeerrorcode", b"%d" % code))
    if data:
        kept.append(("ce_knativeerrordata", b64encode(data[: ERROR_DATA_CHARACTERS_MAX // 4 * 3])))
    kept.extend((name, text.encode("utf-8", "replace")) for name, text in plain)
    return kept


def original_headers(dead_letter: Headers) -> list[tuple[str, bytes | None]]:
    """Returns the headers of the event, without those that made it a dead letter."""
    return [header for header in dead_letter if not _is_ours(header[0])]


def binary_form(headers: Headers, value: bytes | None) -> Headers:
    """Returns the headers in binary mode of a structured record, from its envelope. Raises Unreadable."""
    return _from_structured(headers, value)[0]


def describe(headers: Headers) -> dict[str, str]:
    """Returns `id`, `source` and `type` of a record for a log line, truncated; "" if missing. Accepts any record."""
    texts = dict.fromkeys(_DESCRIBED, "")
    for name, content in headers:
        attribute = name[3:].lower() if isinstance(name, str) and name[:3].lower() == "ce_" else ""
        if attribute in texts and content and not texts[attribute]:
            texts[attribute] = content[: 4 * SHOWN_CHARS].decode("utf-8", "replace")[:SHOWN_CHARS]
    return texts


def _intern(name: str, headers: Headers) -> bytes:
    """Returns the start of an attribute's line; b"" for other headers. Raises Unreadable for a bad attribute name."""
    if not isinstance(name, str):
        raise Unreadable("a header has no name")
    line = b""
    if name[:3].lower() == "ce_":
        fault = (
            fault_of_name(name[3:].lower()) if name.isascii() else "bad attribute name: only a-z and 0-9 are allowed"
        )
        if fault is None:
            line = b"\r\nce-%s: " % name[3:].lower().encode()
        elif _is_structured(headers):
            return b""  # in structured mode the envelope counts, not the headers
        else:
            raise Unreadable(f"header '{shown(name)}': {fault}")
    remember(_attributes, name, line)
    return line


def _rest_of_head(rest: Headers) -> bytes | None:
    """Returns the lines of the content type and of plain headers that pass through; None for a structured record."""
    tail = b""
    typed = False
    for name, content in rest:
        line = _plain.get(name)
        if line is None:
            line = _intern_plain(name)
        if line is _CONTENT_TYPE_LINE:
            if typed:
                raise Unreadable("header 'content-type' appears twice")
            typed = True
            if content:
                whole = _content_types.get(content)
                if whole is None:
                    whole = _content_type_line(content)
                    if whole is None:
                        return None
                tail += whole
        elif line and content is not None:
            text = content.strip(b" \t")
            # Drop a header with bytes that cannot be sent: a broken trace header must not stop the event.
            if not text.translate(None, _PRINTABLE) or fault_of_text(text) is None:
                tail += line + text
    return tail


def _intern_plain(name: str) -> bytes:
    low = name.lower() if name.isascii() else ""
    line = b""
    if low == _CONTENT_TYPE:
        line = _CONTENT_TYPE_LINE
    elif is_pass_through(low):
        line = b"\r\n%s: " % low.encode()
    remember(_plain, name, line)
    return line


def _content_type_line(content: bytes) -> bytes | None:
    """Returns the content-type line (b"" for an empty one), None for a structured record. Raises Unreadable."""
    text = content.strip(b" \t")
    if _names_cloudevents(text):
        return None
    fault = fault_of_text(text)
    if fault:
        raise Unreadable(f"header 'content-type' {fault}")
    line = _CONTENT_TYPE_LINE + text if text else b""
    remember(_content_types, content, line)
    return line


def _encoded(lines: dict[bytes, bytes], rest: Headers) -> bytes:
    """Returns the attribute lines when a value needs encoding. Raises Unreadable for a value that is not valid text."""
    parts: list[bytes] = []
    for line, content in lines.items():
        if content.translate(None, SAFE):
            fault = fault_of_text(content)
            if fault:
                raise Unreadable(f"attribute '{shown(line[5:-2].decode())}' {fault}")
            if line not in _URIS or content.translate(None, _SAFE_IN_URI) or not _came_raw(line, rest):
                content = encode_value(content)
        parts += (line, content)
    return b"".join(parts)


def _came_raw(line: bytes, rest: Headers) -> bool:
    """Returns whether this URI attribute came without header encoding."""
    names = next((content for name, content in rest if name == RAW_URIS), None)
    return names is not None and line[5:-2] in names.split(b",")


def _from_structured(headers: Headers, value: bytes | None) -> tuple[list[tuple[str, bytes | None]], bytes | None]:
    """Returns a structured record as (headers, value) of the same event in binary mode. Raises Unreadable.

    The envelope counts, not the `ce_` headers, except those that an earlier dead letter added.
    """
    added: dict[str, bytes | None] = {}
    others = []
    media_type = b""
    seen = set()
    for name, content in headers:
        if not isinstance(name, str):
            raise Unreadable("a header has no name")
        low = name.lower()
        if low == _CONTENT_TYPE or low.startswith("ce_"):
            if low in seen:
                raise Unreadable(f"header '{shown(low)}' appears twice")
            seen.add(low)
        if low == _CONTENT_TYPE:
            media_type = content or b""
        elif low.startswith("ce_knativeerror"):
            added[low] = content
        elif not low.startswith("ce_"):
            others.append((name, content))
    try:
        check_format(media_type)
        event, data = json_format.read(value)
    except BadEvent as error:
        raise Unreadable(str(error)) from None
    return [*(event | added).items(), *others], data


def _fault(headers: Headers) -> Unreadable:
    """Returns the first reason why a record is not a CloudEvent. Slow, so called only when there is one."""
    seen: dict[str, bytes] = {}
    for name, content in headers:
        low = name.lower()
        if not low.startswith("ce_"):
            continue
        if low in seen:
            return Unreadable(f"header '{shown(low)}' appears twice")
        if content is None:
            return Unreadable(f"header '{shown(low)}' has a null value")
        seen[low] = content
    if not seen:
        if any(name == UNREADABLE_NAME for name, _ in headers):
            return Unreadable(UNREADABLE_REASON)
        return Unreadable("not a CloudEvent: the record has no ce_ headers")
    for low in ("ce_id", "ce_source", "ce_type", "ce_specversion"):
        if not seen.get(low):
            return Unreadable(f"attribute '{low[3:]}' is {'empty' if low in seen else 'missing'}")
    return Unreadable("attribute 'specversion' must be 1.0 or 0.3")


def _is_structured(headers: Headers) -> bool:
    return any(
        isinstance(name, str)
        and name.lower() == _CONTENT_TYPE
        and content
        and _names_cloudevents(content.strip(b" \t"))
        for name, content in headers
    )


def _names_cloudevents(content_type: bytes) -> bool:
    return content_type[: len(_STRUCTURED)].lower() == _STRUCTURED


def _is_ours(name: str) -> bool:
    """Returns whether this header belongs to a dead letter, and not to the event."""
    low = name.lower() if isinstance(name, str) else ""
    return low.startswith(("ce_knativeerror", "penstock-")) and low not in _OF_THE_EVENT
