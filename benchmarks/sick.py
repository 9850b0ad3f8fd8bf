"""Sick subscribers: one process whose paths answer in every way that a subscriber should not.

    python -m benchmarks.sick [--port 0]

The first line of standard output is {"port": N}; `POST /<kind>` is a subscriber of that kind (`KINDS`). Keeps
no state: arrivals are counted elsewhere.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import signal
import socket
import struct
import sys
from collections.abc import Awaitable, Callable

import uvloop

_DRIP_S = 0.02
_PIECE = b"x" * 65_536
_HUGE_PIECES = 128  # of 64 KiB: 8 MiB

Sickness = Callable[[asyncio.StreamWriter], Awaitable[bool]]  #: False = the connection ends


async def _write(writer: asyncio.StreamWriter, *pieces: bytes) -> None:
    for piece in pieces:
        writer.write(piece)
        await writer.drain()


def _says(status: int, *lines: str, body: bytes = b"no") -> Sickness:
    head = "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status} So", f"content-length: {len(body)}", *lines))

    async def answer(writer: asyncio.StreamWriter) -> bool:
        await _write(writer, head.encode() + b"\r\n" + body)
        return True

    return answer


async def _hangs(writer: asyncio.StreamWriter) -> bool:
    await writer.wait_closed()
    return False


async def _resets(writer: asyncio.StreamWriter) -> bool:
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
    return False


async def _tears(writer: asyncio.StreamWriter) -> bool:
    await _write(writer, b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nhalf of it")
    return False


async def _drips(writer: asyncio.StreamWriter) -> bool:
    await _write(writer, b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
    while not writer.is_closing():
        await _write(writer, b"x")
        await asyncio.sleep(_DRIP_S)
    return False


async def _half_closes(writer: asyncio.StreamWriter) -> bool:
    writer.write_eof()
    return True


async def _floods(writer: asyncio.StreamWriter, head: bytes, pieces: int) -> bool:
    await _write(writer, head)
    for _ in range(pieces):
        if writer.is_closing():
            return False
        await _write(writer, _PIECE)
    return True


async def _huge(writer: asyncio.StreamWriter) -> bool:
    head = b"HTTP/1.1 500 No\r\ncontent-length: %d\r\n\r\n" % (_HUGE_PIECES * len(_PIECE))
    return await _floods(writer, head, _HUGE_PIECES)


async def _huge_event(writer: asyncio.StreamWriter) -> bool:
    event = b"ce-id: 1\r\nce-specversion: 1.0\r\nce-type: t\r\nce-source: /s\r\n"
    length = _HUGE_PIECES * len(_PIECE)
    return await _floods(writer, b"HTTP/1.1 200 OK\r\n%bcontent-length: %d\r\n\r\n" % (event, length), _HUGE_PIECES)


async def _endless(writer: asyncio.StreamWriter) -> bool:
    await _write(writer, b"HTTP/1.1 503 No\r\ntransfer-encoding: chunked\r\n\r\n")
    while not writer.is_closing():
        await _write(writer, b"10000\r\n" + _PIECE + b"\r\n")
    return False


async def _endless_head(writer: asyncio.StreamWriter) -> bool:
    return await _floods(writer, b"HTTP/1.1 200 OK\r\nx-endless: ", 1 << 30)


def _flapping() -> Sickness:
    """Is now fine, now gone."""
    numbers = itertools.count()

    async def answer(writer: asyncio.StreamWriter) -> bool:
        turn = next(numbers) % 50
        return await (_says(200)(writer) if turn < 25 else _resets(writer))

    return answer


KINDS: dict[str, Sickness] = {
    "hang": _hangs,
    "reset": _resets,
    "torn": _tears,
    "drip": _drips,
    "half-close": _half_closes,
    "early": _says(500, "connection: close"),
    "busy": _says(429, "retry-after: 0"),
    "flapping": _flapping(),
    "huge": _huge,
    "huge-event": _huge_event,
    "endless": _endless,
    "endless-head": _endless_head,
}


async def _serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            kind = head.split(b" ", 2)[1].decode().strip("/")
            if kind != "early":  # which answers before it has read the event
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                await reader.readexactly(int(length.partition(b":")[2]))
            if not await KINDS[kind](writer) or kind == "early":
                return
    except (OSError, asyncio.IncompleteReadError):
        return  # the worker went away, as it may
    finally:
        writer.close()


async def serve(port: int) -> None:
    """Serve on 127.0.0.1 until SIGTERM or SIGINT; says the port on standard output first."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    server = await asyncio.start_server(_serve_one, "127.0.0.1", port, backlog=1024)
    sys.stdout.write(json.dumps({"port": server.sockets[0].getsockname()[1]}) + "\n")
    sys.stdout.flush()
    await stop.wait()
    server.close()


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.sick", description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, default=0, help="0 = a free one")
    uvloop.run(serve(parser.parse_args().port))


if __name__ == "__main__":
    main()
