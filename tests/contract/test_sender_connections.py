"""How a Sender uses connections: keeps, renews, limits and closes them; and what a destination may be."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import AsyncExitStack
from typing import Any

import pytest

from agents.http.egress_guard import EgressConfig
from agents.http.pool import PoolConfig
from knative.delivery.verdicts import FinalFailure, RetryableFailure
from tests.contract.posting import LIMIT_S, posting
from tests.support.scripted_server import ACCEPTED, ScriptedServer, answer, forever, half_close, reply, reset, silence
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio

FINE = reply(ACCEPTED)


async def test_what_is_sent_is_what_was_given() -> None:
    async with ScriptedServer(FINE) as server, posting(server.url("/a/b?c=d%20e#f")) as poster:
        await poster.answer(b"event \x00\xff")
    head = f"POST /a/b?c=d%20e HTTP/1.1\r\nhost: 127.0.0.1:{server.port}\r\nuser-agent: penstock\r\nprefer: reply"
    expected = f"{head}\r\nkn-namespace: default\r\ncontent-length: 8\r\n\r\n".encode() + b"event \x00\xff"
    assert server.requests == [expected]


async def test_large_event_arrives_whole() -> None:
    async with ScriptedServer(FINE) as server, posting(server.url()) as poster:
        body = bytes(range(256)) * 20_000
        assert (await poster.answer(body)).status == 202
        assert (await poster.answer(body)).status == 202
    assert [request[-len(body) :] == body for request in server.requests] == [True, True]
    assert len(server.connections) == 1


async def test_connection_is_used_again() -> None:
    async with ScriptedServer(FINE) as server, posting(server.url()) as poster:
        for number in range(20):
            assert (await poster.answer(b"%d" % number)).status == 202
    assert len(server.connections) == 1
    assert [request[-1:] for request in server.requests[:10]] == [b"%d" % number for number in range(10)]


async def test_side_by_side_each_has_its_own_connection() -> None:
    async with ScriptedServer(reply(ACCEPTED, gap_s=0.02)) as server, posting(server.url()) as poster:
        for _ in range(3):
            answers = [poster.post(b"x") for _ in range(10)]
            assert poster.sender.in_flight == 10
            assert {each.status for each in await asyncio.gather(*answers)} == {202}
            assert poster.sender.in_flight == 0
    assert len(server.connections) == 10


async def test_over_the_cap_attempts_wait_their_turn() -> None:
    config = PoolConfig(connections_max=2)
    async with ScriptedServer(reply(ACCEPTED, gap_s=0.005)) as server, posting(server.url(), config) as poster:
        ended: list[int] = []
        answers = [poster.post(b"%02d" % number) for number in range(20)]
        for number, each in enumerate(answers):
            each.add_done_callback(lambda _, number=number: ended.append(number))  # type: ignore[misc]
        assert {each.status for each in await asyncio.gather(*answers)} == {202}
    assert len(server.connections) == 2
    for connection in server.connections:
        assert connection.requests == sorted(connection.requests), "a later one overtook"
    assert all(abs(place - number) <= 2 for place, number in enumerate(ended))


async def test_time_in_the_queue_counts() -> None:
    config = PoolConfig(connections_max=1)
    async with ScriptedServer(silence()) as server, posting(server.url(), config) as poster:
        slow = poster.post(b"1")
        await until(lambda: server.requests)
        assert (await poster.post(b"2", timeout_s=0.1)).kind == "timeout"
        assert not slow.done()
        poster.sender.abort()
        assert (await slow).kind == "closed"
    assert len(server.requests) == 1


async def test_post_in_a_callback_goes_out_on_the_same_connection() -> None:
    async with ScriptedServer(FINE) as server, posting(server.url()) as poster:
        left, finished = [200], asyncio.Event()

        def done(status: object, headers: object, body: object) -> None:
            left[0] -= 1
            if left[0]:
                poster.sender.post(poster.request(), LIMIT_S, done)
            else:
                finished.set()

        poster.sender.post(poster.request(), LIMIT_S, done)
        async with asyncio.timeout(LIMIT_S):
            await finished.wait()
    assert len(server.connections) == 1


@pytest.mark.parametrize("accident", [reset(), reply(keep=False), half_close()], ids=["reset", "close", "half-close"])
async def test_stale_connection_costs_no_attempt(accident: object) -> None:
    async with ScriptedServer(FINE, accident, FINE) as server, posting(server.url()) as poster:  # type: ignore[arg-type]
        assert (await poster.answer(b"1")).status == 202
        assert (await poster.answer(b"2")).status == 202
    assert [len(connection.requests) for connection in server.connections] == [2, 1]
    assert server.requests[1] == server.requests[2], "sent again, on a fresh connection"


async def test_stale_connection_is_replaced_only_once() -> None:
    async with ScriptedServer(FINE, reset()) as server, posting(server.url()) as poster:
        assert (await poster.answer(b"1")).status == 202
        assert (await poster.answer(b"2")).kind == "read"
    assert [len(connection.requests) for connection in server.connections] == [2, 1]


async def test_connection_lost_in_mid_answer_is_not_stale() -> None:
    async with ScriptedServer(FINE, reset(b"H")) as server, posting(server.url()) as poster:
        assert (await poster.answer(b"1")).status == 202
        assert (await poster.answer(b"2")).kind == "read"
    assert len(server.requests) == 2


async def test_deadline_holds_over_the_second_try() -> None:
    async with ScriptedServer(FINE, reset(), silence()) as server, posting(server.url()) as poster:
        assert (await poster.answer(b"1")).status == 202
        assert (await poster.answer(b"2", timeout_s=0.2)).kind == "timeout"


async def test_connection_closed_while_idle_is_noticed() -> None:
    async with ScriptedServer(FINE) as server, posting(server.url()) as poster:
        await poster.answer(b"1")
        server.hang_up(0)
        await until(lambda: poster.sender.open_sockets == 0)
        assert (await poster.answer(b"2")).status == 202
    assert len(server.connections) == 2
    assert len(server.requests) == 2


async def test_connection_that_speaks_unasked_is_dropped() -> None:
    async with ScriptedServer(FINE) as server, posting(server.url()) as poster:
        await poster.answer(b"1")
        server.push(0, b"HTTP/1.1 500 Boo\r\ncontent-length: 0\r\n\r\n")
        await until(lambda: poster.sender.open_sockets == 0)
        assert (await poster.answer(b"2")).status == 202
    assert len(server.connections) == 2


@pytest.mark.parametrize(
    "first",
    [
        ACCEPTED + b"H",
        ACCEPTED + answer(500),
        answer(202, b"", "connection: close"),
        ACCEPTED.replace(b"1.1", b"1.0"),
    ],
)
async def test_connection_that_must_not_be_used_again(first: bytes) -> None:
    async with ScriptedServer(reply(first), FINE) as server, posting(server.url()) as poster:
        assert (await poster.answer(b"1")).status == 202
        assert (await poster.answer(b"2")).status == 202
    assert [len(connection.requests) for connection in server.connections] == [1, 1]


async def test_answer_before_the_request_was_taken() -> None:
    async def hasty(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer(413))
        await reader.read(1)
        await gone.wait()
        writer.transport.abort()

    gone = asyncio.Event()
    server = await asyncio.start_server(hasty, "127.0.0.1", 0, limit=1024)
    async with server, posting(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/") as poster:
        assert (await poster.answer(b"x" * 30_000_000)).status == 413
        await until(lambda: poster.sender.open_sockets == 0)
        gone.set()
        await asyncio.sleep(0.05)


async def test_idle_connections_are_closed_and_timers_stop() -> None:
    config = PoolConfig(idle_s=0.2)
    async with ScriptedServer(reply(ACCEPTED, gap_s=0.01)) as server, posting(server.url(), config) as poster:
        await asyncio.gather(*[poster.post() for _ in range(5)])
        assert poster.sender.open_sockets == 5
        await until(lambda: poster.sender.open_sockets == 0 and server.open == 0)
        await until(lambda: not poster.sender.has_timers)
        assert (await poster.answer()).status == 202
        assert poster.sender.has_timers


async def test_abort_fails_all_that_is_in_flight_at_once() -> None:
    config = PoolConfig(connections_max=3)
    async with ScriptedServer(FINE, silence()) as server, posting(server.url(), config) as poster:
        await poster.answer()
        answers = [poster.post(timeout_s=60) for _ in range(6)]  # sent, connecting, waiting
        poster.sender.abort()
        assert poster.sender.in_flight == 0
        assert {each.result().kind for each in answers} == {"closed"}
        answers = [poster.post(timeout_s=60) for _ in range(6)]
        await until(lambda: server.open == 3)
        poster.sender.abort()
        assert {each.result().kind for each in answers} == {"closed"}


async def test_close_lets_what_is_in_flight_finish() -> None:
    config = PoolConfig(connections_max=2)
    async with ScriptedServer(reply(b"", ACCEPTED, gap_s=0.05)) as server, posting(server.url(), config) as poster:
        answers = [poster.post() for _ in range(4)]
        await poster.sender.close(LIMIT_S)
        assert [each.result().status for each in answers] == [202] * 4
        late = poster.post()
        assert (await late).kind == "closed"
        assert poster.sender.open_sockets == 0
        assert not poster.sender.has_timers
        await poster.sender.close(LIMIT_S)
        await until(lambda: server.open == 0)


async def test_close_has_a_limit() -> None:
    async with ScriptedServer(silence()) as server, posting(server.url()) as poster:
        answers = [poster.post() for _ in range(3)]
        await until(lambda: server.open == 3)
        await poster.sender.close(0.05)
        assert {each.result().kind for each in answers} == {"closed"}
        assert poster.sender.open_sockets == 0


async def test_one_lane_does_not_wait_for_another() -> None:
    bad = [silence(), forever(b"HTTP/1.1 200 OK\r\n", b"x", gap_s=0.02), reset(), reply(b"junk")]
    async with ScriptedServer(*bad, FINE) as server, posting(server.url()) as poster:
        stuck = []
        for _ in bad:
            stuck.append(poster.post(timeout_s=60))
            await until(lambda: len(server.requests) == len(stuck))
        for _ in range(50):
            assert (await poster.answer()).status == 202


# -- where to


async def test_closed_port_is_a_connection_error() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        async with posting(f"http://127.0.0.1:{unused.getsockname()[1]}/") as poster:
            got = await poster.answer()
    assert got.kind == "connect"
    assert isinstance(got.verdict, RetryableFailure)


async def test_connection_that_does_not_come_about() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        uri = f"http://127.0.0.1:{full.getsockname()[1]}/"
        async with posting(uri) as filler:
            for _ in range(4):
                filler.post()
            await asyncio.sleep(0.1)
            async with posting(uri, PoolConfig(connect_limit_s=0.2)) as poster:
                assert (await poster.answer()).kind == "connect"
            async with posting(uri, PoolConfig(connect_limit_s=600.0)) as poster:
                assert (await poster.answer(timeout_s=0.1)).kind == "timeout"


@pytest.mark.parametrize("host", ["no-such-host.invalid", "xn--nosuch-5ya.invalid"])
async def test_unknown_host_name_fails_the_attempt(host: str) -> None:
    async with posting(f"http://{host}/") as poster:
        got = await poster.answer()
    assert got.kind == "dns"
    assert isinstance(got.verdict, RetryableFailure)


async def test_unanswered_dns_query_does_not_delay_other_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many subscribers have such names, and however many attempts: a look-up each, and each in its thread."""
    answers, asked = threading.Event(), []
    getaddrinfo = socket.getaddrinfo

    def look_up(host: str, *more: Any, **named: Any) -> Any:
        if host.startswith("hang"):
            asked.append(host)
            assert answers.wait(180)
            raise socket.gaierror(socket.EAI_AGAIN, "the name server is silent")
        return getaddrinfo(host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    async with ScriptedServer(FINE) as server, AsyncExitStack() as stack:
        stuck = []
        for number in range(20):
            poster = await stack.enter_async_context(posting(f"http://hang{number}.example/"))
            stuck += [poster.post(timeout_s=60), poster.post(timeout_s=60)]
        await until(lambda: len(asked) == 20)
        async with posting(server.url(host="localhost")) as poster:
            assert (await poster.answer()).status == 202
        answers.set()
        for attempt in stuck:
            assert (await attempt).kind == "dns"
    assert len(asked) == 20


async def test_names_and_both_kinds_of_addresses() -> None:
    async with ScriptedServer(FINE) as server, posting(server.url(host="localhost")) as poster:
        assert (await poster.answer()).status == 202
        assert f"host: localhost:{server.port}\r\n".encode() in server.requests[0]
    if not socket.has_dualstack_ipv6():
        return  # this machine has no IPv6
    async with ScriptedServer(FINE, host="::1") as server, posting(server.url(host="[::1]")) as poster:
        assert (await poster.answer()).status == 202
        assert f"host: [::1]:{server.port}\r\n".encode() in server.requests[0]


@pytest.mark.parametrize(
    "uri",
    [
        "http://169.254.169.254/latest/meta-data",
        "http://[::ffff:169.254.169.254]/",
        "http://[fe80::1]/",
        "http://0.0.0.0/",
        "http://[::]/",
        "http://255.255.255.255/",
        "http://2852039166/",  # 169.254.169.254 as the resolver reads it
        "http://0xa9.0xfe.0xa9.0xfe/",
        "http://user:secret@127.0.0.1/",
        "http://127.0.0.1:0/",
        "http://127.0.0.1:99999/",
        "ftp://127.0.0.1/",
        "/relative",
        "http:///path",
        "http://a b/",
        "http://127.0.0.1/\r\nx: y",
        "",
    ],
)
async def test_denied_address_is_a_final_failure(uri: str) -> None:
    async with posting(uri) as poster:
        got = await poster.answer()
    assert got.kind == "refused"
    assert isinstance(got.verdict, FinalFailure)
    assert "secret" not in str(got.error)


async def test_guard_is_asked_about_resolved_addresses() -> None:
    closed = EgressConfig(allow_loopback=False)
    async with ScriptedServer(FINE) as server:
        for host in ("localhost", "127.0.0.1", "127.1"):
            async with posting(server.url(host=host), guard=closed) as poster:
                got = await poster.answer()
                assert got.kind == "refused"
                assert "127.0.0.1 is a loopback address" in str(got.error)
        async with posting(server.url(host="localhost"), guard=EgressConfig(deny=("::1/128",))) as poster:
            assert (await poster.answer()).status == 202, "one refused address of two"
    assert len(server.requests) == 1


async def test_lookup_without_a_thread_fails_only_that_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ScriptedServer(FINE) as server, posting(server.url(host="localhost")) as poster:
        with monkeypatch.context() as patched:

            def none_left(_: threading.Thread) -> None:
                raise RuntimeError("can't start new thread")

            patched.setattr(threading.Thread, "start", none_left)
            got = await poster.answer()
            assert (got.kind, type(got.verdict)) == ("dns", RetryableFailure)
        assert (await poster.answer()).status == 202
