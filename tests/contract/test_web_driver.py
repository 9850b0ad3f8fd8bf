"""Ordinary Faust Views on our driver, and what it does not have."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from faust.web import Blueprint, View

from knative.contract.records import Channel, SubscriberStatus, Subscription
from knative.delivery.policy import Addressable
from knative.errors import PenstockError
from tables.subscriber_details import details
from tests.contract.holding import ANSWER, POST, HeldRequests
from tests.support.fakes import MemoryContract
from tests.support.webapp import RunningWeb, read_all, statuses
from web.http.config import DriverConfig
from web.pages import health, subscribers

SINK = Addressable("http://s/")
ROWS = [SubscriberStatus("s1", 3, "True"), SubscriberStatus("s2", 1, "Unknown", "no worker serves it")]
DETAILS = [
    details(
        Subscription(row.uid, 3, "demo", row.uid, "c", "orders", "t", "t.dlq", 1, f"g-{row.uid}", SINK), row, (), 0, 10
    )
    for row in ROWS
]


class Sites:
    """Pages of many kinds."""

    def __init__(self, static: Path) -> None:
        self.static = static
        self.held = HeldRequests()
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
        self.held.setup(app)
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


def test_callback_answers_later_and_its_failure_is_500(sites: Sites) -> None:
    with RunningWeb(sites.setup) as web, closing(web.connect()) as client:
        client.sendall(POST % (4, b"fail"))
        wire = read_all(client)
        assert statuses(wire) == [500]
        assert b"secret" not in wire
        assert ask(web, "GET", "/held")[2] == b"plain"
        with closing(web.connect()) as second:
            second.sendall(POST % (2, b"ok") + POST.replace(b"POST", b"GET") % (0, b""))
            sites.held.wait_for(1)
            conn, keep = sites.held.waiting.pop()
            web.call(lambda: conn.finish(ANSWER, keep))
            web.call(lambda: conn.finish(ANSWER, keep))  # twice: an error in the log, and no second answer
            assert second.recv(65536).startswith(ANSWER)


def test_what_our_driver_does_not_have_is_refused(sites: Sites) -> None:
    with RunningWeb(sites.setup, config=DriverConfig()) as web:
        with pytest.raises(PenstockError, match="CORS"):
            web.web.route("/x", lambda: None, {"*": object()})
        with pytest.raises(PenstockError, match="WSGI"):
            web.call(lambda: web.web.wsgi())
        assert web.web.port == web.port
