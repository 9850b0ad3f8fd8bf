"""The proxy that breaks networks in tests: each of its modes, seen from a client and from a server."""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from app.local.kafka.ports import LOOPBACK
from tests.support.processes import wait_until
from tests.support.serving import serving
from tests.support.tcp_proxy import TcpProxy

LIMIT_S = 180.0


class _Echo(socketserver.BaseRequestHandler):
    """Sends back what comes, and END at the end of it."""

    request: socket.socket
    heard = 0  #: bytes, of all connections

    def handle(self) -> None:
        try:
            while data := self.request.recv(1 << 16):
                _Echo.heard += len(data)
                self.request.sendall(data)
            self.request.sendall(b"END")
        except OSError:
            return  # the proxy has reset it


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False


@pytest.fixture
def proxy() -> Iterator[TcpProxy]:
    with serving(_Server((LOOPBACK, 0), _Echo)) as server, TcpProxy(server.server_address[1]) as tcp_proxy:
        yield tcp_proxy


def _connect(proxy: TcpProxy) -> socket.socket:
    return socket.create_connection((LOOPBACK, proxy.port), LIMIT_S)


def _echoed(client: socket.socket, data: bytes) -> bytes:
    client.sendall(data)
    return _read(client, len(data))


def _read(client: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size and (data := client.recv(size - len(received))):
        received += data
    return received


def test_proxy_passes_everything_on_also_the_end(proxy: TcpProxy) -> None:
    data = bytes(range(256)) * 2000
    with _connect(proxy) as client:
        assert _echoed(client, b"hello") == b"hello"
        sender = threading.Thread(target=client.sendall, args=(data,))
        sender.start()
        assert _read(client, len(data)) == data
        sender.join(LIMIT_S)
        client.shutdown(socket.SHUT_WR)
        assert _read(client, 10) == b"END"
    wait_until("the connection is gone", lambda: proxy.connections == 0, LIMIT_S)


def test_delay_counts_in_both_directions_and_keeps_the_bandwidth(proxy: TcpProxy) -> None:
    with _connect(proxy) as client:
        proxy.delay(0.1)
        began_s = time.monotonic()
        assert _echoed(client, b"hello") == b"hello"
        assert time.monotonic() - began_s >= 0.2


def test_answers_that_are_held_arrive_later_and_whole(proxy: TcpProxy) -> None:
    with _connect(proxy) as client:
        assert _echoed(client, b"before") == b"before"
        proxy.hold()
        client.sendall(b"one")
        wait_until("the answer is held", lambda: proxy.held == 1, LIMIT_S)
        client.sendall(b"two")
        client.settimeout(0.1)
        with pytest.raises(TimeoutError):
            client.recv(1)
        client.settimeout(LIMIT_S)
        proxy.forward()
        assert _read(client, 6) == b"onetwo"
        assert proxy.held == 0


def test_limited_line_is_shared(proxy: TcpProxy) -> None:
    with _connect(proxy) as first, _connect(proxy) as second:
        proxy.limit(64_000)
        began_s = time.monotonic()
        first.sendall(b"x" * 16_000)
        assert _echoed(second, b"y" * 16_000) == b"y" * 16_000
        assert _read(first, 16_000) == b"x" * 16_000
        assert time.monotonic() - began_s >= 0.5


def test_blackhole_swallows_and_what_was_swallowed_never_comes(proxy: TcpProxy) -> None:
    with _connect(proxy) as before:
        assert _echoed(before, b"hello") == b"hello"
        proxy.blackhole()
        with _connect(proxy) as within:
            for client in (before, within):
                client.sendall(b"into the dark")
                client.settimeout(0.3)
                with pytest.raises(TimeoutError):
                    client.recv(1)
            proxy.forward()
            for client in (before, within):
                client.settimeout(LIMIT_S)
                with pytest.raises(ConnectionResetError):
                    client.recv(1)
    with _connect(proxy) as after:
        assert _echoed(after, b"hello") == b"hello"


def test_mute_server_hears_and_is_not_heard(proxy: TcpProxy) -> None:
    heard = _Echo.heard
    with _connect(proxy) as client:
        assert _echoed(client, b"hello") == b"hello"
        proxy.mute()
        client.sendall(b"anybody?")
        wait_until("the server has heard it", lambda: _Echo.heard == heard + 13, LIMIT_S)
        client.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.recv(1)
        proxy.forward()
        client.settimeout(LIMIT_S)
        with pytest.raises(ConnectionResetError):
            client.recv(1)


def test_connection_that_is_quiet_in_a_blackhole_survives_it(proxy: TcpProxy) -> None:
    with _connect(proxy) as client:
        assert _echoed(client, b"hello") == b"hello"
        proxy.blackhole()
        proxy.forward()
        assert _echoed(client, b"again") == b"again"


def test_reset_ends_what_is_open_once(proxy: TcpProxy) -> None:
    with _connect(proxy) as client:
        assert _echoed(client, b"hello") == b"hello"
        proxy.reset()
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    with _connect(proxy) as after:
        assert _echoed(after, b"hello") == b"hello"


def test_resets_go_on_until_the_next_mode(proxy: TcpProxy) -> None:
    proxy.reset(every_s=0.1)
    for _ in range(2):
        with _connect(proxy) as client, pytest.raises(ConnectionResetError):
            client.recv(1)
    proxy.forward()
    with _connect(proxy) as after:
        assert _echoed(after, b"hello") == b"hello"


def test_who_is_refused_comes_in_later_at_the_same_port(proxy: TcpProxy) -> None:
    with _connect(proxy) as client:
        assert _echoed(client, b"hello") == b"hello"
        proxy.refuse()
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    with pytest.raises(ConnectionRefusedError):
        _connect(proxy)
    proxy.forward()
    with _connect(proxy) as after:
        assert _echoed(after, b"hello") == b"hello"


def test_server_that_is_away_shows_as_a_reset() -> None:
    with socket.socket() as nobody:
        nobody.bind((LOOPBACK, 0))
        with (
            TcpProxy(nobody.getsockname()[1]) as proxy,
            pytest.raises(ConnectionResetError),  # it may come while the client still connects
            _connect(proxy) as client,
        ):
            client.recv(1)


@pytest.mark.parametrize(
    ("keep", "ends", "arrives"),
    [(False, "close", True), (False, "reset", False), (True, "reset", True)],
    ids=["closed", "reset", "kept"],
)
def test_what_is_sent_into_a_cut_arrives_late_unless_it_is_taken_back(
    proxy: TcpProxy, keep: bool, ends: str, arrives: bool
) -> None:
    with _connect(proxy) as client, _connect(proxy) as other:
        assert _echoed(client, b"hello") + _echoed(other, b"hello") == b"hellohello"
        heard = _Echo.heard
        proxy.cut(keep=keep)
        client.sendall(b"late!")
        other.sendall(b"late!")
        wait_until("both are held", lambda: proxy.held == 2, LIMIT_S)
        if ends == "reset":
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        if not keep and ends == "reset":
            wait_until("the network has nothing of it any more", lambda: proxy.held == 1, LIMIT_S)
        assert _Echo.heard == heard
        proxy.forward()
        assert _read(other, 5) == b"late!"
        wait_until("it has arrived", lambda: _Echo.heard == heard + (10 if arrives else 5), LIMIT_S)
