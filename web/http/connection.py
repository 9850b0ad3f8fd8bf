"""One HTTP/1.1 connection: bytes to whole requests, one at a time, and one answer for each, in order.

At most one request is in progress. What the client sends ahead is not parsed, and reading pauses, until its turn. So
pipelining is ordered and bounded, and rejecting a request does not lose earlier answers. After the answer to a rejected
request the connection is half-closed, and what still arrives is read for a while (LINGER). Otherwise a client that is
still sending would get a TCP reset instead of the answer.

Connections have no tasks or timers: the server sweeps over all connections to check deadlines.
"""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

import structlog

from web.http.config import DriverConfig, HttpRejection
from web.http.messages import problem, with_close
from web.http.raw_request import RawRequest
from web.http.request_reader import RequestReader
from web.http.state import ConnectionState, ReaderState

log = structlog.get_logger(__name__)

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


READING, BUSY, LINGER, CLOSED = ConnectionState
_COMPLETE, _IDLE, _HEAD, _BODY = ReaderState.COMPLETE, ReaderState.IDLE, ReaderState.HEAD, ReaderState.BODY


class Server(Protocol):
    """What a connection needs from the server it belongs to."""

    config: DriverConfig
    now: float  #: seconds, monotonic, as of the last sweep
    draining: bool
    receiving_bytes: int  #: of incomplete requests of all connections

    def opened(self, connection: Connection) -> bool:
        """A connection was opened. False: there are too many."""

    def closed(self, connection: Connection) -> None:
        """A connection was closed."""

    def refused(self, status: int) -> None:
        """A request was rejected before any View saw it."""

    def dispatch(self, connection: Connection, request: RawRequest) -> None:
        """Have a request answered: `connection.finish` is called exactly once for it. Never raises."""


class Connection(asyncio.Protocol):
    """One client."""

    __slots__ = (
        "__weakref__",
        "_config",
        "_eof",
        "_held_bytes",
        "_lingered_bytes",
        "_moved",
        "_pumping",
        "_reader",
        "_reading",
        "_received_bytes",
        "_rest",
        "_rest_start",
        "_server",
        "_since",
        "_transport",
        "_writable",
        "state",
    )

    def __init__(self, server: Server) -> None:
        self._config = server.config
        self._server = server
        self._reader = RequestReader(server.config)
        self.state = READING
        self._since = self._moved = server.now  #: when its state or the reader's began; when bytes last moved
        self._transport = cast(asyncio.Transport, None)  # set by connection_made, before anything else is called
        self._rest, self._rest_start = b"", 0  #: received bytes, and where the part starts that is not parsed yet
        self._pumping = self._eof = False
        self._reading = self._writable = True
        self._lingered_bytes = self._received_bytes = 0
        self._held_bytes = 0  #: what the incomplete request takes in memory

    # -- the transport -------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected."""
        self._transport = cast(asyncio.Transport, transport)
        if not self._server.opened(self):
            self.refuse(_too_busy(503, "too many connections", self._config))

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed. Answers from now on are dropped."""
        self.state = CLOSED
        self._rest = b""
        self._release()
        self._reader.close()
        self._server.closed(self)

    def eof_received(self) -> bool:
        """The client sends nothing more. Returns whether to stay open, to answer the requests that it sent."""
        self._eof = True
        # With TLS a connection cannot be half-closed.
        return (self.state is BUSY or bool(self._rest)) and self._transport.can_write_eof()

    def pause_writing(self) -> None:
        """The client reads its answers too slowly: start no new request."""
        self._writable = False
        self._moved = self._server.now

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._writable = True
        self._resume()

    def data_received(self, data: bytes) -> None:
        """Bytes arrived."""
        state = self.state
        if state is READING and not self._rest and self._writable:
            self._pump(data, 0)
        elif state is LINGER:
            self._lingered_bytes += len(data)
            if self._lingered_bytes > self._config.linger_bytes_max:
                self._transport.abort()
        elif state is not CLOSED:
            self._hold(data, 0)

    @property
    def address(self) -> str:
        """The address of the client, without its port; "" if it is not known."""
        peer = self._transport.get_extra_info("peername")
        return str(peer[0]) if peer else ""

    # -- answers -------------------------------------------------------------------------------------------------------

    def finish(self, wire: bytes, keep: bool) -> None:
        """Send the answer (complete, as bytes) to the current request. Call it exactly once per dispatched request."""
        if self.state is not BUSY:
            if self.state is READING:
                log.error("request was answered twice", answer=wire[:64])
            return
        if keep and not self._server.draining and not (self._eof and not self._rest):
            self._transport.write(wire)
            self.state = READING
            self._since = self._server.now
            if not self._reading and not self._pumping:
                self._resume()
            return
        self._transport.write(with_close(wire))
        if self._reading and not self._pumping:
            self._close()
        else:  # the client has sent more, which will not be answered: a plain close would reset the connection
            self._linger()

    def refuse(self, refusal: HttpRejection) -> None:
        """Answer with a rejection, and close the connection in a way that lets the client read the answer."""
        self._server.refused(refusal.status)
        self._release()
        self._reader.close()
        self._transport.write(with_close(problem(refusal.status, refusal.reason, refusal.headers)))
        self._linger()

    def close_if_idle(self) -> None:
        """Close the connection unless a request is in progress. A drain calls this."""
        if self.state is READING and self._reader.state is _IDLE and not self._rest:
            self._close()

    def abort(self) -> None:
        """Close the connection now, without finishing anything."""
        if self._transport is not None:
            self._transport.abort()

    def _close(self) -> None:
        self.state = CLOSED
        self._transport.close()

    def _linger(self) -> None:
        self.state = LINGER
        self._since = self._server.now
        self._rest = b""
        if self._eof or not self._transport.can_write_eof():
            self._close()
            return
        self._transport.write_eof()
        self._resume_reading()

    def check_deadline(self, now: float) -> None:
        """Close or reject what exceeds a time limit. Called by the server's sweep; `now` as of `Server.now`."""
        config = self._config
        state, age_s = self.state, now - self._since
        if not self._writable and now - self._moved > config.write_idle_s:
            self._transport.abort()
        elif state is READING:
            self._check_request(now, age_s)
        elif state is LINGER and age_s > config.linger_s:
            self._close()

    def _check_request(self, now: float, age_s: float) -> None:
        config = self._config
        reader = self._reader
        least = config.body_bytes_min_per_s
        if reader.state is _IDLE:
            if age_s > config.keepalive_idle_s and not self._rest:
                self._close()
        elif reader.state is _HEAD:
            if age_s > config.header_timeout_s:
                self.refuse(HttpRejection(408, f"the headers were not complete within {config.header_timeout_s:g} s"))
        elif now - self._moved > config.body_idle_s:
            self.refuse(HttpRejection(408, f"no byte of the body arrived for {config.body_idle_s:g} s"))
        elif age_s > config.body_idle_s and self._received_bytes - reader.head_bytes < age_s * least:
            self.refuse(HttpRejection(408, f"the body is slower than {least:g} bytes/s"))

    # -- reading -------------------------------------------------------------------------------------------------------

    def _hold(self, data: bytes, start: int) -> None:
        if self._rest:
            self._rest, self._rest_start = self._rest[self._rest_start :] + data, 0
        else:
            self._rest, self._rest_start = data, start
        if self._reading:
            self._reading = False
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if not self._reading:
            self._reading = True
            self._transport.resume_reading()

    def _resume(self) -> None:
        """Continue with the bytes that were held back while the previous request was in progress."""
        if self._rest and self.state is READING and self._writable:
            data, self._rest = self._rest, b""
            self._pump(data, self._rest_start)
        if self._rest or self.state is not READING:
            return
        if self._eof:
            self._close()
        else:
            self._resume_reading()

    def _pump(self, data: bytes, pos: int) -> None:
        """Read requests from `data`, starting at `pos`, until one is in progress; hold the rest."""
        size = len(data)
        reader = self._reader
        # A view may answer within `dispatch`. Then `finish` must not call `_resume` (which would nest for each
        # pipelined request): the loop below goes on by itself.
        self._pumping = True
        try:
            while pos < size and self.state is READING and self._writable:
                start, before = pos, reader.state
                pos = reader.read(data, start)
                if reader.state is _COMPLETE:
                    self.state = BUSY
                    if self._received_bytes:
                        self._release()
                    self._server.dispatch(self, reader.take())
                elif reader.state is not _IDLE:
                    self._count_part(pos - start, reader.state is not before)
        except HttpRejection as refusal:
            self.refuse(refusal)
        except Exception:  # the caller may be the view of the previous request, which must not get this error
            self._failed()
        finally:
            self._pumping = False
        if pos < size and (self.state is READING or self.state is BUSY):
            self._hold(data, pos)

    def _failed(self) -> None:
        log.exception("request failed before it reached a view")
        self.refuse(HttpRejection(500, "internal error"))

    def _count_part(self, part_bytes: int, begins: bool) -> None:
        """Count a part of an incomplete request against the memory that all connections share. `begins`: it is the
        first part of the head or of the body."""
        server = self._server
        self._moved = server.now
        if begins:
            self._since = server.now
        if self._reader.state is _BODY and self._reader.wants_continue():
            self._transport.write(_CONTINUE)
        self._received_bytes += part_bytes
        held_bytes = self._received_bytes + self._reader.line_bytes
        server.receiving_bytes += held_bytes - self._held_bytes
        self._held_bytes = held_bytes
        if server.receiving_bytes > self._config.receiving_bytes_max:
            raise _too_busy(429, "too many incomplete requests", self._config)

    def _release(self) -> None:
        self._server.receiving_bytes -= self._held_bytes
        self._received_bytes = self._held_bytes = 0


def _too_busy(status: int, reason: str, config: DriverConfig) -> HttpRejection:
    return HttpRejection(status, reason, (("retry-after", str(config.retry_after_s)),))
