"""HTTP messages to Kafka records, bytes to bytes: binary and structured mode, requests and replies.

In binary mode the body is opaque. Attribute values are decoded from their header encoding and otherwise kept as they
were received. Sizes are not limited here: the web driver does that.

For what senders repeat from one event to the next see `record_plan`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import unquote_to_bytes

from knative.cloudevents import json_format
from knative.cloudevents.attributes import (
    BadEvent,
    check,
    fault_of_name,
    fault_of_text,
    is_uri_reference,
    shown,
)
from knative.memo import remember

__all__ = [
    "RAW_URIS",
    "REPLY_DEPTH",
    "SAFE",
    "BadEvent",
    "decoded",
    "encode_value",
    "is_known_content_type",
    "is_pass_through",
    "is_plain",
    "is_raw_uri",
    "is_structured",
    "names_cloudevents",
    "read_reply",
    "record_names",
    "to_record",
]

Pairs = Sequence[tuple[bytes, bytes]]
Record = tuple[list[tuple[str, bytes]], bytes | None, bytes | None]

_STRUCTURED = b"application/cloudevents"

#: Bytes that are not encoded in an attribute's header: printable ASCII without space, `"` and `%`.
SAFE = bytes(code for code in range(0x21, 0x7F) if code not in b'%"')
#: Changes each byte that is not in `SAFE`, and no other. `translate` takes half as long with it as when it deletes.
_ODD_CHANGED = bytes(code if code in SAFE else SAFE[0] for code in range(256))
_ENCODED = [bytes((code,)) if code in SAFE else b"%%%02X" % code for code in range(256)]

_TYPE = "content-type"
#: Counts how many replies and deliveries to own addresses led to an event. It belongs to the event, also in its dead
#: letter; subscribers do not see it. Requests of the installation to itself have it.
REPLY_DEPTH = "penstock-reply-depth"
#: Record header that names the URI attributes (separated by commas) which came without header encoding. They leave in
#: the same form.
RAW_URIS = "penstock-raw-uris"
_URIS = ("ce_source", "ce_dataschema")
_URIS_0_3 = ("ce_source", "ce_schemaurl")

_backslash = re.compile(rb"\\(.)", re.DOTALL)
_pass_through = re.compile(r"traceparent|tracestate|x-request-id|(?:knative-|x-b3-)[a-z0-9!#$&'*+.^_`|~%-]+").fullmatch
_charset = re.compile(rb";\s*charset\s*=\s*\"?([^\s;\"]*)", re.IGNORECASE).search

#: Header name as on the wire -> record header name; "" = the header is dropped.
_names: dict[bytes, str] = {}
#: Content-Type as on the wire -> as it is stored. Only valid ones that are not structured.
_content_types: dict[bytes, bytes] = {}


def to_record(pairs: Pairs, body: bytes | None) -> Record:
    """Returns (record headers, key, value) of a request's headers and body. Raises BadEvent.

    `body` None means no body (null value); b"" is data of length 0 if there is a content type, else no data. The record
    headers also hold the plain headers that pass through (`is_pass_through`), in lower case.
    """
    record: dict[str, bytes] = {}
    ignored = 0
    names = _names
    for raw, value in pairs:
        try:
            name = names[raw]
        except KeyError:
            name = _intern(raw, pairs)
        if name:
            record[name] = value
        else:
            ignored += 1
    if len(record) + ignored != len(pairs):  # a dict keeps one of two equal names
        record = _merged(pairs)
    raw_type = record.pop("content-type", None)
    content_type = raw_type
    if raw_type is not None:
        content_type = _content_types.get(raw_type)
        if content_type is None:
            content_type = _content_type(raw_type)
            if content_type is None:
                return _structured(record, raw_type, body)
    joined = b"\n".join(record.values())
    # One call finds out whether any value needs decoding: only the separators may be left when safe bytes are removed.
    if len(joined.translate(None, SAFE)) >= len(record):
        _decode(record)
    key = check(record)
    if content_type is not None:
        record["content-type"] = content_type
    return list(record.items()), key, body if body or content_type is not None else None


def record_names(pairs: Pairs) -> list[str]:
    """Returns for each header of a valid request its name in the record; "" for one that is dropped."""
    return [_names.get(raw) or _intern(raw, pairs) for raw, _ in pairs]


def is_plain(value: bytes) -> bool:
    """Returns whether a header value needs no decoding."""
    return value.translate(_ODD_CHANGED) == value


def is_known_content_type(value: bytes) -> bool:
    """Returns whether this content type has been accepted before, is stored as it is, and is not structured."""
    return _content_types.get(value) == value


def read_reply(pairs: Pairs, body: bytes) -> Record | None:
    """Returns (record headers, key, value) of a subscriber's answer, or None if it does not claim to be an event.

    A CloudEvents media type or a `ce-specversion` header is such a claim. Raises BadEvent if the event is not valid.
    """
    for raw, value in pairs:
        name = raw.lower()
        if name == b"ce-specversion" or (name == b"content-type" and names_cloudevents(value)):
            return to_record(pairs, body)
    return None


def is_pass_through(name: str) -> bool:
    """Returns whether this is a plain header (lower-case name) that is stored in the record and sent on delivery."""
    return _pass_through(name) is not None


def names_cloudevents(content_type: bytes) -> bool:
    """Returns whether this is the content type of a structured event, or of a batch."""
    return content_type.lstrip(b" \t")[: len(_STRUCTURED)].lower() == _STRUCTURED


def encode_value(value: bytes) -> bytes:
    """Returns an attribute's text as a header value: all but U+0021-U+007E is percent-encoded, and `"` and `%`."""
    if is_plain(value):
        return value
    return b"".join(map(_ENCODED.__getitem__, value))


def _content_type(raw: bytes) -> bytes | None:
    """Returns the content type as it is stored; None for the media type of a structured event. Raises BadEvent."""
    text = raw.strip(b" \t")
    if names_cloudevents(text):
        return None
    fault = fault_of_text(text) if text else "is empty; leave the content-type header out instead"
    if fault:
        raise BadEvent("datacontenttype", fault)
    remember(_content_types, raw, text)
    return text


def _intern(raw: bytes, pairs: Pairs) -> str:
    """Returns the record header name of a header that is not in the table. Raises BadEvent for a bad attribute name."""
    low = raw.lower().decode("latin-1")
    if low.startswith("ce-"):
        fault = fault_of_name(low[3:])
        if fault:
            if is_structured(pairs):
                return ""  # in structured mode the envelope counts, not the headers
            raise BadEvent(shown(low[3:]) or "ce-", fault)
        name = "ce_" + low[3:]
    else:
        name = low if low in (_TYPE, REPLY_DEPTH) or _pass_through(low) else ""
    remember(_names, raw, name)
    return name


def is_structured(pairs: Pairs) -> bool:
    """Returns whether the content type says that the event is in the body."""
    return any(raw.lower() == b"content-type" and names_cloudevents(value) for raw, value in pairs)


def _merged(pairs: Pairs) -> dict[str, bytes]:
    """Returns headers of which some are repeated: attributes must not be, others become a list (RFC 9110, 5.3)."""
    record: dict[str, bytes] = {}
    structured = is_structured(pairs)
    for raw, value in pairs:
        name = _names.get(raw) or _intern(raw, pairs)
        if not name:
            continue
        if name not in record:
            record[name] = value
        elif name == "content-type":
            raise BadEvent("datacontenttype", "is in two content-type headers")
        elif not name.startswith("ce_"):
            record[name] += b", " + value
        elif not structured:
            raise BadEvent(shown(name[3:]), "appears twice")
    return record


def is_raw_uri(text: bytes) -> bool:
    """Returns whether this URI attribute of a header is the URI itself, as most SDKs send it, not its encoding.

    By the letter each `%` of the URI is sent as `%25`. Anything else is an escape of the URI, and so is a `%25` that
    stands for no escape: a lone `%` is not valid in a URI.
    """
    return text.count(b"%") != text.count(b"%25") or not is_uri_reference(unquote_to_bytes(text))


def _unquoted(text: bytes) -> bytes:
    return _backslash.sub(rb"\1", text[1:-1]) if len(text) > 1 and text[:1] == b'"' == text[-1:] else text


def decoded(name: str, text: bytes) -> bytes:
    """Returns what the value of a header stands for. `name`: in the record. It may not be valid text, and not for a URI
    that is raw."""
    if name[:3] != "ce_":
        return text.replace(b"\t", b" ")  # a tab is legal between the parts of a list, but not in our text
    text = _unquoted(text)
    return unquote_to_bytes(text) if b"%" in text else text


def _decode(record: dict[str, bytes]) -> None:
    """Decode the attributes in place. Raises BadEvent for values that are not valid text."""
    raw_uris = []
    uris = _URIS_0_3 if record.get("ce_specversion") == b"0.3" else _URIS
    for name, value in record.items():
        text = value.strip(b" \t")
        if not is_plain(text):
            if name in uris and b"%" in (uri := _unquoted(text)) and is_raw_uri(uri):
                raw_uris.append(name[3:].encode())
                text = uri
            else:
                text = decoded(name, text)
            fault = fault_of_text(text)
            if fault:
                raise BadEvent(shown(name.removeprefix("ce_")), fault)
        record[name] = text
    if raw_uris:
        record[RAW_URIS] = b",".join(raw_uris)


def _structured(record: dict[str, bytes], content_type: bytes, body: bytes | None) -> Record:
    """Structured mode: the envelope is the event and `ce-` headers are ignored; plain headers pass through."""
    check_format(content_type)
    event, value = json_format.read(body)
    plain = {name: text for name, text in record.items() if not name.startswith("ce_")}
    _decode(plain)
    key = check(event)
    event.update(plain)
    return list(event.items()), key, value


def check_format(content_type: bytes) -> None:
    """Raises BadEvent unless a CloudEvents media type is the one supported format: JSON in UTF-8."""
    media_type = content_type.partition(b";")[0].strip().lower()
    if media_type.startswith(b"application/cloudevents-batch"):
        raise BadEvent("", "batches are not accepted: send one event per request")
    if media_type != b"application/cloudevents+json":
        raise BadEvent("", "unknown structured format: only application/cloudevents+json is supported")
    charset = _charset(content_type)
    if charset and charset[1].lower() not in (b"utf-8", b"utf8"):
        raise BadEvent("", "the charset of a structured event must be utf-8")
