"""A web server that drains: at a stop, and when others go on with its sockets."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.contract.holding import ANSWER, POST, HeldRequests
from tests.support.certificates import Authority
from tests.support.processes import wait_until
from tests.support.webapp import LIMIT_S, RunningWeb, read_all, statuses
from web.http.config import DriverConfig


@pytest.fixture
def held() -> HeldRequests:
    return HeldRequests()


def start(web: RunningWeb, work: Any) -> Any:
    """Start a coroutine in the server's loop; its future."""
    return asyncio.run_coroutine_threadsafe(work(), web.loop)


def test_drain_answers_what_is_under_way_and_closes_the_rest(held: HeldRequests) -> None:
    with RunningWeb(held.setup) as web, ExitStack() as stack:
        idle, busy, head, half = (stack.enter_context(closing(web.connect(LIMIT_S))) for _ in range(4))
        busy.sendall(POST % (0, b""))
        held.wait_for(1)
        head.sendall(POST[:9])
        half.sendall((POST % (2, b"ok"))[:-1])
        web.call(lambda: None)
        drained = start(web, lambda: web.web.drain(LIMIT_S))
        assert read_all(idle) == b""
        with pytest.raises(ConnectionRefusedError):
            web.connect(LIMIT_S)
        head.sendall(POST[9:] % (0, b""))
        half.sendall(b"k")
        held.wait_for(3)
        assert not drained.done()
        held.answer(web, 3)
        for client in (busy, head, half):
            wire = read_all(client)
            assert statuses(wire) == [202]
            assert b"connection: close" in wire
        assert drained.result(LIMIT_S) == 0


def test_drain_answers_what_has_arrived_and_is_not_read_yet(held: HeldRequests) -> None:
    """The loop was busy when the request arrived: its connection looks idle, and a close would reset it."""
    with RunningWeb(held.setup) as web, closing(web.connect(LIMIT_S)) as client:
        wait_until("it is connected", lambda: bool(web.web._connections), LIMIT_S)

        async def drain_after_a_request() -> int:
            client.sendall(POST % (2, b"ok"))
            return int(await web.web.drain(LIMIT_S))

        drained = start(web, drain_after_a_request)
        held.answer(web)
        wire = read_all(client)
        assert statuses(wire) == [202]
        assert b"connection: close" in wire
        assert drained.result(LIMIT_S) == 0


def test_connection_that_is_used_late_in_a_hand_over_gets_its_answer(held: HeldRequests) -> None:
    """Its client was busy for longer than a sweep of the server."""
    with (
        RunningWeb(held.setup, config=DriverConfig(sweep_s=1.0, hand_over_idle_s=LIMIT_S)) as web,
        closing(web.connect(LIMIT_S)) as client,
    ):
        drained = start(web, lambda: web.web.drain(LIMIT_S, hands_over=True))
        wait_until("it accepts no more", lambda: not web.web._servers[0].is_serving(), LIMIT_S)
        time.sleep(1.5)
        client.sendall(POST % (2, b"ok"))
        held.answer(web)
        assert statuses(read_all(client)) == [202]
        assert drained.result(LIMIT_S) == 0


def test_connection_that_is_not_used_in_a_hand_over_is_closed(held: HeldRequests) -> None:
    """It would hold up the next server."""
    config = DriverConfig(sweep_s=0.1, hand_over_idle_s=0.1)
    with RunningWeb(held.setup, config=config) as web, closing(web.connect(LIMIT_S)) as client:
        wait_until("it is connected", lambda: bool(web.web._connections), LIMIT_S)
        assert web.call(lambda: web.web.drain(LIMIT_S, hands_over=True)) == 0
        assert read_all(client) == b""


def test_server_that_hands_over_cuts_no_client_that_sends(held: HeldRequests) -> None:
    """Who has just connected, or has a connection in use, gets an answer that says `connection: close`; who comes then
    waits for the next server."""
    with (
        RunningWeb(held.setup, config=DriverConfig(sweep_s=5.0, hand_over_idle_s=LIMIT_S)) as web,
        ExitStack() as stack,
    ):
        used, fresh = (stack.enter_context(closing(web.connect(LIMIT_S))) for _ in range(2))
        copies = web.call(lambda: [os.dup(server.sockets[0].fileno()) for server in web.web._servers])
        drained = start(web, lambda: web.web.drain(LIMIT_S, hands_over=True))
        moments = {used: lambda: web.web.draining, fresh: lambda: not web.web._servers[0].is_serving()}
        for client, comes in moments.items():
            wait_until("it drains", comes, LIMIT_S)
            client.sendall(POST % (2, b"ok"))
            held.answer(web)
            wire = read_all(client)
            assert statuses(wire) == [202]
            assert b"connection: close" in wire
        assert drained.result(LIMIT_S) == 0
        waiting = stack.enter_context(closing(web.connect(LIMIT_S)))
        waiting.sendall(POST % (2, b"ok"))
        for copy in copies:
            stack.enter_context(socket.socket(fileno=copy))
        with RunningWeb(held.setup, sockets=[socket.socket(fileno=os.dup(copy)) for copy in copies]) as after:
            waiting.settimeout(0.2)
            with pytest.raises(TimeoutError):
                waiting.recv(1)
            waiting.settimeout(LIMIT_S)
            after.call(after.web.serve)
            held.answer(after)
            assert waiting.recv(65536).startswith(ANSWER)


def test_server_that_hands_over_waits_for_a_handshake(held: HeldRequests, tmp_path: Path) -> None:
    """It has taken the connection, so no other server can answer. Its client would be refused."""
    authority = Authority(tmp_path / "authority")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.sign("server").in_one())

    def setup(app: Any) -> None:
        held.setup(app)
        app.conf.web_ssl_context = context

    trust = ssl.create_default_context(cafile=str(authority.certificate))
    received, to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = trust.wrap_bio(received, to_send, server_hostname="127.0.0.1")
    with (
        RunningWeb(setup, config=DriverConfig(hand_over_idle_s=LIMIT_S)) as web,
        closing(web.connect(LIMIT_S)) as client,
    ):
        with pytest.raises(ssl.SSLWantReadError):
            tls.do_handshake()
        client.sendall(to_send.read())
        received.write(client.recv(65536))  # so the server has taken it
        drained = start(web, lambda: web.web.drain(LIMIT_S, hands_over=True))
        wait_until("it accepts no more", lambda: not web.web._servers[0].is_serving(), LIMIT_S)
        with pytest.raises(TimeoutError):
            drained.result(0.2)
        tls.do_handshake()
        tls.write(POST % (2, b"ok"))
        client.sendall(to_send.read())
        held.answer(web)
        answer = b""
        while not answer:
            received.write(client.recv(65536))
            with suppress(ssl.SSLWantReadError):  # session tickets come first
                answer = tls.read(65536)
        assert statuses(answer) == [202]
        client.close()
        assert drained.result(LIMIT_S) == 0


def test_server_that_has_stopped_does_not_begin(held: HeldRequests) -> None:
    """A worker that is stopped before it is ready: connections wait for the next one."""
    with socket.create_server(("127.0.0.1", 0)) as passed:
        with RunningWeb(held.setup, sockets=[passed.dup()]) as web:
            assert web.call(lambda: web.web.drain(0.0)) == 0
            web.call(web.web.serve)
        with closing(socket.create_connection(passed.getsockname(), LIMIT_S)):
            passed.settimeout(LIMIT_S)
            passed.accept()[0].close()


def test_drain_has_a_limit(held: HeldRequests) -> None:
    with RunningWeb(held.setup) as web, closing(web.connect(LIMIT_S)) as busy:
        busy.sendall(POST % (0, b""))
        held.wait_for(1)
        assert web.call(lambda: web.web.drain(0.1)) == 1
        assert read_all(busy) == b"", "cut without an answer: it may have been stored, or not"
        conn, keep = held.waiting.pop()
        web.call(lambda: conn.finish(ANSWER, keep))  # too late, and harmless
