"""Ordinary Faust Views on our driver; starting, stopping and draining it."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from faust.web import Blueprint, View

from knative.contract.records import Channel, SubscriberStatus, Subscription
from knative.delivery.policy import Addressable
from knative.errors import PenstockError
from tables.subscriber_details import details
from tests.support.certificates import Authority
from tests.support.fakes import MemoryContract
from tests.support.processes import wait_until
from tests.support.webapp import LIMIT_S, RunningWeb, read_all, statuses
from web.http.config import DriverConfig
from web.http.raw_request import RawRequest
from web.pages import health, subscribers

SINK = Addressable("http://s/")
ROWS = [SubscriberStatus("s1", 3, "True"), SubscriberStatus("s2", 1, "Unknown", "no worker serves it")]
DETAILS = [
    details(
        Subscription(row.uid, 3, "demo", row.uid, "c", "orders", "t", "t.dlq", 1, f"g-{row.uid}", SINK), row, (), 0, 10
    )
    for row in ROWS
]


class Held(View):
    """Callback entry: keeps connections until told."""

    waiting: list[tuple[Any, bool]]

    async def get(self, request: Any) -> Any:
        """An ordinary answer beside it."""
        return self.text("plain")

    def post_raw(self, conn: Any, info: Any, request: RawRequest) -> None:
        """Answered later."""
        if request.body == b"fail":
            raise RuntimeError("secret detail")
        self.waiting.append((conn, request.keep))

    async def post(self, request: Any) -> Any:
        """Never called on our driver."""
        return self.text("not raw")


class Sites:
    """Pages of many kinds."""

    def __init__(self, static: Path) -> None:
        self.static = static
        self.waiting: list[tuple[Any, bool]] = []
        self.contract = MemoryContract(Channel("u", 1, "demo", "orders", "t", "d", 1))

    def setup(self, app: Any) -> None:
        """Register them."""
        page = app.page

        @page("/items/{name}/{rest:.+}")
        class Items(View):
            async def get(self, request: Any, name: str, rest: str) -> Any:
                return self.json(
                    {"name": name, "rest": rest, "q": request.query.get("q"), "x": request.headers.get("X-A")}
                )

            async def post(self, request: Any, name: str, rest: str) -> Any:
                return self.json({"got": await request.json()}, status=201, headers={"X-B": "y"})

            async def delete(self, request: Any, name: str, rest: str) -> Any:
                raise self.NotFound("no such item")

        async def plain(self: View, request: Any) -> Any:
            return self.text("hällo")

        async def fails(self: View, request: Any) -> Any:
            raise RuntimeError("secret detail")

        page("/plain")(plain)
        page("/fails")(fails)
        assert Items.view_path
        blueprint = Blueprint("blue")

        @blueprint.route("/page/", name="page")
        class Blue(View):
            async def get(self, request: Any) -> Any:
                return self.html("<p>" + self.path_for("blue:page"))

        assert issubclass(Blue, View)
        app.web.blueprints.add("/blue/", blueprint)
        page("/held")(type("HeldHere", (Held,), {"waiting": self.waiting}))
        app.web.add_static("/files", self.static)
        health.register(app, lambda: (False, {"died": "x"}), lambda: (True, {}))
        view = subscribers.SubscribersPage(self.contract, lambda _, name: DETAILS if name == "orders" else None)
        subscribers.register(app, view)


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Sites:
    folder = tmp_path_factory.mktemp("static")
    (folder / "a.html").write_text("<b>")
    return Sites(folder)


@pytest.fixture(scope="module")
def web(sites: Sites) -> Iterator[RunningWeb]:
    with RunningWeb(sites.setup) as running:
        yield running


def ask(
    web: RunningWeb, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, Any, bytes]:
    """-> (status, headers, body)."""
    with closing(http.client.HTTPConnection("127.0.0.1", web.port, timeout=60)) as client:
        client.request(method, path, body, headers or {})
        answer = client.getresponse()
        return answer.status, answer.headers, answer.read()


def test_path_parts_query_headers_and_json(web: RunningWeb) -> None:
    status, headers, body = ask(web, "GET", "/items/a%20b/c/d?q=1", headers={"X-A": "z"})
    assert (status, headers["content-type"]) == (200, "application/json; charset=utf-8")
    assert json.loads(body) == {"name": "a b", "rest": "c/d", "q": "1", "x": "z"}
    status, headers, body = ask(web, "POST", "/items/a/b", b"[1, 2]")
    assert (status, headers["x-b"], json.loads(body)) == (201, "y", {"got": [1, 2]})


def test_text_html_blueprint_and_static(web: RunningWeb) -> None:
    status, headers, body = ask(web, "GET", "/plain")
    assert (status, headers["content-type"], body.decode()) == (200, "text/plain; charset=utf-8", "hällo")
    assert ask(web, "GET", "/blue/page/")[2] == b"<p>/blue/page/"
    status, headers, body = ask(web, "GET", "/files/a.html")
    assert (status, headers.get_content_type(), body) == (200, "text/html", b"<b>")
    assert ask(web, "GET", "/files/..%2f..%2fetc/passwd")[0] in (403, 404)
    assert ask(web, "GET", "/files/b.html")[0] == 404


def test_head_has_the_length_and_no_body(web: RunningWeb) -> None:
    status, headers, body = ask(web, "HEAD", "/plain")
    assert (status, headers["content-length"], body) == (200, "6", b"")


def test_not_found_not_allowed_and_web_errors(web: RunningWeb) -> None:
    assert ask(web, "GET", "/nowhere")[0] == 404
    assert ask(web, "GET", "/")[0] == 404, "Faust's index page is off"
    assert ask(web, "HEAD", "/nowhere")[2] == b""
    status, headers, _ = ask(web, "PUT", "/plain", b"")
    assert (status, {method.strip() for method in headers["allow"].split(",")}) == (405, {"GET", "HEAD"})
    status, _, body = ask(web, "DELETE", "/items/a/b")
    assert (status, json.loads(body)) == (404, {"error": "no such item"})


def test_failing_view_is_500_without_its_secrets(web: RunningWeb) -> None:
    status, _, body = ask(web, "GET", "/fails")
    assert status == 500
    assert b"secret" not in body
    assert b"Traceback" not in body
    assert ask(web, "GET", "/plain")[0] == 200


def test_pages_of_health_and_of_subscribers_are_json(web: RunningWeb, sites: Sites) -> None:
    assert ask(web, "GET", "/healthz")[0] == 503
    assert json.loads(ask(web, "GET", "/readyz")[2]) == {"status": "ready"}
    status, _, body = ask(web, "GET", "/subscribers/demo/orders")
    assert status == 200
    assert json.loads(body) == {
        "subscribers": [
            {"uid": "s1", "observedGeneration": 3, "ready": "True", "message": ""},
            {"uid": "s2", "observedGeneration": 1, "ready": "Unknown", "message": "no worker serves it"},
        ]
    }
    for wide in ("?wide", "?wide=1&x=y"):
        status, _, body = ask(web, "GET", f"/subscribers/demo/orders{wide}")
        assert (status, json.loads(body)) == (
            404,
            {"error": "?wide is available at the admin port only (PENSTOCK_ADMIN_PORT)"},
        )
    assert ask(web, "GET", "/subscribers/demo/nothing")[0] == 404
    web.call(lambda: sites.contract.change(loaded=False))
    status, headers, _ = ask(web, "GET", "/subscribers/demo/orders")
    assert (status, headers["retry-after"]) == (503, "1")
    web.call(lambda: sites.contract.change(loaded=True))


POST = b"POST /held HTTP/1.1\r\nHost: x\r\ncontent-length: %d\r\n\r\n%s"
ANSWER = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"


def wait_for(web: RunningWeb, sites: Sites, count: int) -> None:
    """Until this many requests are held."""
    until = time.monotonic() + 10
    while web.call(lambda: len(sites.waiting)) < count:
        assert time.monotonic() < until


def test_callback_answers_later_and_its_failure_is_500(sites: Sites) -> None:
    with RunningWeb(sites.setup) as web, closing(web.connect()) as client:
        client.sendall(POST % (4, b"fail"))
        wire = read_all(client)
        assert statuses(wire) == [500]
        assert b"secret" not in wire
        assert ask(web, "GET", "/held")[2] == b"plain"
        with closing(web.connect()) as second:
            second.sendall(POST % (2, b"ok") + POST.replace(b"POST", b"GET") % (0, b""))
            wait_for(web, sites, 1)
            conn, keep = sites.waiting.pop()
            web.call(lambda: conn.finish(ANSWER, keep))
            web.call(lambda: conn.finish(ANSWER, keep))  # twice: an error in the log, and no second answer
            assert second.recv(65536).startswith(ANSWER)


def test_drain_answers_what_is_under_way_and_closes_the_rest(sites: Sites) -> None:
    with RunningWeb(sites.setup) as web, ExitStack() as stack:
        idle, busy, half = (stack.enter_context(closing(web.connect())) for _ in range(3))
        busy.sendall(POST % (0, b""))
        wait_for(web, sites, 1)
        half.sendall((POST % (2, b"ok"))[:-1])
        web.call(lambda: None)
        drained = asyncio_future(web, lambda: web.web.drain(10.0))
        assert read_all(idle) == b""
        with pytest.raises(ConnectionRefusedError):
            web.connect()
        half.sendall(b"k")
        wait_for(web, sites, 2)
        assert not drained.done()
        while sites.waiting:
            web.call(partial(sites.waiting[0][0].finish, ANSWER, sites.waiting.pop(0)[1]))
        for client in (busy, half):
            wire = read_all(client)
            assert statuses(wire) == [202]
            assert b"connection: close" in wire
        assert drained.result(10) == 0


def test_drain_answers_what_has_arrived_and_is_not_read_yet(sites: Sites) -> None:
    """The loop was busy when the request arrived: its connection looks idle, and a close would reset it."""
    with RunningWeb(sites.setup) as web, closing(web.connect()) as client:
        wait_until("it is connected", lambda: bool(web.web._connections), LIMIT_S)

        async def drain_after_a_request() -> int:
            client.sendall(POST % (2, b"ok"))
            return int(await web.web.drain(LIMIT_S))

        drained = asyncio_future(web, drain_after_a_request)
        wait_for(web, sites, 1)
        conn, keep = sites.waiting.pop()
        web.call(lambda: conn.finish(ANSWER, keep))
        wire = read_all(client)
        assert statuses(wire) == [202]
        assert b"connection: close" in wire
        assert drained.result(LIMIT_S) == 0


def test_connection_that_is_used_late_in_a_hand_over_gets_its_answer(sites: Sites) -> None:
    """Its client was busy for longer than a sweep of the server."""
    with (
        RunningWeb(sites.setup, config=DriverConfig(sweep_s=1.0, hand_over_idle_s=15.0)) as web,
        closing(web.connect()) as client,
    ):
        drained = asyncio_future(web, lambda: web.web.drain(LIMIT_S, hands_over=True))
        wait_until("it accepts no more", lambda: not web.web._servers[0].is_serving(), LIMIT_S)
        time.sleep(1.5)
        client.sendall(POST % (2, b"ok"))
        wait_for(web, sites, 1)
        conn, keep = sites.waiting.pop()
        web.call(lambda: conn.finish(ANSWER, keep))
        assert statuses(read_all(client)) == [202]
        assert drained.result(LIMIT_S) == 0


def test_server_that_hands_over_cuts_no_client_that_sends(sites: Sites) -> None:
    """Who has just connected, or has a connection in use, gets an answer that says `connection: close`; who comes then
    waits for the next server."""
    with RunningWeb(sites.setup, config=DriverConfig(sweep_s=5.0)) as web, ExitStack() as stack:
        used, fresh = (stack.enter_context(closing(web.connect())) for _ in range(2))
        copies = web.call(lambda: [os.dup(server.sockets[0].fileno()) for server in web.web._servers])
        drained = asyncio_future(web, lambda: web.web.drain(LIMIT_S, hands_over=True))
        moments = {used: lambda: web.web.draining, fresh: lambda: not web.web._servers[0].is_serving()}
        for client, comes in moments.items():
            wait_until("it drains", comes, LIMIT_S)
            client.sendall(POST % (2, b"ok"))
            wait_for(web, sites, 1)
            conn, keep = sites.waiting.pop()
            web.call(partial(conn.finish, ANSWER, keep))
            wire = read_all(client)
            assert statuses(wire) == [202]
            assert b"connection: close" in wire
        assert drained.result(LIMIT_S) == 0
        waiting = stack.enter_context(closing(web.connect()))
        waiting.sendall(POST % (2, b"ok"))
        for copy in copies:
            stack.enter_context(socket.socket(fileno=copy))
        with RunningWeb(sites.setup, sockets=[socket.socket(fileno=os.dup(copy)) for copy in copies]) as after:
            waiting.settimeout(0.2)
            with pytest.raises(TimeoutError):
                waiting.recv(1)
            waiting.settimeout(LIMIT_S)
            after.call(after.web.serve)
            wait_for(after, sites, 1)
            conn, keep = sites.waiting.pop()
            after.call(partial(conn.finish, ANSWER, keep))
            assert waiting.recv(65536).startswith(ANSWER)


def test_server_that_hands_over_waits_for_a_handshake(sites: Sites, tmp_path: Path) -> None:
    """It has taken the connection, so no other server can answer. Its client would be refused."""
    authority = Authority(tmp_path / "authority")
    signed = authority.sign("server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(signed.certificate, signed.key)

    def setup(app: Any) -> None:
        sites.setup(app)
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
        drained = asyncio_future(web, lambda: web.web.drain(LIMIT_S, hands_over=True))
        wait_until("it accepts no more", lambda: not web.web._servers[0].is_serving(), LIMIT_S)
        with pytest.raises(TimeoutError):
            drained.result(0.2)
        tls.do_handshake()
        tls.write(POST % (2, b"ok"))
        client.sendall(to_send.read())
        wait_for(web, sites, 1)
        conn, keep = sites.waiting.pop()
        web.call(lambda: conn.finish(ANSWER, keep))
        received.write(read_all(client))
        assert statuses(tls.read(65536)) == [202]
        assert drained.result(LIMIT_S) == 0


def test_server_that_has_stopped_does_not_begin(sites: Sites) -> None:
    """A worker that is stopped before it is ready: connections wait for the next one."""
    with socket.create_server(("127.0.0.1", 0)) as passed:
        with RunningWeb(sites.setup, sockets=[passed.dup()]) as web:
            assert web.call(lambda: web.web.drain(0.0)) == 0
            web.call(web.web.serve)
        with closing(socket.create_connection(passed.getsockname(), LIMIT_S)):
            passed.settimeout(LIMIT_S)
            passed.accept()[0].close()


def test_drain_has_a_limit(sites: Sites) -> None:
    with RunningWeb(sites.setup) as web, closing(web.connect()) as busy:
        busy.sendall(POST % (0, b""))
        wait_for(web, sites, 1)
        assert web.call(lambda: web.web.drain(0.1)) == 1
        assert read_all(busy) == b"", "cut without an answer: it may have been stored, or not"
        conn, keep = sites.waiting.pop()
        web.call(lambda: conn.finish(ANSWER, keep))  # too late, and harmless


def asyncio_future(web: RunningWeb, work: Any) -> Any:
    """Start a coroutine in the server's loop; its future."""
    return asyncio.run_coroutine_threadsafe(work(), web.loop)


def test_what_our_driver_does_not_have_is_refused(sites: Sites) -> None:
    with RunningWeb(sites.setup, config=DriverConfig()) as web:
        with pytest.raises(PenstockError, match="CORS"):
            web.web.route("/x", lambda: None, {"*": object()})
        with pytest.raises(PenstockError, match="WSGI"):
            web.call(lambda: web.web.wsgi())
        assert web.web.port == web.port
