"""One HTTP/1.1 connection of a pool: writes a request, reads the answer and reports the result.

    NOTHING --> HEAD --> BODY --> ENDED --next request--> NOTHING
                  ^        |                                 |
                  |        v                                 `--the same bytes as before--> ENDED
                  +---- INTERIM

An asyncio protocol around httptools' response parser, with one request at a time. It handles every kind of answer:
interim ones before the final one, bodies that end with the connection or never, and bytes without a request. Most
answers repeat the one before, byte for byte, and are not parsed again. Two limits bound its memory: `head_bytes_max`
for bytes outside of bodies (headers, trailers, chunk extensions, interim answers; checked every 16 KiB), and
`body_bytes_max`, which is 8 KiB for an answer that fails the attempt.

The pool connects, keeps the time, and decides what happens after a failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Protocol, cast

from httptools import HttpParserCallbackError, HttpParserError, HttpParserUpgrade, HttpResponseParser

from agents.http.connector import SendError
from knative.delivery.verdicts import SendProblem, may_claim_event
from knative.memo import ENTRY_BYTES_MAX

Pairs = list[tuple[bytes, bytes]]

#: Called exactly once for each request: with the final status, its headers and body, or with the error.
Done = Callable[[int | SendError, Pairs | None, bytes], None]

#: Answers are parsed in pieces of this size, so that limits are checked between two pieces.
_PIECE_BYTES = 16_384
#: Bytes to read of an answer that fails the attempt; a dead letter quotes 768 of them.
FAILURE_BYTES_MAX = 8_192


class ConnectionListener(Protocol):
    """Gets the events of a connection. Each request ends with exactly one of `answered`, `failed` and `stale`."""

    head_bytes_max: int
    body_bytes_max: int

    def answered(self, connection: Connection, keep: bool) -> None:
        """The answer is complete; the connection calls `done` right after this. `keep`: it can take another request."""

    def failed(self, connection: Connection, error: SendError) -> None:
        """The request gets no answer; `connection.done` is still set."""

    def stale(self, connection: Connection) -> None:
        """A connection with earlier requests was lost before a byte of this answer; `request` is still set."""

    def unwanted(self, connection: Connection) -> None:
        """The peer closed a connection without a request, or sent bytes on it."""

    def lost(self, connection: Connection) -> None:
        """The socket is closed. No call follows."""


class AnswerState(Enum):
    """What has been read of the answer to the latest request."""

    NOTHING = "no line of it"
    HEAD = "a part of its head"
    BODY = "its head, and perhaps a part of its body"
    INTERIM = "an interim answer (1xx); the final one has not begun"
    ENDED = "all of it"


_NOTHING, _HEAD, _BODY, _INTERIM, _ENDED = AnswerState

#: A request that fails leaves the state as it is, because its connection is not used again.
TRANSITIONS: Mapping[AnswerState, frozenset[AnswerState]] = {
    _NOTHING: frozenset({_HEAD, _ENDED}),
    _HEAD: frozenset({_BODY}),
    _BODY: frozenset({_INTERIM, _ENDED}),
    _INTERIM: frozenset({_HEAD}),
    _ENDED: frozenset({_NOTHING}),
}


class _NoMore(Exception):
    """Stops the parser."""


class Connection(asyncio.Protocol):
    """See the module docstring. `done` is None between two requests."""

    __slots__ = (
        "_answer",
        "_answer_body",
        "_body",
        "_body_max",
        "_head_bytes",
        "_headers",
        "_keep",
        "_listener",
        "_over_limit",
        "_parser",
        "_state",
        "_status",
        "_transport",
        "_used",
        "deadline",
        "done",
        "idle_since",
        "request",
    )

    def __init__(self, owner: ConnectionListener) -> None:
        self._listener = owner
        self._state = AnswerState.ENDED  # of no request: the first one begins as every other
        self._body: bytes | bytearray = b""
        #: The latest, if the next may be compared with it: `_status`, `_headers` and `_keep` are its own.
        self._answer = b""
        self._answer_body: bytes | bytearray = b""
        self._used = False  # an answer was read on this connection before
        self._over_limit = False  # the body is longer than its limit, and is not read on
        self.done: Done | None = None
        self.request = b""
        self.deadline = 0.0  #: only meaningful while there is a request
        self.idle_since = 0.0

    def send(self, request: bytes, done: Done, deadline: float) -> None:
        """Write a complete request. The connection must not have one in flight."""
        self.request = request
        self.done = done
        self.deadline = deadline
        self._head_bytes = 0
        self._state = _NOTHING
        self._transport.write(request)

    def take(self) -> Done:
        """End the request and return its callback, which the caller must call."""
        done, self.done = self.done, None
        assert done is not None, "the caller has looked"
        self.request = b""
        self._body = b""
        return done

    def abort(self) -> None:
        """Close the socket at once, without the TLS closing handshake, which a peer could delay."""
        self._transport.abort()

    def is_closing(self) -> bool:
        """Returns whether the socket is closed or closing."""
        return self._transport.is_closing()

    # -- transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._parser: Any = HttpResponseParser(self)

    def data_received(self, data: bytes) -> None:
        if self.done is None:  # an answer without a request would be taken for that of the next request
            self._listener.unwanted(self)
            return
        is_first = self._state is _NOTHING
        if is_first and data == self._answer:  # the parser is where it was then, and would make the same of it
            self._body = self._answer_body
            self._state = _ENDED
            self._finish(self._keep)
            return
        try:
            if len(data) <= _PIECE_BYTES:
                self._head_bytes += len(data)
                self._parser.feed_data(data)
            else:
                self._feed_pieces(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self._stopped(error)
            return
        if self._state is _ENDED:
            self._answer = data if is_first and len(data) <= ENTRY_BYTES_MAX else b""
            self._answer_body = self._body if self._answer else b""
            self._finish(self._keep)
        elif self._head_bytes > self._listener.head_bytes_max:
            self._fail_head()

    def eof_received(self) -> None:
        if self.done is None:
            self._listener.unwanted(self)
        else:
            self._end_of_input(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.done is not None:
            self._end_of_input(exc)
        self._parser = None  # breaks a reference cycle; the garbage collector runs rarely
        self._listener.lost(self)

    # -- parser

    def on_message_begin(self) -> None:
        if self._state is _ENDED:  # a second answer to one request: `_stopped` keeps the first and closes
            raise _NoMore
        self._state = _HEAD
        self._headers: Pairs = []

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._state is _HEAD:  # not for trailers: they must not be taken for headers
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._state = _BODY

    def on_body(self, data: bytes) -> None:
        self._head_bytes = 0  # counts what comes between body bytes, so a long chunked body does not add up
        body = self._body
        if not body:
            self._body_max = self._listener.body_bytes_max
            if self._parser.get_status_code() >= 300:
                self._body_max = min(self._body_max, FAILURE_BYTES_MAX)
        room = self._body_max - len(body)
        if len(data) > room:
            data = data[:room]
            self._over_limit = True
        if not body:
            self._body = data  # most answers have one piece: no copy
        elif isinstance(body, bytearray):
            body += data
        else:
            # From the second piece on a bytearray: bytes + bytes would copy everything for each piece.
            self._body = bytearray(body) + data
            self._over_limit = self._over_limit or self._declares_too_much()
        if self._over_limit:
            raise _NoMore

    def on_message_complete(self) -> None:
        parser = self._parser
        self._status = status = parser.get_status_code()
        if status < 200 and 100 <= status != 101:  # 101 is final: the protocol changes after it
            self._state = _INTERIM
            return
        self._keep = parser.should_keep_alive() and status != 101
        self._state = _ENDED

    def _declares_too_much(self) -> bool:
        """Returns whether `content-length` alone shows that the body will exceed its limit: the rest need not be read.

        Not for a 2xx that cannot hold an event: it counts as a success at the limit, and may time out before that.
        """
        status = self._parser.get_status_code()
        if status < 300 and not _may_hold_event(status, self._headers):
            return False
        lengths = [value for name, value in self._headers if name.lower() == b"content-length"]
        return bool(lengths) and int(lengths[0]) > self._body_max

    # -- how a request ends

    def _feed_pieces(self, data: bytes) -> None:
        view = memoryview(data)
        for start in range(0, len(data), _PIECE_BYTES):
            piece = view[start : start + _PIECE_BYTES]
            self._head_bytes += len(piece)
            self._parser.feed_data(piece)
            if self._head_bytes > self._listener.head_bytes_max and self._state is not _ENDED:
                return  # `data_received` fails the request

    def _stopped(self, error: Exception) -> None:
        """The parser has stopped: one of our callbacks raised, or the bytes are not valid HTTP."""
        if self._state is _ENDED:  # bytes after the answer: the answer is valid, the connection is not usable any more
            self._finish(False)
        elif self._over_limit:
            self._abort()
        elif isinstance(error, HttpParserCallbackError):
            raise error  # a bug in a callback
        else:
            self._unreadable(f"the answer is not valid HTTP/1.1: {error}")

    def _abort(self) -> None:
        """The body is over its limit. That only matters if it may be an event, which would be incomplete."""
        self._status = self._parser.get_status_code()
        if _may_hold_event(self._status, self._headers):
            self._unreadable(f"the reply has more than {self._listener.body_bytes_max} bytes")
        else:
            self._finish(False)

    def _fail_head(self) -> None:
        what = (
            f"the answer has more than {self._listener.head_bytes_max} bytes of headers (or trailers, or chunk "
            "extensions)"
        )
        self._unreadable(what)

    def _end_of_input(self, exc: Exception | None) -> None:
        received = self._head_bytes or self._body
        state = self._state
        if not received and self._used:
            self._listener.stale(self)
        elif exc is None and state is _BODY and self._ends_with_connection():  # the end of the body, not a loss
            self._status = self._parser.get_status_code()
            self._finish(False)
        else:
            what = "in the middle of the answer" if received else "before an answer"
            if state is _INTERIM:  # the subscriber has the event, but what it did with it is not known
                what = "after an interim answer, before the final one"
            self._unreadable(f"the connection was lost {what}" + (f": {exc}" if exc else ""))

    def _unreadable(self, why: str) -> None:
        self._listener.failed(self, SendError(SendProblem.READ, why))

    def _ends_with_connection(self) -> bool:
        for name, value in self._headers:
            low = name.lower()
            if low == b"content-length" or (low == b"transfer-encoding" and b"chunked" in value.lower()):
                return False
        return True

    def _finish(self, keep: bool) -> None:
        status = self._status
        body = self._body
        if body:
            # httptools removes only `chunked`: with another transfer coding the body is not the data of the event.
            if _may_hold_event(status, self._headers) and self._is_coded():
                self._unreadable("the reply has a transfer coding other than chunked")
                return
            self._body = b""
        if keep and self._transport.get_write_buffer_size():
            keep = False  # answered before it read the whole request: the rest would precede the next request
        # First free the connection and report to the pool, then call `done`: it may post again, on this connection.
        done = self.done
        headers = self._headers
        self.done = None
        self.request = b""
        self._used = True
        self._listener.answered(self, keep)
        assert done is not None
        done(status, headers, body if type(body) is bytes else bytes(body))

    def _is_coded(self) -> bool:
        return any(
            name.lower() == b"transfer-encoding" and value.lower() != b"chunked" for name, value in self._headers
        )


def _may_hold_event(status: int, headers: Pairs) -> bool:
    """Returns False when the body cannot change what the answer means."""
    return 200 <= status < 300 and status != 202 and may_claim_event(headers)
