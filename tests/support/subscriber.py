"""A subscriber that answers, byte for byte, what a test wrote down for it; one thread per connection, real sockets.

A script is a list of answers for a path; the last one repeats. Parses a request only to find its end.
"""

from __future__ import annotations

import socket
import socketserver
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.support.loopback_server import LoopbackServer

Pairs = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came; header names in lower case."""

    target: str
    pairs: Pairs
    body: bytes
    time_s: float

    def header(self, name: str) -> str | None:
        """The value of a header that must not be there twice."""
        values = [value for key, value in self.pairs if key == name.encode()]
        assert len(values) <= 1, f"{name} came {len(values)} times"
        return values[0].decode("latin-1") if values else None

    @property
    def attributes(self) -> dict[str, str]:
        """The `ce-` headers, without the prefix."""
        return {name.decode()[3:]: value.decode("latin-1") for name, value in self.pairs if name.startswith(b"ce-")}


#: Writes the answer; returns False when the connection must end then.
Answer = Callable[[socket.socket], bool]


def says(status: int, body: bytes = b"", *headers: str) -> Answer:
    """A plain answer on a connection that stays open."""
    lines = [f"HTTP/1.1 {status} Because", f"content-length: {len(body)}", *headers]
    data = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body
    return raw(data, keep=True)


def raw(data: bytes, *, keep: bool = False) -> Answer:
    """Exactly these bytes."""

    def write(connection: socket.socket) -> bool:
        connection.sendall(data)
        return keep

    return write


def silence(seconds: float) -> Answer:
    """Nothing for so long, then the end of the connection."""

    def wait(connection: socket.socket) -> bool:
        time.sleep(seconds)
        return False

    return wait


def drip(head: bytes, seconds: float) -> Answer:
    """The head, then a byte every 20 ms for so long: an answer without an end."""

    def write(connection: socket.socket) -> bool:
        connection.sendall(head)
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            connection.sendall(b"x")
            time.sleep(0.02)
        return False

    return write


@dataclass(slots=True)
class _Script:
    answers: Sequence[Answer]
    requests: list[Request] = field(default_factory=list)


class ScriptedSubscriber(LoopbackServer["_Server"]):
    """Gives each path the answers of its script. Paths without a script answer 200."""

    def __init__(self) -> None:
        self._scripts: dict[str, _Script] = {}
        self._lock = threading.Lock()
        super().__init__(_Server(self))

    def _close(self) -> None:
        self._server.cut_connections()
        super()._close()

    def script(self, path: str, *answers: Answer) -> str:
        """What this path answers, the last one for ever; gives its URL."""
        with self._lock:
            self._scripts[path] = _Script(answers)
        return self.url(path)

    def requests(self, path: str) -> list[Request]:
        """What came to this path so far."""
        with self._lock:
            script = self._scripts.get(path)
            return list(script.requests) if script else []

    def take(self, request: Request) -> Answer:
        """The answer to this request; called by the connections."""
        with self._lock:
            script = self._scripts.setdefault(request.target, _Script([says(200)]))
            script.requests.append(request)
            return script.answers[min(len(script.requests), len(script.answers)) - 1]


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = True
    request_queue_size = 256
    allow_reuse_address = True

    def __init__(self, owner: ScriptedSubscriber) -> None:
        self.owner = owner
        self._open: set[socket.socket] = set()
        self._open_lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Connection)

    def track(self, connection: socket.socket, is_open: bool) -> None:
        with self._open_lock:
            (self._open.add if is_open else self._open.discard)(connection)

    def cut_connections(self) -> None:
        with self._open_lock:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:  # the other end was faster
                    continue


class _Connection(socketserver.BaseRequestHandler):
    server: _Server
    request: socket.socket

    def handle(self) -> None:
        self.server.track(self.request, True)
        self._buffer = b""
        try:
            while (request := self._read()) is not None:
                if not self.server.owner.take(request)(self.request):
                    return
        except OSError:
            return  # the worker went away: killed, or out of patience
        finally:
            self.server.track(self.request, False)

    def _read(self) -> Request | None:
        while b"\r\n\r\n" not in self._buffer:
            if not self._fill():
                return None
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        pairs = [(name.lower(), value.strip(b" \t")) for name, _, value in (line.partition(b":") for line in lines)]
        length = int(dict(pairs).get(b"content-length", b"0"))
        chunks, have = [self._buffer], len(self._buffer)
        while have < length:
            data = self.request.recv(1 << 16)
            if not data:
                return None
            chunks.append(data)
            have += len(data)
        body = b"".join(chunks)
        self._buffer = body[length:]
        return Request(first.split(b" ")[1].decode("latin-1"), pairs, body[:length], time.time())

    def _fill(self) -> bool:
        data = self.request.recv(1 << 16)
        self._buffer += data
        return bool(data)
