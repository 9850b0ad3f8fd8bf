"""W3C trace context in headers: reads the trace that an event belongs to, and replaces its parent span.

Malformed headers count as absent, as the standard requires: an invalid traceparent is not an error, it starts a new
trace. The caller creates the ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import AnyStr

from knative.ports import Headers

PARENT = "traceparent"
STATE = "tracestate"

_traceparent = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[!-~]*)?").fullmatch
_NO_TRACE, _NO_SPAN = b"0" * 32, b"0" * 16
_LENGTHS = (len(PARENT), len(STATE))


@dataclass(frozen=True, slots=True)
class Parent:
    """A span of another process. `state` is a `tracestate` as received, not checked; "" = none."""

    trace_id: str  #: 32 hexadecimal digits
    span_id: str  #: 16 hexadecimal digits
    flags: int  #: bit 0: sampled
    state: str = ""


def parent_in_record(headers: Headers) -> Parent | None:
    """Returns the parent in a record's plain headers; None if there is none, more than one, or a malformed one."""
    return _parent(headers, PARENT, STATE)


def parent_in_request(pairs: Iterable[tuple[bytes, bytes]]) -> Parent | None:
    """Returns the parent in the headers of a request; None in the same cases as for a record."""
    return _parent(pairs, PARENT.encode(), STATE.encode())


def trace_id(headers: Headers) -> str:
    """Returns the trace id of a record for a log line; "" if it has no valid parent."""
    parent = parent_in_record(headers)
    return "" if parent is None else parent.trace_id


def with_context(headers: Headers, traceparent: bytes, tracestate: bytes) -> list[tuple[str, bytes | None]]:
    """Returns record headers with another parent; `tracestate` b"" = none. All other headers are kept."""
    kept = [header for header in headers if len(header[0]) not in _LENGTHS or header[0].lower() not in (PARENT, STATE)]
    kept.append((PARENT, traceparent))
    if tracestate:
        kept.append((STATE, tracestate))
    return kept


def _parent(headers: Iterable[tuple[AnyStr, bytes | None]], parent_name: AnyStr, state_name: AnyStr) -> Parent | None:
    parents: list[bytes] = []
    states: list[bytes] = []
    for name, content in headers:
        if len(name) in _LENGTHS and content:
            low = name.lower()
            if low == parent_name:
                parents.append(content)
            elif low == state_name:
                states.append(content)
    if len(parents) != 1:
        return None
    match = _traceparent(parents[0].strip(b" \t"))
    if match is None:
        return None
    version, trace, span, flags, more = match.groups()
    if version == b"ff" or (version == b"00" and more) or trace == _NO_TRACE or span == _NO_SPAN:
        return None
    state = b",".join(states).decode("latin-1")
    return Parent(trace.decode(), span.decode(), int(flags, 16), state)
