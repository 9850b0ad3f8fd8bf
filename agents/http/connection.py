"""One HTTP/1.1 connection of a sender: writes a request, reads its answer, says how it ended.

A protocol of callbacks around httptools' response parser; one request at a time. It is the place for everything that
an answer can be: informational ones before the final one, bodies that end with the connection or do not end at all,
bytes that nobody asked for. Memory is bounded by two limits whatever is sent: `head_bytes_max` on bytes that are no
body (headers, trailers, chunk extensions, informational answers; looked at every 16 KiB) and `body_bytes_max`, which
is 8 KiB for an answer that fails the attempt.

Refuses to connect, to keep time and to choose what happens to a failed attempt: its owner does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, cast

from httptools import HttpParserCallbackError, HttpParserError, HttpParserUpgrade, HttpResponseParser

from agents.http.connector import SendError
from knative.delivery.verdicts import may_claim_event

Pairs = list[tuple[bytes, bytes]]

#: Called exactly once for each request: the final status and its headers and body, or why there is none.
Done = Callable[[int | SendError, Pairs | None, bytes], None]

#: Answers are parsed in pieces of this size, so that a limit is looked at between two pieces.
_PIECE_BYTES = 16_384
#: Of an answer that fails the attempt no more is read: a dead letter quotes 768 bytes of it.
FAILURE_BYTES_MAX = 8_192


class ConnectionListener(Protocol):
    """Who a connection reports to. Each request ends with exactly one of `answered`, `failed` and `stale`."""

    head_bytes_max: int
    body_bytes_max: int

    def opened(self, connection: Connection) -> None:
        """Connected (TLS included)."""

    def answered(self, connection: Connection, keep: bool) -> None:
        """The answer is complete; it is handed to `done` right after this."""

    def failed(self, connection: Connection, error: SendError) -> None:
        """The request will not be answered; `connection.done` is still there."""

    def stale(self, connection: Connection) -> None:
        """A connection that had been used before was lost before a byte of the answer; `request` is still there."""

    def unwanted(self, connection: Connection) -> None:
        """A connection without a request was closed by the peer, or said something."""

    def lost(self, connection: Connection) -> None:
        """The socket is closed. The last call."""


#: How far an answer has come.
_UNHEARD, _HEAD, _BODY, _INFORMED, _ENDED = range(
    5
)  # _INFORMED: an informational answer came, the final one has not begun


class _NoMore(Exception):
    """Stops the parser."""


class Connection(asyncio.Protocol):
    """See the module's docstring. Between two requests `done` is None."""

    __slots__ = (
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
        self._body: bytes | bytearray = b""
        self._used = False
        self._over_limit = False
        self.done: Done | None = None
        self.request = b""
        self.deadline = 0.0  #: only of interest while there is a request
        self.idle_since = 0.0

    def send(self, request: bytes, done: Done, deadline: float) -> None:
        """Write a complete request. The connection must have none in flight."""
        self.request = request
        self.done = done
        self.deadline = deadline
        self._head_bytes = 0
        self._state = _UNHEARD
        self._transport.write(request)

    def take(self) -> Done | None:
        """End the request: gives its callback to whoever is going to call it."""
        done, self.done = self.done, None
        self.request = b""
        self._body = b""
        return done

    def abort(self) -> None:
        """Close the socket at once, without TLS's good-bye, which a peer could draw out."""
        self._transport.abort()

    def is_closing(self) -> bool:
        """True once the socket is closed or about to be."""
        return self._transport.is_closing()

    # -- transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._parser: Any = HttpResponseParser(self)
        self._listener.opened(self)

    def data_received(self, data: bytes) -> None:
        if self.done is None:
            self._listener.unwanted(self)
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
        if self._state == _ENDED:
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
        self._parser = None  # it refers back to this object; the garbage collector runs rarely
        self._listener.lost(self)

    # -- parser

    def on_message_begin(self) -> None:
        if self._state == _ENDED:
            raise _NoMore
        self._state = _HEAD
        self._headers: Pairs = []

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._state == _HEAD:  # trailers are dropped: they must not pass for headers
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._state = _BODY

    def on_body(self, data: bytes) -> None:
        self._head_bytes = 0
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
            self._body = data
        elif isinstance(body, bytearray):
            body += data
        else:
            self._body = bytearray(body) + data  # from the second piece on: adding bytes to bytes copies all of them
            self._over_limit = self._over_limit or self._declares_too_much()
        if self._over_limit:
            raise _NoMore

    def on_message_complete(self) -> None:
        parser = self._parser
        self._status = status = parser.get_status_code()
        if status < 200 and 100 <= status != 101:
            self._state = _INFORMED
            return
        self._keep = parser.should_keep_alive() and status != 101
        self._state = _ENDED

    def _declares_too_much(self) -> bool:
        """There is no need to read as far as the limit to know that the attempt has failed. A 2xx that cannot hold an
        event is a success at the limit, and until then it may still time out."""
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
            if self._head_bytes > self._listener.head_bytes_max and self._state != _ENDED:
                return

    def _stopped(self, error: Exception) -> None:
        """The parser takes no more: by our wish, or because this is no HTTP."""
        if self._state == _ENDED:  # bytes after the answer: it stands, the connection does not
            self._finish(False)
        elif self._over_limit:
            self._abort()
        elif isinstance(error, HttpParserCallbackError):
            raise error  # our own mistake
        else:
            self._listener.failed(self, SendError("read", f"the answer is no HTTP/1.1: {error}"))

    def _abort(self) -> None:
        """A body over the limit: no matter unless it may be an event, which would be cut short."""
        self._status = self._parser.get_status_code()
        if _may_hold_event(self._status, self._headers):
            self._listener.failed(self, SendError("read", f"the reply is over {self._listener.body_bytes_max} bytes"))
        else:
            self._finish(False)

    def _fail_head(self) -> None:
        what = (
            f"the answer has over {self._listener.head_bytes_max} bytes of headers (or trailers, or chunk extensions)"
        )
        self._listener.failed(self, SendError("read", what))

    def _end_of_input(self, exc: Exception | None) -> None:
        heard = self._head_bytes or self._body
        state = self._state
        if not heard and self._used:
            self._listener.stale(self)
        elif exc is None and state == _BODY and self._ends_with_connection():
            self._status = self._parser.get_status_code()
            self._finish(False)
        else:
            what = "in the middle of the answer" if heard else "before an answer"
            if state == _INFORMED:  # more was to come: what the subscriber did with the event is not known
                what = "after an interim answer, before the final one"
            self._listener.failed(self, SendError("read", f"connection lost {what}" + (f": {exc}" if exc else "")))

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
            if _may_hold_event(status, self._headers) and self._is_coded():
                self._listener.failed(self, SendError("read", "the reply has a transfer coding other than chunked"))
                return
            self._body = b""
        if keep and self._transport.get_write_buffer_size():
            keep = False  # answered before the request was taken: its rest must not come before the next one
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
    """False where the body does not matter for what the answer means."""
    return 200 <= status < 300 and status != 202 and may_claim_event(headers)
