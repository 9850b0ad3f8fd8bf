"""What the first server of the admin port answers by itself, and how the other one gets the rest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.observability.admin_front import HEAD_BYTES_MAX, Asked, Find, Front, Page, Reading, read

LIMIT_S = 60.0
_MORE_THAN_SOCKETS_HOLD = 32 * 1024 * 1024
GET = b"GET /metrics HTTP/1.1\r\nHost: a\r\n"


@pytest.mark.parametrize(
    ("data", "asked"),
    [
        (b"GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n", Asked("/readyz", "", True, b"")),
        (b"GET /a?wide HTTP/1.1\r\nHost: a\r\nACCEPT: x/y\r\n\r\nGET", Asked("/a?wide", "x/y", True, b"GET")),
        (GET + b"Accept: a;q=1\r\naccept:\tb\r\n\r\n", Asked("/metrics", "a;q=1,b", True, b"")),
        (GET + b"Connection: keep-alive, Close\r\n\r\n", Asked("/metrics", "", False, b"")),
        (b"GET /metrics HTTP/1.0\r\n\r\n", Asked("/metrics", "", False, b"")),
        (GET + b"Expect: 100-continue\r\nUpgrade: h2c\r\n\r\n", Asked("/metrics", "", True, b"")),
        (b"GET http://a/metrics HTTP/1.1\r\nHost: a\r\n\r\n", Asked("/metrics", "", True, b"")),
        (b"G", Reading.MORE),
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\n", Reading.MORE),
        (b"GET /" + b"a" * HEAD_BYTES_MAX, Reading.OTHER),
        (b"POST", Reading.OTHER),
        (b"HEAD /metrics HTTP/1.1\r\n\r\n", Reading.OTHER),
        (b"GET /metrics HTTP/1.1\r\n\r\n", Reading.OTHER),
        (b"GET /metrics HTTP/2.0\r\n\r\n", Reading.OTHER),
        (b"GET /a b HTTP/1.1\r\n\r\n", Reading.OTHER),
        (GET + b"Content-Length: 2\r\n\r\nab", Reading.OTHER),
        (GET + b"Transfer-Encoding: chunked\r\n\r\n", Reading.OTHER),
        (GET + b" folded: b\r\n\r\n", Reading.OTHER),
        (GET + b"no colon\r\n\r\n", Reading.OTHER),
        (GET + b"a: b\nc: d\r\n\r\n", Reading.OTHER),
        (b"\x16\x03\x01", Reading.OTHER),
        (b"\r\n\r\n", Reading.OTHER),
    ],
)
def test_bytes_are_a_plain_get_or_incomplete_or_of_another_server(data: bytes, asked: Asked | Reading) -> None:
    assert read(data) == asked


@given(st.binary(max_size=200), st.binary(max_size=50))
def test_what_follows_changes_no_decision(data: bytes, more: bytes) -> None:
    """And a part of a request is never taken for another one."""
    before, after = read(data), read(data + more)
    if before is Reading.OTHER:
        assert after is Reading.OTHER
    if isinstance(before, Asked):
        assert after == Asked(before.target, before.accept, before.keep, before.rest + more)


class _Other(asyncio.Protocol):
    """Answers with what it has got."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(b"<" + data + b">")


async def _page(target: str) -> Page:
    if target == "/broken":
        raise ValueError(target)
    return Page(target.encode(), 200 if target == "/here" else 503, headers={"x-a": "b"})


@asynccontextmanager
async def connected(
    idle_s: float = LIMIT_S,
    other: Callable[[], Awaitable[Callable[[], asyncio.Protocol]]] | None = None,
    find: Find | None = None,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter, set[Front]]]:
    """A client of a front that has all pages but `/other`, or those of `find`."""
    fronts: set[Front] = set()

    def usual(target: str, _accept: str) -> Awaitable[Page] | None:
        return None if target == "/other" else _page(target)

    async def make() -> Callable[[], asyncio.Protocol]:
        await asyncio.sleep(0)
        return _Other

    server = await asyncio.get_running_loop().create_server(
        lambda: Front(find or usual, other or make, fronts, idle_s), "127.0.0.1", 0
    )
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    try:
        async with asyncio.timeout(LIMIT_S):
            yield reader, writer, fronts
    finally:
        writer.close()
        server.close()


async def _answer(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    (length,) = (line for line in head.split(b"\r\n") if line.startswith(b"content-length:"))
    return head, await reader.readexactly(int(length.partition(b":")[2]))


@pytest.mark.asyncio
async def test_requests_of_one_connection_are_answered_in_order_also_if_they_come_in_pieces() -> None:
    async with connected() as (reader, writer, fronts):
        writer.write(b"GET /here HTTP/1.1\r\nHost: a\r\n\r\nGET /away HTTP/1.1\r\nHost: a\r\n\r\nGET /br")
        head, body = await _answer(reader)
        assert (head.split(b"\r\n")[0], body) == (b"HTTP/1.1 200 OK", b"/here")
        assert b"content-type: application/json\r\nx-a: b\r\n" in head
        assert (await _answer(reader))[0].startswith(b"HTTP/1.1 503 ")
        writer.write(b"oken HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        head, body = await _answer(reader)
        assert (head.split(b"\r\n")[0], body) == (b"HTTP/1.1 500 Internal Server Error", b'{"error":"internal error"}')
        assert b"\r\nconnection: close\r\n" in head
        assert await reader.read() == b""
        assert not fronts


@pytest.mark.asyncio
async def test_client_that_reads_no_answers_gets_no_more_of_them() -> None:
    """Otherwise what it asks for ahead would fill the memory: a scrape is a thousand times as large as its request."""
    asked: list[str] = []

    async def page() -> Page:
        return Page(bytes(_MORE_THAN_SOCKETS_HOLD))

    def find(target: str, _accept: str) -> Awaitable[Page]:
        asked.append(target)
        return page()

    async with connected(find=find) as (reader, writer, _):
        writer.write(b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % number for number in range(3)))
        for number in range(3):
            head = await reader.readuntil(b"\r\n\r\n")
            assert asked == [f"/{each}" for each in range(number + 1)]
            assert head.startswith(b"HTTP/1.1 200 ")
            assert len(await reader.readexactly(_MORE_THAN_SOCKETS_HOLD)) == _MORE_THAN_SOCKETS_HOLD


@pytest.mark.parametrize("last", [b"", b"Connection: close\r\n"])
@pytest.mark.asyncio
async def test_connection_ends_if_its_client_reads_no_answer(last: bytes) -> None:
    async def page() -> Page:
        return Page(bytes(_MORE_THAN_SOCKETS_HOLD))

    async with connected(idle_s=0.3, find=lambda *_: page()) as (reader, writer, fronts):
        writer.write(b"GET /here HTTP/1.1\r\nHost: a\r\n" + last + b"\r\n")
        with suppress(ConnectionResetError, asyncio.IncompleteReadError):  # on a busy machine it may have ended before
            await reader.readuntil(b"\r\n\r\n")
        while fronts:
            await asyncio.sleep(0.01)


@pytest.mark.asyncio
async def test_other_server_gets_the_connection_with_what_was_read() -> None:
    async with connected() as (reader, writer, fronts):
        writer.write(b"GET /here HTTP/1.1\r\nHost: a\r\n\r\n")
        await _answer(reader)
        writer.write(b"GET /other HTTP/1.1\r\nHost: a\r\n\r\nand")
        assert await reader.readuntil(b">") == b"<GET /other HTTP/1.1\r\nHost: a\r\n\r\nand>"
        writer.write(b"GET /here HTTP/1.1\r\nHost: a\r\n\r\n")
        assert await reader.readuntil(b">") == b"<GET /here HTTP/1.1\r\nHost: a\r\n\r\n>"
        assert not fronts


@pytest.mark.asyncio
async def test_connection_ends_if_the_other_server_cannot_be_made() -> None:
    async def fails() -> Callable[[], asyncio.Protocol]:
        raise ValueError("no server")

    async with connected(other=fails) as (reader, writer, fronts):
        writer.write(b"POST /here HTTP/1.1\r\n\r\n")
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        assert not fronts


@pytest.mark.parametrize("sent", [b"", b"GET /here HT"])
@pytest.mark.asyncio
async def test_connection_without_a_complete_request_ends(sent: bytes) -> None:
    async with connected(idle_s=0.05) as (reader, writer, fronts):
        writer.write(sent)
        assert await reader.read() == b""
        assert not fronts
