"""What hostile, broken and merely old clients send, byte for byte, on a real socket.

Each case: what is sent, which statuses come back, and how many events were stored. After every refusal the server
must close by itself (reading ends), and the next client must be served.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from app.settings.load import Settings
from app.worker import file_limits
from app.worker.ingress_config import driver_config
from knative.contract.records import Channel
from tests.security.raw_cases import CASES, CHUNKED, CLOSE, CONFIG, GOOD, HOST, LAST, LINE, TWO, Case, P
from tests.support.fakes import CountingObserve, MemoryContract, MemoryProduce
from tests.support.webapp import LIMIT_S, RunningWeb, read_all, statuses
from web.http.config import DriverConfig
from web.ingress import view


class Ingress:
    """The server under test with its twins."""

    def __init__(self, config: DriverConfig = CONFIG, **limits: Any) -> None:
        self.produce = MemoryProduce()
        self.observe = CountingObserve()
        contract = MemoryContract(Channel("u1", 1, "demo", "orders", "t", "t.dlq", 1))
        settings = view.IngressConfig(event_bytes_max=config.event_bytes_max, **limits)
        self.running = RunningWeb(
            lambda app: _ignore(view.register(app, settings, contract, self.produce, self.observe)), config=config
        )


def _ignore(_: object) -> None:
    return None


@contextlib.contextmanager
def serving(config: DriverConfig = CONFIG, **limits: Any) -> Iterator[Ingress]:
    """A server, stopped at the end."""
    server = Ingress(config, **limits)
    try:
        yield server
    finally:
        server.running.stop()


@pytest.fixture(scope="module")
def server() -> Iterator[Ingress]:
    with serving() as running:
        yield running


def test_table_is_large_enough() -> None:
    assert len(CASES) >= 60
    assert len({row.name for row in CASES}) == len(CASES)


@pytest.mark.parametrize("row", CASES, ids=lambda row: row.name)
def test_raw_request_gets_the_statuses_of_its_row(server: Ingress, row: Case) -> None:
    server.produce.records.clear()
    wire = server.running.exchange(*row.parts, pause_s=0.001 if len(row.parts) > 10 else 0.02)
    assert tuple(statuses(wire)) == row.statuses
    assert tuple(record.value for record in server.produce.records) == row.stored
    assert b"Traceback" not in wire
    if row.statuses[-1] >= 400:
        assert b"connection: close" in wire
    assert statuses(server.running.exchange(LAST)) == [202], "the next client is served"


def test_answers_come_in_order_although_acknowledgements_do_not(server: Ingress) -> None:
    produce, running = server.produce, server.running
    produce.records.clear()
    produce.holding = True
    with contextlib.closing(running.connect()) as client:
        client.sendall(GOOD * 3 + P.replace(b"ce-id: 1\r\n", b"") + TWO + b"nonsense\r\n\r\n")
        while not produce.held:
            running.call(lambda: None)
        assert len(produce.records) == 1, "one request of a connection is under way, the others wait"
        while len(produce.records) < 3:
            running.call(lambda: produce.held.pop()(None) if produce.held else None)
        running.call(produce.release)
        assert statuses(read_all(client)) == [202, 202, 202, 400, 400]


def test_client_that_half_closes_gets_its_answers(server: Ingress) -> None:
    assert statuses(server.running.exchange(GOOD * 3, end=True)) == [202, 202, 202]
    assert statuses(server.running.exchange(GOOD + GOOD[:50], end=True)) == [202]
    assert server.running.exchange(GOOD[:50], end=True) == b""


def test_client_that_resets_while_waiting_is_forgotten(server: Ingress) -> None:
    produce, running = server.produce, server.running
    produce.holding = True
    client = running.connect()
    client.sendall(GOOD)
    while not produce.held:
        running.call(lambda: None)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    running.call(produce.release)
    assert statuses(running.exchange(LAST)) == [202]


def test_refusals_are_counted(server: Ingress) -> None:
    before = server.observe.requests[400]
    server.running.exchange(b"nonsense\r\n\r\n")
    assert server.observe.requests[400] == before + 1


HASTY = DriverConfig(
    event_bytes_max=16 * 1024 * 1024,
    header_timeout_s=0.3,
    body_idle_s=0.4,
    keepalive_idle_s=0.6,
    write_idle_s=0.4,
    linger_s=0.3,
    sweep_s=0.05,
    body_bytes_min_per_s=5000,
    connections_max=40,
    receiving_bytes_max=1024 * 1024,
)


@pytest.fixture(scope="module")
def hasty() -> Iterator[Ingress]:
    with serving(HASTY) as running:
        yield running


@pytest.mark.parametrize(
    ("sent", "status"),
    [(LINE, 408), (b"P", 408), (P + b"content-length: 2\r\n\r\nh", 408), (P + CHUNKED + b"2\r\nh", 408)],
    ids=["half a head", "one byte", "half a body", "half a chunk"],
)
def test_sender_that_stops_sending_gets_an_answer(hasty: Ingress, sent: bytes, status: int) -> None:
    assert statuses(hasty.running.exchange(sent)) == [status]


def test_idle_connection_is_closed_without_a_word(hasty: Ingress) -> None:
    assert hasty.running.exchange() == b""
    assert statuses(hasty.running.exchange(GOOD)) == [202], "and one that was used"


def drip(client: socket.socket, byte: bytes, most: int) -> bytes:
    """Send a byte now and then until the server answers."""
    client.settimeout(0.03)
    for _ in range(most):
        with contextlib.suppress(OSError):
            client.sendall(byte)
        try:
            first = client.recv(65536)
        except TimeoutError:
            continue
        client.settimeout(5)
        return first + read_all(client)
    raise AssertionError("the server waited too long")


def send_until_cut(client: socket.socket, data: bytes) -> bool:
    """Send for ever; True once the server has cut the connection (reset, broken pipe or no more room, as it comes)."""
    with contextlib.suppress(OSError):
        for _ in range(100_000):
            client.sendall(data)
        return False
    return True


@pytest.mark.parametrize("sent", [P, P + b"content-length: 10000\r\n\r\n"], ids=["head", "body"])
def test_request_that_drips_is_408(hasty: Ingress, sent: bytes) -> None:
    with contextlib.closing(hasty.running.connect()) as client:
        client.sendall(sent)
        assert statuses(drip(client, b"a", 200)) == [408]


def test_who_goes_on_sending_after_a_refusal_is_cut(hasty: Ingress) -> None:
    with contextlib.closing(hasty.running.connect()) as client:
        client.sendall(P + b"content-length: 99999999\r\n\r\n")
        assert send_until_cut(client, b"x" * 4096)


@pytest.mark.parametrize("event_bytes_max", [1024 * 1024, 9 * 1024 * 1024], ids=["the default", "a large one"])
@pytest.mark.parametrize("times", [1, 10], ids=["one over", "ten times over"])
def test_client_that_sends_all_before_it_reads_gets_its_413(event_bytes_max: int, times: int) -> None:
    body = b"x" * (times * event_bytes_max + 1)
    # Enough bytes are read; in two seconds a busy machine does not send them.
    config = replace(driver_config(Settings(event_bytes_max=event_bytes_max)), linger_s=LIMIT_S)
    with serving(config) as server:
        for _ in range(3):
            client = http.client.HTTPConnection("127.0.0.1", server.running.port, timeout=LIMIT_S)
            with contextlib.closing(client):
                client.request("POST", "/channels/demo/orders", body, {"ce-id": "1"})
                assert client.getresponse().status == 413


@pytest.mark.parametrize("opening", [b"[", b'{"a":'], ids=["arrays", "objects"])
def test_deeply_nested_json_is_400_each_time(opening: bytes) -> None:
    envelope = b'{"id":"1","source":"/s","type":"t","specversion":"1.0","data":' + opening * 100_000
    head = LINE + HOST + CLOSE + b"content-type: application/cloudevents+json\r\ncontent-length: %d\r\n\r\n"
    with serving(DriverConfig()) as server:
        for _ in range(3):
            wire = server.running.exchange(head % len(envelope) + envelope)
            assert statuses(wire) == [400]
            assert b"nested too deeply" in wire
        assert statuses(server.running.exchange(LAST)) == [202]


def test_connection_beyond_the_limit_is_503_until_one_ends(hasty: Ingress) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(HASTY.connections_max):
            stack.enter_context(contextlib.closing(hasty.running.connect()))
        wire = hasty.running.exchange()
        assert statuses(wire) == [503]
        assert b"retry-after: 1" in wire
    while hasty.running.call(lambda: len(hasty.running.web._connections)):
        pass
    assert statuses(hasty.running.exchange(LAST)) == [202], "there is room again"


def test_bodies_under_way_are_bounded_in_bytes(hasty: Ingress) -> None:
    with contextlib.closing(hasty.running.connect()) as client:
        client.sendall(P + b"content-length: 4000000\r\n\r\n")
        with contextlib.suppress(OSError):
            client.sendall(b"x" * 3_999_000)
        assert statuses(read_all(client)) == [429]
    assert hasty.running.call(lambda: hasty.running.web.receiving_bytes) == 0


def test_heads_under_way_are_bounded_in_bytes(hasty: Ingress) -> None:
    running = hasty.running
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(contextlib.closing(running.connect())) for _ in range(20)]
        for client in clients:
            client.sendall(P + b"x: " + b"a" * 60_000)
        reported = [statuses(read_all(client)) for client in clients]
    assert [429] in reported
    assert [408] in reported, "others were waited for"
    while running.call(lambda: len(running.web._connections)):
        pass
    assert running.call(lambda: running.web.receiving_bytes) == 0


def test_who_does_not_read_answers_is_cut_and_holds_no_memory(hasty: Ingress) -> None:
    with contextlib.closing(hasty.running.connect()) as client:
        request = b"GET /nothing/of/this/kind/is/here HTTP/1.1\r\nHost: x\r\n\r\n" * 1000
        assert send_until_cut(client, request)
    assert statuses(hasty.running.exchange(LAST)) == [202]


def test_thousand_idle_sockets_do_not_hinder() -> None:
    assert file_limits.allow(1_000) is None  # both ends of each are in this process
    with serving() as server, contextlib.ExitStack() as stack:
        for number in range(1_000):
            client = stack.enter_context(contextlib.closing(server.running.connect()))
            if number % 2:
                client.sendall(LINE)
        assert statuses(server.running.exchange(GOOD * 20 + LAST)) == [202] * 21
