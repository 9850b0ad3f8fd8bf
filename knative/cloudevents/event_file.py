"""Reads an event from a file: a CloudEvent as JSON (structured mode), or an HTTP request as text (either mode).

    {"specversion": "1.0", "id": "1", ...}            a JSON object

    POST /default/shop HTTP/1.1                       this line may be missing
    ce-id: 1
    content-type: application/json

    {"amount": 7}                                     the body; may be missing

The rules for events are those of ingress. Pure.
"""

from __future__ import annotations

import re

from knative.cloudevents.attributes import BadEvent
from knative.cloudevents.http_binding import Record, to_record
from knative.errors import UsageError

_JSON = [(b"content-type", b"application/cloudevents+json")]
_FIRST_LINE = re.compile(rb"[A-Z]+ \S+( HTTP/\d(\.\d)?)?|HTTP/\d(\.\d)? \d{3}( .*)?").fullmatch
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*)").fullmatch
_END = re.compile(rb"\r?\n")
_FORMS = "Write a CloudEvent as a JSON object, or headers such as `ce-id: 1`, an empty line, and the body."


def read_event(content: bytes, name: str) -> Record:
    """Returns headers, key and value of the event's record. `name`: of the file, for errors.

    Raises UsageError if this is not an event; the message names the file and the line or the attribute.
    """
    text = content.removeprefix(b"\xef\xbb\xbf")
    start = text.lstrip()[:1]
    if not start:
        raise UsageError(f"{name} is empty.", _FORMS)
    if start == b"[":
        raise UsageError(
            f"{name} contains a JSON array, but must contain a single event.", "Write a single event, without [ ]."
        )
    try:
        if start == b"{":
            return to_record(_JSON, text)
        return to_record(*_request(text.lstrip(b"\r\n"), name))
    except BadEvent as problem:
        raise UsageError(f"{name} is not a valid CloudEvent: {problem}.", "Correct the event.") from None


def _request(text: bytes, name: str) -> tuple[list[tuple[bytes, bytes]], bytes | None]:
    """Returns the headers and the body of an HTTP request."""
    headers: list[tuple[bytes, bytes]] = []
    at = number = 0
    while at < len(text):
        number += 1
        end = _END.search(text, at)
        line, at = (text[at:], len(text)) if end is None else (text[at : end.start()], end.end())
        if not line:
            break
        header = _HEADER(line)
        if header is not None:
            headers.append((header[1], header[2].rstrip(b" \t")))
        elif number > 1 or _FIRST_LINE(line) is None:
            start = ascii(line[:60].decode("utf-8", "replace"))
            raise UsageError(f"{name}, line {number}: {start} is not a header.", _FORMS)
    return headers, text[at:] or None
