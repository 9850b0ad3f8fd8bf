"""The states of a connection and of its reader, and which may follow which.

    READING --whole request--> BUSY --finish()--> READING
       |                         |
       +--------refused------> LINGER -----> CLOSED <----- any state: the transport is closed

While a connection is READING, the state of its reader says how much of a request has arrived:

    IDLE --first bytes--> HEAD --blank line--> BODY --last byte--> COMPLETE --take()--> IDLE
     any state: rejected, or the connection is closed --> CLOSED

A state may be skipped: an ordinary request goes from IDLE to COMPLETE at once. The hot path does not look the tables
up; tests check every change against them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class ReaderState(Enum):
    """How much of a request has arrived."""

    IDLE = "nothing"
    HEAD = "a part of the head"
    BODY = "the head, and perhaps a part of the body"
    COMPLETE = "all of it; nothing is read until it is taken"
    CLOSED = "nothing more is read, and no memory is held"


class ConnectionState(Enum):
    """What a connection is doing."""

    READING = "the next request has not arrived, or not completely"
    BUSY = "one request is in progress"
    LINGER = "the last answer was sent, and what the client still sends is discarded"
    CLOSED = "nothing is read or written any more"


_R, _C = ReaderState, ConnectionState

READER: Mapping[ReaderState, frozenset[ReaderState]] = {
    _R.IDLE: frozenset({_R.HEAD, _R.BODY, _R.COMPLETE, _R.CLOSED}),
    _R.HEAD: frozenset({_R.BODY, _R.COMPLETE, _R.CLOSED}),
    _R.BODY: frozenset({_R.COMPLETE, _R.CLOSED}),
    _R.COMPLETE: frozenset({_R.IDLE, _R.CLOSED}),
    _R.CLOSED: frozenset({_R.CLOSED}),
}

CONNECTION: Mapping[ConnectionState, frozenset[ConnectionState]] = {
    _C.READING: frozenset({_C.BUSY, _C.LINGER, _C.CLOSED}),
    # To LINGER: the answer says `connection: close`, or the request failed before it reached a view.
    _C.BUSY: frozenset({_C.READING, _C.LINGER, _C.CLOSED}),
    _C.LINGER: frozenset({_C.CLOSED}),
    _C.CLOSED: frozenset({_C.CLOSED}),
}
