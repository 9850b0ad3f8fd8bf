"""One HTTP/1.1 connection: bytes to whole requests, one at a time, and one answer for each, in order.

    IDLE --first byte--> HEAD --blank line--> BODY --last byte--> BUSY --finish()--> IDLE
                          |                    |                   |
                          +----- refused ------+--> LINGER <-------+ (or closed)

There is exactly one request under way; what the client sent ahead stays unparsed (and unread: reading pauses) until its
turn. That makes pipelining ordered and bounded, and lets a request be refused without losing the answers before it.
An answer to a refused request is followed by half-closing and by reading what still comes for a while (LINGER): a
client that is still sending would otherwise get a reset in place of the answer.

Refuses to route, to know Views and to run tasks or timers; the server sweeps over all connections for deadlines.
"""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

import httptools
import structlog

from web.http import headers
from web.http.config import DriverConfig, HttpRejection
from web.http.headers import Fields
from web.http.messages import problem, with_close
from web.http.request_reader import BODY, BUSY, CLOSED, HEAD, IDLE, LINGER, RequestReader

log = structlog.get_logger(__name__)

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Server(Protocol):
    """What a connection needs from the server it belongs to."""

    config: DriverConfig
    now: float  #: seconds, monotonic, as of the last sweep
    draining: bool
    receiving_bytes: int  #: of requests that came in part, all connections together

    def opened(self, connection: Connection) -> bool:
        """A connection came; False: there are too many."""

    def closed(self, connection: Connection) -> None:
        """It is gone."""

    def refused(self, status: int) -> None:
        """A request was refused before any View saw it."""

    def dispatch(
        self, connection: Connection, method: bytes, target: bytes, fields: Fields, body: bytes | None, keep: bool
    ) -> None:
        """Have it answered: `connection.finish` will be called once. Never raises."""


class Connection(RequestReader, asyncio.Protocol):
    """One client."""

    __slots__ = (
        "_eof",
        "_lingered_bytes",
        "_pumping",
        "_reader",
        "_received_bytes",
        "_rest",
        "_rest_start",
        "_server",
        "_transport",
        "_writable",
    )

    def __init__(self, server: Server) -> None:
        super().__init__(server.config, server.now)
        self._server = server
        self._transport = cast(asyncio.Transport, None)  # set by connection_made, before anything else is called
        self._rest, self._rest_start = b"", 0  #: received, and from where on it is not yet parsed
        self._pumping = self._eof = False
        self._reader = self._writable = True
        self._lingered_bytes = self._received_bytes = 0

    # -- the transport -------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected."""
        self._transport = cast(asyncio.Transport, transport)
        if not self._server.opened(self):
            self.refuse(_too_busy(503, "too many connections", self._config))

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone; an answer that still comes is dropped."""
        self.state = CLOSED
        self._rest = b""
        self._release()
        self._parser = cast(httptools.HttpRequestParser, None)  # its callbacks refer back to us
        self._server.closed(self)

    def eof_received(self) -> bool:
        """The client will send nothing more; what it already sent is still answered. True: stay open for that."""
        self._eof = True
        return self.state == BUSY or bool(self._rest)

    def pause_writing(self) -> None:
        """The client takes its answers too slowly: nothing new is begun."""
        self._writable = False
        self._moved = self._server.now

    def resume_writing(self) -> None:
        """It caught up."""
        self._writable = True
        self._resume()

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        state = self.state
        if state <= BODY and not self._rest and self._writable:
            self._pump(data, 0)
        elif state == LINGER:
            self._lingered_bytes += len(data)
            if self._lingered_bytes > self._config.linger_bytes_max:
                self._transport.abort()
        elif state != CLOSED:
            self._hold(data, 0)

    # -- answers -------------------------------------------------------------------------------------------------------

    def finish(self, wire: bytes, keep: bool) -> None:
        """The answer (a whole one, as bytes) to the request under way; exactly once for each request dispatched."""
        if self.state != BUSY:
            if self.state < BUSY:
                log.error("answered twice", answer=wire[:64])
            return
        if keep and not self._server.draining and not (self._eof and not self._rest):
            self._transport.write(wire)
            self.state = IDLE
            self._since = self._server.now
            if not self._reader and not self._pumping:
                self._resume()
            return
        self._transport.write(with_close(wire))
        if self._reader and not self._pumping:
            self._close()
        else:  # the client sent ahead what will not be read
            self._linger()

    def refuse(self, refusal: HttpRejection) -> None:
        """Answer with a refusal, and end the connection in a way that lets the client read it."""
        self._server.refused(refusal.status)
        self._release()
        self._forget()  # thousands may linger
        self._transport.write(with_close(problem(refusal.status, refusal.reason, refusal.headers)))
        self._linger()

    def close_if_idle(self) -> None:
        """For a drain: end it unless a request is under way."""
        if self.state == IDLE and not self._rest:
            self._close()

    def abort(self) -> None:
        """End it now."""
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
        self._read_on()

    def check_deadline(self, now: float) -> None:
        """Called by the server's sweep."""
        config = self._config
        least = config.body_bytes_min_per_s
        state, age_s = self.state, now - self._since
        if not self._writable and now - self._moved > config.write_idle_s:
            self._transport.abort()
        elif state == IDLE:
            if age_s > config.keepalive_idle_s and not self._rest:
                self._close()
        elif state == HEAD:
            if age_s > config.header_timeout_s:
                self.refuse(HttpRejection(408, f"no whole head within {config.header_timeout_s:g} s"))
        elif state == BODY:
            if now - self._moved > config.body_idle_s:
                self.refuse(HttpRejection(408, f"no byte of the body for {config.body_idle_s:g} s"))
            elif age_s > config.body_idle_s and self._received_bytes - self.head_bytes < age_s * least:
                self.refuse(HttpRejection(408, f"a body slower than {least:g} bytes/s"))
        elif state == LINGER and age_s > config.linger_s:
            self._close()

    # -- reading -------------------------------------------------------------------------------------------------------

    def _hold(self, data: bytes, start: int) -> None:
        if self._rest:
            self._rest, self._rest_start = self._rest[self._rest_start :] + data, 0
        else:
            self._rest, self._rest_start = data, start
        if self._reader:
            self._reader = False
            self._transport.pause_reading()

    def _read_on(self) -> None:
        if not self._reader:
            self._reader = True
            self._transport.resume_reading()

    def _resume(self) -> None:
        """Go on with what was held back, now that the request before it is answered."""
        if self._rest and self.state <= BODY and self._writable:
            data, self._rest = self._rest, b""
            self._pump(data, self._rest_start)
        if self._rest or self.state >= BUSY:
            return
        if self._eof:
            self._close()
        else:
            self._read_on()

    def _pump(self, data: bytes, pos: int) -> None:
        """Read as many requests out of `data` from `pos` on as can be begun; hold the rest."""
        size, start = len(data), pos
        self._pumping = True
        try:
            while pos < size and self.state <= BODY and self._writable:
                start = pos
                pos = self.read(data, start, self._server.now)
                if self._complete:
                    self._dispatch()
                elif self.state != IDLE:
                    self._partly(pos - start)
        except HttpRejection as refusal:
            self.refuse(refusal)
        except httptools.HttpParserCallbackError:
            self._failed()
        except httptools.HttpParserInvalidMethodError:
            self.refuse(headers.unknown_method(data, start))
        except httptools.HttpParserError as error:
            self.refuse(HttpRejection(400, f"not HTTP/1.1: {error}"))
        except Exception:  # called from whoever finished the request before, who has nothing to do with this one
            self._failed()
        finally:
            self._pumping = False
        if pos < size and self.state <= BUSY:
            self._hold(data, pos)

    def _failed(self) -> None:
        log.exception("request failed before its view")
        self.refuse(HttpRejection(500, "internal error"))

    def _partly(self, part_bytes: int) -> None:
        """A request that comes in parts counts against the memory all connections share while it is incomplete."""
        server = self._server
        if self.state == BODY:
            if self.expects and not self._body:
                self._transport.write(_CONTINUE)
            self.expects = False
        self._moved = server.now
        self._received_bytes += part_bytes
        server.receiving_bytes += part_bytes
        if server.receiving_bytes > self._config.receiving_bytes_max:
            raise _too_busy(429, "too many requests under way", self._config)

    def _release(self) -> None:
        self._server.receiving_bytes -= self._received_bytes
        self._received_bytes = 0
        self._body = None

    def _dispatch(self) -> None:
        body = self._body
        self._complete = False
        self.state = BUSY
        if self._received_bytes:
            self._release()
        whole = bytes(body) if isinstance(body, bytearray) else body
        self._body = body = None
        self._server.dispatch(self, self._method, self._target, self._headers, whole, self._keep and self._current)


def _too_busy(status: int, reason: str, config: DriverConfig) -> HttpRejection:
    return HttpRejection(status, reason, (("retry-after", str(config.retry_after_s)),))
