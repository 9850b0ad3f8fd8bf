"""Every row of the ingress answer table, through real HTTP on a real socket, on both web drivers.

Beside the table of `ingress_rows`: what takes more than one request, or a Kafka that does not answer.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from knative.contract.records import Channel
from knative.ports import ProduceProblem
from tests.contract.ingress_rows import CE, EVENT_BYTES_MAX, PROBE, ROWS, URL, Row
from tests.support.fakes import CountingObserve, MemoryContract, MemoryProduce
from tests.support.webapp import RunningWeb
from web.http.config import DriverConfig
from web.ingress import view
from web.pages import health, subscribers

WAITING_BYTES_MAX = 3 * (EVENT_BYTES_MAX + 4096)
ORDERS = Channel("u1", 1, "demo", "orders", "t.orders", "t.orders.dlq", 4, ("orders.example.com",))
BILLS = Channel("u2", 1, "demo", "bills", "t.bills", "t.bills.dlq", 1, ("lost-kn-channel.shop.svc.cluster.local",))
BROKER = Channel("u3", 1, "demo", "default", "t.broker", "t.broker.dlq", 1, kind="Broker")


class Service:
    """Ingress, health and subscribers with twins behind them."""

    def __init__(self, takes_events: bool = True) -> None:
        self.takes_events = takes_events
        self.produce = MemoryProduce()
        self.observe = CountingObserve()
        self.contract = MemoryContract(ORDERS, BILLS, BROKER)
        self.own: dict[str, MemoryProduce] = {}  # by reference of a Secret
        self.ready = True
        self.running = RunningWeb(self._setup, DriverConfig(event_bytes_max=EVENT_BYTES_MAX))

    def _setup(self, app: Any) -> None:
        limits = view.IngressConfig(
            inflight_max=5,
            bytes_max=WAITING_BYTES_MAX,
            event_bytes_max=EVENT_BYTES_MAX,
            takes_events=self.takes_events,
        )
        self.state = view.register(
            app,
            limits,
            self.contract,
            self.produce,
            self.observe,
            own_producer=lambda reference: self.own.get(reference, "no folder"),
        )
        health.register(app, lambda: (True, {}), lambda: (self.ready, {"kafka": False}))
        subscribers.register(app, subscribers.SubscribersPage(self.contract, lambda namespace, channel: None))

    def request(self, method: str, path: str, headers: dict[str, str], body: bytes | None) -> tuple[int, Any, bytes]:
        """-> (status, headers, body) of one request on a connection of its own."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.running.port, timeout=60)) as client:
            client.request(method, path, body, headers)
            answer = client.getresponse()
            return answer.status, answer.headers, answer.read()

    def post(self, body: bytes | None = b"{}", headers: dict[str, str] = CE) -> tuple[int, Any, bytes]:
        """One good event."""
        return self.request("POST", URL, headers, body)


@pytest.fixture(scope="module")
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    running = Service()
    yield running
    running.running.stop()


@pytest.fixture(autouse=True)
def _fresh(service: Service) -> None:
    service.produce.records.clear()
    service.observe.requests.clear()
    service.produce.failing = None
    service.running.call(lambda: service.contract.change(ORDERS, BILLS, BROKER))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_request_gets_the_answer_of_its_row(service: Service, row: Row) -> None:
    status, headers, body = service.request(row.method, row.path, row.headers, row.body)
    assert status == row.status
    for name, value in row.answers.items():
        assert headers.get(name) == value
    for text in row.says:
        assert text in body.decode()
    if status >= 400 and row.method != "HEAD":
        assert b"\n" not in body.rstrip(b"\n"), "one line"
        assert "error" in json.loads(body)
    if status == 202:
        assert body == b""
    assert [record.topic for record in service.produce.records] == ([row.topic] if row.topic else [])
    if row.record is not None:
        (record,) = service.produce.records
        assert (record.headers, record.value) == row.record
    assert service.observe.requests == {status: 1}


@pytest.mark.parametrize(
    "lines",
    [
        [("Content-Encoding", b"identity"), ("Content-Encoding", b"gzip")],
        [("x-request-id", b"\xff")],
        [("x", b"\xc0\xa0")],
        [("K-Network-Probe", b"probe"), ("K-Network-Hash", b"\xff")],
    ],
    ids=["coded in the second place", "no UTF-8", "overlong UTF-8", "a hash that is no UTF-8"],
)
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_head_that_is_malformed_is_400(service: Service, method: str, lines: list[tuple[str, bytes]]) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", service.running.port, timeout=60)) as client:
        client.putrequest(method, URL)
        for name, value in [*((name, text.encode()) for name, text in CE.items()), *lines]:
            client.putheader(name, value)
        client.putheader("Content-Length", "0")
        client.endheaders()
        answer = client.getresponse()
        assert answer.status == 400
        assert b"Traceback" not in answer.read()
    assert service.produce.records == []


@pytest.mark.parametrize(
    ("problem", "status", "retry_after"),
    [
        (ProduceProblem.UNAVAILABLE, 503, "1"),
        (ProduceProblem.REFUSED, 503, "1"),
        (ProduceProblem.FULL, 429, "1"),
        (ProduceProblem.TOO_LARGE, 413, None),
    ],
)
def test_problem_of_kafka_has_its_status(
    service: Service, problem: ProduceProblem, status: int, retry_after: str | None
) -> None:
    service.produce.failing = problem
    got, headers, _ = service.post()
    assert (got, headers.get("retry-after")) == (status, retry_after)
    assert (service.state.inflight, service.state.inflight_bytes) == (0, 0)
    assert service.observe.requests == {status: 1}


def test_before_the_contract_is_read_503_then_202(service: Service) -> None:
    service.running.call(lambda: service.contract.change(loaded=False))
    status, headers, _ = service.post()
    assert (status, headers["retry-after"]) == (503, "1")
    assert service.request("GET", URL, PROBE, None)[0] == 503
    assert service.request("POST", "/a/b/c/d", CE, b"")[0] == 404, "no ingress URL, whatever the contract says"
    service.running.call(lambda: service.contract.change(ORDERS))
    assert service.post()[0] == 202


def test_where_no_events_are_taken_what_is_known_is_503(service: Service) -> None:
    elsewhere = Service(takes_events=False)
    try:
        for _ in range(2):
            status, headers, body = elsewhere.post()
            assert (status, headers["retry-after"]) == (503, "1")
            assert "PENSTOCK_ROLE" in body.decode()
        by_host = CE | {"Host": "orders-kn-channel.demo.svc"}
        assert elsewhere.request("POST", "/", by_host, b"")[0] == 503
        assert elsewhere.request("GET", URL, PROBE, None)[0] == 503
        assert elsewhere.request("POST", "/channels/demo/nothing", CE, b"")[0] == 404
        assert elsewhere.request("GET", "/healthz", {}, None)[0] == 200
        assert elsewhere.produce.records == []
    finally:
        elsewhere.running.stop()


def test_broker_with_a_secret_of_its_own_has_a_producer_of_its_own(service: Service) -> None:
    own = replace(BROKER, secret="shop/kafka")
    service.running.call(lambda: service.contract.change(ORDERS, own))

    def post() -> tuple[int, Any, bytes]:
        return service.request("POST", own.path, CE, b"{}")

    status, headers, body = post()
    assert (status, headers["retry-after"]) == (503, "1")
    assert "no folder" in body.decode()
    assert (service.state.inflight, service.produce.records) == (0, [])
    assert service.post()[0] == 202
    service.own["shop/kafka"] = produce = MemoryProduce()
    assert post()[0] == 202
    assert [record.topic for record in produce.records] == ["t.broker"]
    assert [record.topic for record in service.produce.records] == ["t.orders"]
    assert (service.state.inflight, service.state.inflight_bytes) == (0, 0)


def test_removed_channel_is_404_at_once(service: Service) -> None:
    assert service.post()[0] == 202
    service.running.call(lambda: service.contract.change(BILLS))
    assert service.post()[0] == 404


def wait_until_held(service: Service, count: int) -> None:
    """Until this many requests wait for Kafka."""
    end_s = time.monotonic() + 60
    while service.running.call(lambda: len(service.produce.held)) < count:
        assert time.monotonic() < end_s, "a request does not wait for Kafka: it may have been refused"


def held_posts(
    service: Service, count: int, body: bytes | None, headers: dict[str, str] = CE
) -> list[http.client.HTTPConnection]:
    """So many requests that wait for their acknowledgement."""
    service.produce.holding = True
    clients = []
    for number in range(count):
        client = http.client.HTTPConnection("127.0.0.1", service.running.port, timeout=60)
        client.request("POST", URL, body, headers)
        clients.append(client)
        wait_until_held(service, number + 1)
    return clients


LARGE_HEAD = CE | {f"ce-x{number}": "x" * 8_000 for number in range(6)}


@pytest.mark.parametrize(
    ("count", "body", "head"),
    [(5, b"{}", CE), (3, b"x" * EVENT_BYTES_MAX, CE), (4, None, LARGE_HEAD)],
    ids=["requests", "bytes of bodies", "bytes of heads"],
)
def test_more_than_may_wait_is_429(service: Service, count: int, body: bytes | None, head: dict[str, str]) -> None:
    clients = held_posts(service, count, body, head)
    status, headers, _ = service.post(body, head)
    assert (status, headers["retry-after"]) == (429, "1")
    assert len(service.produce.records) == count
    assert service.observe.requests == {429: 1}, "no 202 before the acknowledgement"
    service.running.call(service.produce.release)
    for client in clients:
        assert client.getresponse().status == 202
        client.close()
    assert service.post()[0] == 202
    assert (service.state.inflight, service.state.inflight_bytes) == (0, 0)


def test_drain_lets_waiting_requests_have_their_answer(service: Service) -> None:
    draining = Service()
    try:
        (client,) = held_posts(draining, 1, b"{}")
        running = draining.running
        drained = asyncio.run_coroutine_threadsafe(running.web.drain(60.0), running.loop)
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                running.connect().close()
            except ConnectionError:
                break
        running.call(draining.produce.release)
        assert client.getresponse().status == 202
        client.close()
        assert drained.result(60) == 0
        assert time.monotonic() < until
    finally:
        draining.running.stop()


@pytest.mark.parametrize("path", ["/healthz", "/healthy", "/readyz"])
def test_health_pages_answer_probes_with_200(service: Service, path: str) -> None:
    probe = {"User-Agent": "kube-probe/1.36", "K-Kubelet-Probe": "queue"}
    status, _, body = service.request("GET", path, probe, None)
    assert status == 200
    assert json.loads(body)["status"] in ("ok", "ready")


def test_not_ready_is_503_with_fields(service: Service) -> None:
    service.ready = False
    status, _, body = service.request("GET", "/readyz", {}, None)
    service.ready = True
    assert status == 503
    assert json.loads(body) == {"status": "not ready", "kafka": False}
