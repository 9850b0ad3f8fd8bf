"""What any answer means, and what no answer does: a real Sender against a raw socket server."""

from __future__ import annotations

import asyncio
import resource
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

import pytest

from agents.http.pool import PoolConfig
from knative.delivery.verdicts import DELIVERED, FinalFailure, Reply, RetryableFailure, Verdict
from tests.contract.posting import posting
from tests.support.scripted_server import ScriptedServer, Step, answer, forever, half_close, reply, reset, silence

pytestmark = pytest.mark.asyncio

EVENT = ("ce-id: 1", "ce-source: /s", "ce-type: t", "ce-specversion: 1.0")
SMALL = PoolConfig(head_bytes_max=8_192, reply_bytes_max=20_000)


BY_STATUS: list[tuple[Step, Verdict | tuple[type[Verdict], int]]] = [
    *[(reply(answer(status)), DELIVERED) for status in (200, 201, 202, 203, 299)],
    (reply(b"HTTP/1.1 204 No Content\r\n\r\n"), DELIVERED),
    (reply(answer(202, b"hello", *EVENT)), DELIVERED),
    (reply(answer(200, b"<p>", "content-type: text/html")), DELIVERED),
    (reply(answer(200, b"x", "ce-specversion: 1.0")), (RetryableFailure, 200)),
    (reply(answer(200, b"{", "content-type: application/cloudevents+json")), (RetryableFailure, 200)),
    *[
        (reply(answer(status, b"no")), (RetryableFailure, status))
        for status in (404, 408, 409, 429, 500, 503, 599, 600)
    ],
    *[
        (reply(answer(status, b"no", "location: /elsewhere", *EVENT)), (FinalFailure, status))
        for status in (300, 301, 302, 307, 308, 400, 401, 403, 405, 410, 418, 451)
    ],
    (reply(b"HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n"), (FinalFailure, 304)),
    # interim answers: none is the answer, not even when nothing comes after it; 101 ends HTTP and is final
    (reply(b"HTTP/1.1 100 Continue\r\n\r\n", answer(202), gap_s=0.01), DELIVERED),
    (reply(b"HTTP/1.1 102 P\r\n\r\nHTTP/1.1 103 E\r\nce-specversion: 1.0\r\n\r\n" + answer(200)), DELIVERED),
    *[
        (step(b"HTTP/1.1 %d Soon\r\nx: y\r\n\r\n" % status), (RetryableFailure, 500))
        for status in (100, 102, 103, 199)
        for step in (partial(reply, keep=False), half_close, reset)
    ],
    (reply(b"HTTP/1.1 100 C\r\n\r\nHTTP/1.1 103 E\r\n\r\n", keep=False), (RetryableFailure, 500)),
    *[
        (reply(b"HTTP/1.1 %d Soon\r\n\r\n" % status, answer(404), gap_s=0.01), (RetryableFailure, 404))
        for status in (100, 102, 103)
    ],
    (reply(b"HTTP/1.1 102 Soon\r\n\r\n", answer(400), keep=False, gap_s=0.01), (FinalFailure, 400)),
    (reply(b"HTTP/1.1 101 S\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n\x00\x01"), (FinalFailure, 101)),
    (reply(b"HTTP/1.1 101 S\r\n\r\n"), (FinalFailure, 101)),
    (reply(b"HTTP/1.1 100 C\r\n\r\nHTTP/1.1 200", keep=False), (RetryableFailure, 500)),
]


@pytest.mark.parametrize(("step", "expected"), BY_STATUS)
async def test_answer_has_the_verdict_of_its_row(step: Step, expected: Verdict | tuple[type[Verdict], int]) -> None:
    async with ScriptedServer(step) as server, posting(server.url()) as poster:
        verdict = (await poster.answer(b"event")).verdict
        if isinstance(expected, tuple):
            assert isinstance(verdict, expected[0])
            assert isinstance(verdict, RetryableFailure | FinalFailure)
            assert verdict.code == expected[1]
        else:
            assert verdict == expected
    assert len(server.requests) == 1, "a redirect was followed, or the request was sent twice"


WHOLE = [
    reply(answer(200, b"hello", *EVENT)),
    reply(*[bytes((code,)) for code in answer(200, b"hello", *EVENT)]),
    reply(answer(200, b"hello", *EVENT, "Connection: close"), keep=False),
    reply(b"HTTP/1.1 200\r\n%s\r\ntransfer-encoding: chunked\r\n\r\n2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\nce-id: 2\r\n\r\n"),
    reply(b"HTTP/1.1 200 OK\r\n%s\r\n\r\nhello", keep=False),
    half_close(b"HTTP/1.1 200 OK\r\n%s\r\n\r\nhello"),
    reply(b"HTTP/1.0 200 OK\r\n%s\r\n\r\nhel", b"lo", keep=False, gap_s=0.01),
    reply(b"HTTP/1.0 200 OK\r\n%s\r\ncontent-length: 5\r\n\r\nhello", keep=False),
    reply(b"HTTP/1.0 200 OK\r\n%s\r\nconnection: keep-alive\r\ncontent-length: 5\r\n\r\nhello"),
    reply(b"\r\n" + answer(200, b"hello", *EVENT)),
    reply(answer(200, b"hello", *EVENT) + b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n"),
    reply(answer(200, b"hello", *EVENT) + b"extra"),
]


@pytest.mark.parametrize("number", range(len(WHOLE)))
async def test_every_shape_of_an_answer_is_read_to_its_end(number: int) -> None:
    async with ScriptedServer(_with_event(WHOLE[number])) as server, posting(server.url()) as poster:
        for _ in range(2):  # the second on the same connection, or on a new one
            verdict = (await poster.answer(b"event")).verdict
            assert isinstance(verdict, Reply)
            assert dict(verdict.headers)["ce_id"] == b"1"
            assert verdict.value == b"hello"


def _with_event(step: Step) -> Step:
    """Puts the event's headers where a scripted answer says %s."""

    async def with_event(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        write = writer.write

        def write_event(data: bytes | bytearray | memoryview) -> None:
            write(bytes(data).replace(b"%s", "\r\n".join(EVENT).encode()))

        writer.write = write_event  # type: ignore[method-assign]
        return await step(reader, writer)

    return with_event


UNREADABLE = [
    reply(b"", keep=False),
    reply(b"HTTP/1.1 200 OK\r\ncontent-len", keep=False),
    reply(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello", keep=False),
    reply(b"HTTP/1.1 202 OK\r\ncontent-length: 10\r\n\r\nhello", keep=False),
    reply(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n", keep=False),
    half_close(),
    half_close(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello"),
    reset(),
    reset(b"HTTP/1.1 200 OK\r\n"),
    reset(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello"),
    reset(b"HTTP/1.1 200 OK\r\n\r\nhello"),
    reset(b"HTTP/1.1 100 Continue\r\n\r\n"),
    reply(b"\x16\x03\x01\x02\x00 no http"),
    reply(b"hello\r\n\r\n"),
    reply(b"HTTP/1.1 200 OK\ncontent-length: 0\n\n"),
    reply(b"HTTP/1.1 20x OK\r\n\r\n"),
    reply(b"HTTP/1.1 200 OK\r\nx: a\x00b\r\ncontent-length: 0\r\n\r\n"),
    reply(b"HTTP/1.1 200 OK\r\nx: a\r\n b\r\ncontent-length: 0\r\n\r\n"),
    reply(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"),
    reply(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n2\r\nhi\r\n0\r\n\r\n"),
    reply(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\nhi"),
    reply(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999999\r\n\r\n"),
    reply(b"HTTP/1.1 200 OK\r\nce-id: 1\r\ntransfer-encoding: gzip, chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"),
    reply(b"HTTP/1.1 200 OK\r\nce-id: 1\r\ntransfer-encoding: gzip\r\n\r\nhi", keep=False),
    reply(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"),
]


@pytest.mark.parametrize("number", range(len(UNREADABLE)))
async def test_incomplete_answer_is_a_read_error(number: int) -> None:
    async with ScriptedServer(UNREADABLE[number], reply(answer(202))) as server, posting(server.url()) as poster:
        first = await poster.answer(b"event")
        assert first.kind == "read"
        assert isinstance(first.verdict, RetryableFailure)
        assert (await poster.answer(b"event")).status == 202
    assert len(server.connections) == 2


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
ENDLESS_BODIES = [
    (b"transfer-encoding: chunked\r\n\r\n", b"1000\r\n" + b"x" * 4096 + b"\r\n"),
    (b"transfer-encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 1000),
    (b"content-length: 1000000000\r\n\r\n", b"x" * 65536),
    (b"\r\n", b"x" * 65536),
]
ENDLESS = [
    forever(b"HTTP/1.1 200 OK\r\n", b"x: " + b"y" * 4096 + b"\r\n"),
    forever(b"HTTP/1.1 200 OK\r\nx: ", b"y" * 4096),
    forever(b"HTTP/1.1 200 OK\r\n", b"y" * 4096),
    forever(b"HTTP/1.1 200 ", b"y" * 4096),
    forever(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
    forever(b"", b"\r\n" * 1000),
    forever(CHUNKED + b"2;", b"x" * 4096),
    forever(CHUNKED + b"2\r\nhi\r\n0\r\n", b"x: " + b"y" * 4096 + b"\r\n"),
    forever(CHUNKED + b"2\r\nhi\r\n0\r\nx: ", b"y" * 4096),
    *[forever(b"HTTP/1.1 200 OK\r\nce-id: 1\r\n" + framing, piece) for framing, piece in ENDLESS_BODIES],
]


@pytest.mark.parametrize("number", range(len(ENDLESS)))
async def test_endless_answers_are_cut_by_size(number: int) -> None:
    async with ScriptedServer(ENDLESS[number], reply(answer(202))) as server, posting(server.url(), SMALL) as poster:
        first = await poster.answer(b"event")
        assert first.kind == "read"
        assert "bytes" in str(first.error)
        assert (await poster.answer(b"event")).status == 202


@pytest.mark.parametrize("number", range(len(ENDLESS_BODIES)))
async def test_subscriber_that_took_the_event_is_not_asked_again_for_its_talk(number: int) -> None:
    """A page of any length that claims no event does not make a delivery fail."""
    framing, piece = ENDLESS_BODIES[number]
    endless = forever(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n" + framing, piece)
    async with ScriptedServer(endless) as server, posting(server.url(), SMALL) as poster:
        got = await poster.answer(b"event")
        assert (got.status, len(got.body), got.verdict) == (200, 20_000, DELIVERED)


async def test_memory_stays_flat_on_endless_answers() -> None:
    endless = forever(b"HTTP/1.1 200 OK\r\nce-id: 1\r\n\r\n", b"x" * 65536)
    async with ScriptedServer(endless) as server, posting(server.url()) as poster:
        assert (await poster.answer()).kind == "read"
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(30):
            answers = await asyncio.gather(*[poster.post() for _ in range(4)])
            assert {each.kind for each in answers} == {"read"}
        grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib < 32 * 1024, "120 answers of over 1 MiB each were read, four at a time"


@pytest.mark.parametrize(("status", "read"), [(202, 20_000), (400, 8_192), (404, 8_192), (503, 8_192)])
async def test_where_the_status_decides_a_body_over_the_limit_changes_nothing(status: int, read: int) -> None:
    big = reply(answer(status, b"b" * 300_000))
    async with ScriptedServer(big) as server, posting(server.url(), SMALL) as poster:
        got = await poster.answer(b"event")
        assert (got.status, got.body) == (status, b"b" * read)
        assert (await poster.answer(b"event")).status == status
    assert len(server.connections) == 2


@pytest.mark.parametrize("status", [300, 400, 429, 500, 799])
@pytest.mark.parametrize(
    "framing", [b"content-length: 1000000\r\n\r\n", b"transfer-encoding: chunked\r\n\r\nf4240\r\n"]
)
async def test_of_a_failure_only_the_start_is_read(status: int, framing: bytes) -> None:
    """The rest of it is never sent: a client that reads more than 8 KiB waits until the attempt's time limit."""
    long = reply(b"HTTP/1.1 %d No\r\n" % status + framing + b"e" * 8_193)
    async with ScriptedServer(long) as server, posting(server.url()) as poster:
        got = await poster.answer(b"event")
        assert (got.status, got.body) == (status, b"e" * 8_192)
        assert (await poster.answer(b"event")).status == status
    assert len(server.connections) == 2


async def test_reply_that_declares_itself_too_long_is_not_read_to_the_limit() -> None:
    event = b"HTTP/1.1 200 OK\r\nce-id: 1\r\ncontent-length: 1048577\r\n\r\n"
    async with ScriptedServer(reply(event + b"e" * 100_000)) as server, posting(server.url()) as poster:
        got = await poster.answer(b"event")
        assert (got.kind, "1048576 bytes" in str(got.error)) == ("read", True)


async def test_after_a_failure_that_is_read_whole_the_connection_stays() -> None:
    whole = reply(answer(500, b"e" * 8_192))
    async with ScriptedServer(whole) as server, posting(server.url()) as poster:
        for _ in range(3):
            got = await poster.answer(b"event")
            assert (got.status, len(got.body)) == (500, 8_192)
    assert len(server.connections) == 1


@pytest.mark.parametrize("chunked", [False, True])
async def test_reply_at_the_limit_and_one_over(chunked: bool) -> None:
    def with_body(size: int) -> Step:
        body = b"b" * size
        if chunked:
            return reply(CHUNKED.replace(b"\r\n", b"\r\nce-id: 1\r\n", 1) + b"%x\r\n%b\r\n0\r\n\r\n" % (size, body))
        return reply(answer(200, body, "ce-id: 1"))

    async with ScriptedServer(with_body(20_000), with_body(20_001)) as server, posting(server.url(), SMALL) as poster:
        assert len((await poster.answer(b"event")).body) == 20_000
        assert (await poster.answer(b"event")).kind == "read"


SLOW = [
    silence(),
    forever(b"HTTP/1.1 200 OK\r\n", b"x", gap_s=0.02),
    forever(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n", b"x", gap_s=0.02),
    forever(b"HTTP/1.1 100 Continue\r\n\r\n", b"", gap_s=1),
    forever(CHUNKED, b"1\r\nx\r\n", gap_s=0.02),
]


@pytest.mark.parametrize("number", range(len(SLOW)))
async def test_slow_answers_are_cut_by_time(number: int) -> None:
    async with ScriptedServer(SLOW[number], reply(answer(202))) as server, posting(server.url()) as poster:
        slow = poster.post(b"event", timeout_s=0.2)
        await asyncio.sleep(0.05)
        assert (await poster.answer(b"event")).status == 202, "it had to wait for the slow one"
        assert (await slow).kind == "timeout"


@pytest.mark.parametrize("answered", [True, False])
async def test_what_was_answered_while_the_process_stood_still_counts(answered: bool) -> None:
    """A process that is frozen or starved for longer than the limit sends nothing again that was answered meanwhile."""
    stands_still, read = threading.Event(), threading.Event()

    def serve(listener: socket.socket, posts: int) -> None:
        with ExitStack() as stack:
            connections = [stack.enter_context(listener.accept()[0]) for _ in range(posts)]
            for connection in connections:
                connection.recv(65_536)
            connections[0].sendall(answer(202))
            assert stands_still.wait(60)
            for connection in connections[1:] if answered else ():
                connection.sendall(answer(202))
            read.wait(60)

    def stand_still(*_: object) -> None:
        # while answers are read: uvloop asks its timers next, and its sockets after them
        on_time.append(time.monotonic() < late_at)
        stands_still.set()
        time.sleep(max(0.0, late_at + 0.3 - time.monotonic()))

    for timeout_s in (0.3, 3.0, 30.0):  # on a busy machine, the posts may be late before they have arrived
        on_time: list[bool] = []
        stands_still.clear()
        read.clear()
        with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as thread:
            serving = thread.submit(serve, listener, 9)
            async with posting(f"http://127.0.0.1:{listener.getsockname()[1]}") as poster:
                late_at = time.monotonic() + timeout_s
                poster.sender.post(poster.request(), 60.0, stand_still)
                answers = [poster.post(b"event", timeout_s=timeout_s) for _ in range(8)]
                kinds = {(await each).kind for each in answers}
                stands_still.set()
                read.set()
                serving.result(60)
        if on_time == [True]:
            assert kinds == {"" if answered else "timeout"}
            return
    pytest.fail("nine posts took 30 s to arrive")


async def test_subscriber_that_does_not_read_is_cut_by_time() -> None:
    with socket.create_server(
        ("127.0.0.1", 0)
    ) as deaf:  # the kernel accepts the connection, and no process reads from it
        async with posting(f"http://127.0.0.1:{deaf.getsockname()[1]}/") as poster:
            assert (await poster.answer(b"x" * 30_000_000, timeout_s=0.2)).kind == "timeout"


async def test_many_that_are_late_at_once_all_end() -> None:
    async with ScriptedServer(silence()) as server, posting(server.url(), PoolConfig(connections_max=70)) as poster:
        answers = await asyncio.gather(*[poster.post(b"event", timeout_s=0.2) for _ in range(150)])
        assert {each.kind for each in answers} == {"timeout"}
