"""Takes the connections of the admin port. It answers the pages that machines ask for; all other connections go on at
another server, which is imported with the first of them.

    GET of a page here --> answer --> the next request of the connection
    anything else      --> the other server gets the connection, with what was read of it

Probes and scrapes come to every worker, and people to few: their server is aiohttp, which takes 12 MB.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import cast

import structlog

from web.http.config import DriverConfig, HttpRejection
from web.http.messages import encode, with_close
from web.http.request_reader import RequestReader
from web.http.state import ReaderState

log = structlog.get_logger(__name__)

HEAD_BYTES_MAX = 16 * 1024  #: the other server has limits of its own
_CONFIG = DriverConfig()


@dataclass(frozen=True, slots=True)
class Page:
    """What is answered."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Asked:
    """A GET without a body. `rest`: what follows it."""

    target: str
    accept: str
    keep: bool
    rest: bytes


class Reading(Enum):
    """Why there is no `Asked`."""

    MORE = "the request is not complete"
    OTHER = "it is not a plain GET"


def read(data: bytes) -> Asked | Reading:
    """Returns the request that `data` begins with."""
    head, blank, rest = data.partition(b"\r\n\r\n")
    if not b"GET ".startswith(head[:4]) or len(head) > HEAD_BYTES_MAX:
        return Reading.OTHER
    if not blank:
        return Reading.MORE
    reader = RequestReader(_CONFIG)
    with suppress(HttpRejection):
        reader.read(head + blank, 0)
    if reader.state is not ReaderState.COMPLETE:  # it is not HTTP, or has a body
        return Reading.OTHER
    request = reader.take()
    accept = b",".join(value for name, value in request.pairs() if name.lower() == b"accept")
    return Asked(request.target.decode("latin-1"), accept.decode("latin-1"), request.keep, rest)


#: (target, Accept) -> the page; None = the other server has it, or nobody.
Find = Callable[[str, str], Awaitable[Page] | None]
#: Makes a protocol of the other server.
Other = Callable[[], Awaitable[Callable[[], asyncio.Protocol]]]


class Front(asyncio.Protocol):
    """One connection, until another server has it."""

    def __init__(
        self, find: Find, other: Other, connections: set[Front], idle_s: float = _CONFIG.keepalive_idle_s
    ) -> None:
        """`connections`: those that are open. `idle_s`: how long one may take to send a request or read an answer."""
        self._find, self._other, self._connections, self._idle_s = find, other, connections, idle_s
        self._data = b""
        self._writable = True  # the client reads its answers
        self._transport = cast(asyncio.Transport, None)  # set by connection_made, before anything else is called
        self._idle: asyncio.TimerHandle | None = None
        self.work: asyncio.Task[None] | None = None  #: on the present request

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected."""
        self._transport = cast(asyncio.Transport, transport)
        self._connections.add(self)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        self._connections.discard(self)
        self._wait(ends=True)
        if self.work is not None:
            self.work.cancel()

    def data_received(self, data: bytes) -> None:
        """Bytes arrived."""
        self._data += data
        if self.work is None:
            self._next()

    def pause_writing(self) -> None:
        """The client reads its answers too slowly: start no new request."""
        self._writable = False

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._writable = True
        if self.work is None and not self._transport.is_closing():
            self._go_on()

    def close(self) -> None:
        """Close it now, without finishing anything."""
        self._transport.abort()

    def _wait(self, *, ends: bool = False) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = None if ends else asyncio.get_running_loop().call_later(self._idle_s, self.close)

    def _next(self) -> None:
        asked = read(self._data)
        if asked is Reading.MORE:
            return
        page = self._find(asked.target, asked.accept) if isinstance(asked, Asked) else None
        self._wait(ends=True)
        self._transport.pause_reading()
        run = self._hand_over() if page is None or asked is Reading.OTHER else self._answer(page, asked)
        self.work = asyncio.get_running_loop().create_task(run)

    async def _answer(self, page: Awaitable[Page], asked: Asked) -> None:
        try:
            answer = await page
        except Exception:
            log.exception("a page of the admin port failed", target=asked.target)
            answer = Page(b'{"error":"internal error"}', 500)
        wire = encode(answer.status, (("content-type", answer.content_type), *answer.headers.items()), answer.body)
        self._transport.write(wire if asked.keep else with_close(wire))
        self._data, self.work = asked.rest, None
        self._wait()
        if not asked.keep:
            self._transport.close()
        elif self._writable:
            self._go_on()

    def _go_on(self) -> None:
        self._transport.resume_reading()
        if self._data:
            self._next()

    async def _hand_over(self) -> None:
        try:
            make = await self._other()
        except Exception:
            log.exception("the pages of the admin port cannot be served")
            self.close()
            return
        self._connections.discard(self)
        protocol, self.work = make(), None
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        self._transport.resume_reading()
        protocol.data_received(self._data)
