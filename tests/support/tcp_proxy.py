"""A TCP proxy on loopback that breaks the network between a client and a server, in both directions or in one.

    client -> 127.0.0.1:<port> -> [mode] -> server

It runs in a thread of its own, and its methods may be called from any thread. Each returns when the new mode counts.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Coroutine
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from app.local.kafka.ports import LOOPBACK
from tests.support.processes import free_port
from tests.support.serving import LoopThread

_CHUNK_BYTES = 16_384
_QUEUE_CHUNKS = 64  # on their way in one direction of one connection; then the sender has to wait
_ACCEPTING_TURNS = 3  # of the loop, from accepting a connection to its handler
_REQUESTS, _ANSWERS = 0, 1
_RST_ON_CLOSE = struct.pack("ii", 1, 0)


class _Mode(Enum):
    PASS = auto()
    BLACKHOLE = auto()
    MUTE = auto()
    HOLD = auto()
    CUT = auto()
    REFUSE = auto()


@dataclass(eq=False, slots=True)
class _Link:
    """One client's connection, and the one to the server once it is made."""

    ends: list[asyncio.StreamWriter]
    tainted: bool = False  #: bytes of it were swallowed, so it cannot go on

    def reset(self) -> None:
        """RST to both ends."""
        for end in self.ends:
            connection = end.get_extra_info("socket")
            if connection is not None and connection.fileno() >= 0:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST_ON_CLOSE)
            end.transport.abort()


class TcpProxy:
    """Between `with` and its end it listens at `port`, and forwards everything by default."""

    def __init__(self, server_port: int, port: int = 0) -> None:
        """`port` 0 = a free one, chosen now; it stays the same through `refuse`."""
        self.server_port = server_port
        self.port = port or free_port()
        self._loop: LoopThread | None = None
        self._listener: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self._mode = _Mode.PASS
        self._delay_s = 0.0
        self._bytes_per_s = 0.0
        self._free_at = [0.0, 0.0]  # loop time at which each direction of the limited line is idle again
        self._resets: asyncio.Task[None] | None = None
        self._flowing = (asyncio.Event(), asyncio.Event())  # by direction
        for flowing in self._flowing:
            flowing.set()
        self._keeps = False
        self.held = 0  #: of the connections, those with bytes that wait since `hold` or `cut`

    def __enter__(self) -> TcpProxy:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        self._loop = LoopThread(f"proxy-{self.port}")
        self._call(self._listen())

    def stop(self) -> None:
        """Reset what is open and end the thread, if it was started."""
        if self._loop is not None:
            self._call(self._become(_Mode.REFUSE))
            self._loop.stop()

    def forward(self) -> None:
        """Pass everything on. Connections of which bytes were swallowed are reset."""
        self._call(self._become(_Mode.PASS))

    def delay(self, seconds: float) -> None:
        """Everything arrives this much later, in both directions."""
        self._call(self._become(_Mode.PASS, delay_s=seconds))

    def limit(self, bytes_per_s: float) -> None:
        """All connections together get this much in each direction."""
        self._call(self._become(_Mode.PASS, bytes_per_s=bytes_per_s))

    def blackhole(self) -> None:
        """Take connections and bytes, answer nothing, pass nothing on."""
        self._call(self._become(_Mode.BLACKHOLE))

    def mute(self) -> None:
        """Pass on what clients send, and swallow what the server answers."""
        self._call(self._become(_Mode.MUTE))

    def hold(self) -> None:
        """Pass on what clients send; what the server answers waits for the next mode."""
        self._call(self._become(_Mode.HOLD))

    def cut(self, *, keep: bool = False) -> None:
        """Pass on what the server answers; what clients send waits for the next mode, and arrives then. As in a network
        that is cut in one direction: the client sends it again until it arrives, also when it has closed the
        connection, but not when it has reset it. `keep`: also then, as behind a proxy that has taken it."""
        self._call(self._become(_Mode.CUT, keep=keep))

    def refuse(self) -> None:
        """Reset what is open and refuse new connections."""
        self._call(self._become(_Mode.REFUSE))

    def reset(self, every_s: float = 0.0) -> None:
        """Reset all open connections, once or again and again until the next mode; new ones are let through."""
        self._call(self._become(_Mode.PASS, reset_every_s=every_s))
        self._call(self._reset_all())

    @property
    def connections(self) -> int:
        return len(self._links)

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._loop is not None, "the proxy was never started"
        self._loop.call(work)

    # -- in the thread

    async def _listen(self) -> None:
        if self._listener is None:
            self._listener = await asyncio.start_server(self._accepted, LOOPBACK, self.port, limit=_CHUNK_BYTES)

    async def _close_listener(self) -> None:
        if self._listener is None:
            return
        listener, self._listener = self._listener, None
        # A server that is closed forgets the connections it has just accepted, and never closes them: none is accepted
        # from here on, and those that were become links first.
        for accepting in listener.sockets:
            asyncio.get_running_loop().remove_reader(accepting.fileno())
        for _ in range(_ACCEPTING_TURNS):
            await asyncio.sleep(0)
        listener.close()

    async def _become(
        self, mode: _Mode, delay_s: float = 0.0, bytes_per_s: float = 0.0, reset_every_s: float = 0.0,
        keep: bool = False,
    ) -> None:  # fmt: skip
        self._mode, self._delay_s, self._bytes_per_s, self._keeps = mode, delay_s, bytes_per_s, keep
        for flowing, stopped_by in zip(self._flowing, (_Mode.CUT, _Mode.HOLD), strict=True):
            (flowing.clear if mode is stopped_by else flowing.set)()
        if self._resets is not None:
            self._resets.cancel()
            self._resets = None
        if mode is _Mode.REFUSE:
            await self._close_listener()
            await self._reset_all()
            return
        await self._listen()
        if mode is _Mode.PASS:
            for link in [link for link in self._links if link.tainted]:
                link.reset()
        if reset_every_s:
            self._resets = asyncio.create_task(self._reset_each(reset_every_s))

    async def _reset_all(self) -> None:
        for link in list(self._links):
            link.reset()

    async def _reset_each(self, every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            await self._reset_all()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link([writer])
        self._links.add(link)
        try:
            if self._mode is _Mode.REFUSE:
                link.reset()
            elif self._mode is _Mode.BLACKHOLE:
                await self._swallow(link, reader)
            else:
                await self._connect(link, reader, writer)
        except* OSError:  # one of the ends has gone, so the other one goes too
            link.reset()
        finally:
            self._links.discard(link)
            for end in link.ends:
                end.close()

    async def _swallow(self, link: _Link, reader: asyncio.StreamReader) -> None:
        link.tainted = True
        while await reader.read(_CHUNK_BYTES):
            continue

    async def _connect(self, link: _Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection(LOOPBACK, self.server_port, limit=_CHUNK_BYTES)
        link.ends.append(server_writer)
        async with asyncio.TaskGroup() as group:
            for direction, source, target in ((_REQUESTS, reader, server_writer), (_ANSWERS, server_reader, writer)):
                chunks: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_QUEUE_CHUNKS)
                group.create_task(self._take(source, chunks, direction))
                group.create_task(self._give(link, target, chunks, direction))

    async def _take(
        self, source: asyncio.StreamReader, chunks: asyncio.Queue[tuple[float, bytes]], direction: int
    ) -> None:
        data = b"..."
        while data:
            try:
                data = await source.read(_CHUNK_BYTES)
            except OSError:
                if direction == _ANSWERS or not self._keeps:
                    raise
                data = b""
            await chunks.put((asyncio.get_running_loop().time(), data))

    async def _give(
        self, link: _Link, target: asyncio.StreamWriter, chunks: asyncio.Queue[tuple[float, bytes]], direction: int
    ) -> None:
        """Ends with an empty chunk, the end of the stream, which is passed on at its turn like the bytes before it."""
        while True:
            taken_at, data = await chunks.get()
            await self._travel(taken_at, len(data), direction)
            if not self._flowing[direction].is_set():
                await self._wait_held(direction)
            if self._mode is _Mode.BLACKHOLE or (self._mode is _Mode.MUTE and direction == _ANSWERS):
                link.tainted = True
                if not data:
                    return
            elif not data:
                target.write_eof()
                return
            elif direction == _REQUESTS or not target.transport.is_closing():
                target.write(data)
                await target.drain()

    async def _wait_held(self, direction: int) -> None:
        self.held += 1
        try:
            await self._flowing[direction].wait()
        finally:
            self.held -= 1

    async def _travel(self, taken_at: float, size: int, direction: int) -> None:
        arrives_at = taken_at + self._delay_s
        if self._bytes_per_s:
            starts_at = max(self._free_at[direction], taken_at)
            self._free_at[direction] = starts_at + size / self._bytes_per_s
            arrives_at = max(arrives_at, self._free_at[direction])
        wait_s = arrives_at - asyncio.get_running_loop().time()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
