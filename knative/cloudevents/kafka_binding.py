"""Kafka records to HTTP requests for subscribers, and to dead letters.

Records may come from any producer: binary or structured, in any case, with any bytes. A record that is not a CloudEvent
raises `Unreadable` and goes to the dead letters; it never crashes the worker. Nothing in a record can inject a header
or another request into what is sent.

For what repeats from one record to the next see `request_plan`.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence

from knative.cloudevents import json_format
from knative.cloudevents.attributes import SPEC_VERSIONS, BadEvent, fault_of_name, fault_of_text, shown
from knative.cloudevents.http_binding import (
    RAW_URIS,
    REPLY_DEPTH,
    SAFE,
    check_format,
    encode_value,
    is_pass_through,
    is_plain,
    names_cloudevents,
)
from knative.cloudevents.record_headers import UNREADABLE_NAME, UNREADABLE_REASON
from knative.errors import SHOWN_CHARS
from knative.memo import remember
from knative.ports import Headers

#: `knativeerrordata` is base64 of at most this many characters.
ERROR_DATA_CHARACTERS_MAX = 1024

#: Headers of ours that a dead letter keeps.
_OF_THE_EVENT = frozenset((REPLY_DEPTH, RAW_URIS))

_DESCRIBED = ("id", "source", "type")

_ATTRIBUTE = b"\r\nce-"
_SPECVERSION = b"\r\nce-specversion: "
_REQUIRED = (b"\r\nce-id: ", b"\r\nce-source: ", b"\r\nce-type: ", _SPECVERSION)
_URIS = ("source", "dataschema", "schemaurl")
_CONTENT_TYPE = "content-type"
_CONTENT_TYPE_LINE = b"\r\ncontent-type: "
_SAFE_IN_URI = SAFE + b"%"
_PRINTABLE = bytes(range(0x20, 0x7F))

#: Record header name -> start of its line in a request; b"" = it is not sent.
_lines: dict[str, bytes] = {}


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
    if is_structured(headers):
        return to_request(prefix, *from_structured(headers, value))
    attributes: dict[bytes, bytes | None] = {}
    rest: list[tuple[bytes, bytes | None]] = []
    for name, content in headers:
        line = _lines.get(name)
        if line is None:
            line = _intern(name)
        if line[:5] == _ATTRIBUTE:
            attributes[line] = content
        else:
            rest.append((line, content))
    tail = _rest_of_head(rest)
    if (
        len(attributes) + len(rest) != len(headers)  # an attribute is repeated
        or not all(map(attributes.get, _REQUIRED))
        or attributes[_SPECVERSION] not in SPEC_VERSIONS
    ):
        raise _fault(headers)
    parts = [prefix]
    for line, content in attributes.items():
        if content is None:
            raise _fault(headers)
        parts += line, content if is_plain(content) else encoded(line[5:-2].decode(), content, headers)
    value = value or b""
    return b"".join((*parts, tail, b"\r\ncontent-length: %d\r\n\r\n" % len(value), value))


def to_json_request(
    prefix: bytes, headers: Headers, value: bytes | None, check: Callable[[bytes, Headers, None], bytes] = to_request
) -> bytes:
    """Makes the request in structured mode: the event is one JSON object. Raises Unreadable for the same records, which
    `check` rejects."""
    if is_structured(headers):
        headers, value = from_structured(headers, value)
    check(prefix, headers, None)
    event: dict[str, bytes] = {}
    rest: list[tuple[bytes, bytes | None]] = []
    for name, content in headers:
        low = name.lower()
        if low[:3] == "ce_" or (low == _CONTENT_TYPE and content):
            event[low] = (content or b"").strip(b" \t") if low == _CONTENT_TYPE else content or b""
        elif low != _CONTENT_TYPE:
            rest.append((_lines.get(name) or _intern(name), content))
    try:
        body = json_format.write(event, value)
    except UnicodeDecodeError:
        raise Unreadable("an attribute is not valid UTF-8") from None
    tail = _rest_of_head(rest)
    head = b"\r\ncontent-type: application/cloudevents+json; charset=utf-8"
    return b"".join((prefix, head, tail, b"\r\ncontent-length: %d\r\n\r\n" % len(body), body))


def encoded(attribute: str, content: bytes, headers: Headers) -> bytes:
    """Returns how the value of an attribute (lower case) is sent if it is not plain. Raises Unreadable if it is not
    text."""
    fault = fault_of_text(content)
    if fault:
        raise Unreadable(f"attribute '{shown(attribute)}' {fault}")
    if attribute in _URIS and not content.translate(None, _SAFE_IN_URI):
        raw = next((names for name, names in headers if name == RAW_URIS), None)
        if raw is not None and attribute.encode() in raw.split(b","):  # it came without header encoding
            return content
    return encode_value(content)


def is_structured(headers: Headers) -> bool:
    """Returns whether the content type says that the event is in the value."""
    return any(
        names_cloudevents(content)
        for name, content in headers
        if name and content and len(name) == len(_CONTENT_TYPE) and name.lower() == _CONTENT_TYPE
    )


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


def describe(headers: Headers) -> dict[str, str]:
    """Returns `id`, `source` and `type` of a record for a log line, truncated; "" if missing. Accepts any record."""
    texts = dict.fromkeys(_DESCRIBED, "")
    for name, content in headers:
        attribute = name[3:].lower() if isinstance(name, str) and name[:3].lower() == "ce_" else ""
        if attribute in texts and content and not texts[attribute]:
            texts[attribute] = content[: 4 * SHOWN_CHARS].decode("utf-8", "replace")[:SHOWN_CHARS]
    return texts


def _intern(name: str) -> bytes:
    """Returns the start of a header's line; b"" if it is not sent. Raises Unreadable for a bad name of an attribute."""
    if not isinstance(name, str):
        raise Unreadable("a header has no name")
    low = name.lower()
    line = b""
    if low[:3] == "ce_":
        # Of a name beyond ASCII, the lower case may be ASCII: the Kelvin sign becomes k.
        fault = fault_of_name(low[3:] if name.isascii() else name[3:])
        if fault:
            raise Unreadable(f"header '{shown(name)}' {fault}")
        line = b"\r\nce-%s: " % low[3:].encode()
    elif name.isascii() and (low == _CONTENT_TYPE or is_pass_through(low)):
        line = b"\r\n%s: " % low.encode()
    remember(_lines, name, line)
    return line


def _rest_of_head(rest: list[tuple[bytes, bytes | None]]) -> bytes:
    """Returns the lines of the content type and of plain headers that pass through. Raises Unreadable."""
    tail = b""
    typed = False
    for line, content in rest:
        if not line:
            continue
        text = (content or b"").strip(b" \t")
        fault = fault_of_text(text) if text.translate(None, _PRINTABLE) else None
        if line == _CONTENT_TYPE_LINE:
            if typed or fault:
                raise Unreadable(f"header 'content-type' {fault or 'appears twice'}")
            typed = True
            if text:
                tail += line + text
        # Drop a header with bytes that cannot be sent: a broken trace header must not stop the event.
        elif content is not None and not fault:
            tail += line + text
    return tail


def from_structured(headers: Headers, value: bytes | None) -> tuple[list[tuple[str, bytes | None]], bytes | None]:
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


def _is_ours(name: str) -> bool:
    """Returns whether this header belongs to a dead letter, and not to the event."""
    low = name.lower() if isinstance(name, str) else ""
    return low.startswith(("ce_knativeerror", "penstock-")) and low not in _OF_THE_EVENT
