"""A raw TCP server that answers HTTP requests with whatever bytes and accidents a test has scripted.

    async with ScriptedServer(reply(b"HTTP/1.1 500 ..."), reset()) as server: ...

Each request, on whatever connection, takes the next step of the script; the last step is repeated. It refuses to know
HTTP beyond finding the end of a request with a Content-Length. `subscriber` has one for tests without an event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Self

_HEAD_BYTES, _BACKLOG = 1 << 20, 256
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
ACCEPTED = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"

#: Does its worst on the connection; True = it may be used for a further request, False = close it.
Step = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bool]]


def answer(status: int, body: bytes = b"", *headers: str) -> bytes:
    """A plain answer with a Content-Length."""
    head = "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status} Said", *headers, f"content-length: {len(body)}"))
    return head.encode("latin-1") + b"\r\n" + body


def reply(*pieces: bytes, keep: bool = True, gap_s: float = 0.0) -> Step:
    """Write the pieces, then keep the connection or close it."""

    async def step(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(gap_s)
        return keep

    return step


def reset(before: bytes = b"") -> Step:
    """Write, then reset the connection (RST)."""

    async def step(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(before)
        await writer.drain()
        await asyncio.sleep(0.02)  # or the reset overtakes what was written
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        return False

    return step


def half_close(before: bytes = b"") -> Step:
    """Write, shut our side down, and keep reading."""

    async def step(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(before)
        writer.write_eof()
        return True

    return step


def silence() -> Step:
    """Say nothing until the peer goes away."""

    async def step(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> bool:
        await reader.read()
        return False

    return step


def slowly(step: Step, seconds: float) -> Step:
    """The step, this much later."""

    async def later(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        await asyncio.sleep(seconds)
        return await step(reader, writer)

    return later


def forever(head: bytes, piece: bytes, gap_s: float = 0.0) -> Step:
    """Write a head, then a piece again and again until the peer goes away."""

    async def step(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(head)
        while not writer.is_closing():
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(gap_s)
        return False

    return step


@dataclass(slots=True)
class Connection:
    """What came in on one connection, and whether it is still open."""

    requests: list[bytes] = field(default_factory=list)
    open: bool = True


class ScriptedServer:
    """See the module's docstring. `host` is where to listen, `tls` makes it an HTTPS server."""

    def __init__(self, *script: Step, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        self._script = list(script) or [reply(OK)]
        self._host = host
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self.connections: list[Connection] = []
        self.port = 0

    @property
    def requests(self) -> list[bytes]:
        return [request for connection in self.connections for request in connection.requests]

    @property
    def open(self) -> int:
        """Connections that the peer has not closed."""
        return sum(connection.open for connection in self.connections)

    def take(self, request: bytes) -> Step:
        return self._script.pop(0) if len(self._script) > 1 else self._script[0]

    def url(self, path: str = "/", host: str = "") -> str:
        return f"http{'s' if self._tls else ''}://{host or self._host}:{self.port}{path}"

    def push(self, number: int, data: bytes) -> None:
        """Write on connection `number`, asked or not."""
        self._writers[number].write(data)

    def hang_up(self, number: int) -> None:
        self._writers[number].close()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._accept, self._host, 0, ssl=self._tls, limit=_HEAD_BYTES, backlog=_BACKLOG
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        for _turn in range(
            3
        ):  # turns in which asyncio takes what has connected: a close in between would leave it open
            await asyncio.sleep(0)
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)
        for writer in self._writers.values():
            writer.transport.abort()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection()
        self._writers[len(self.connections)] = writer
        self.connections.append(connection)
        task = asyncio.get_running_loop().create_task(self._serve(connection, reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, connection: Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # That the peer hangs up in any way is what a script may well be about.
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            keep = True
            while keep:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
                connection.requests.append(head + await reader.readexactly(length))
                keep = await self.take(connection.requests[-1])(reader, writer)
        connection.open = False
        writer.close()
