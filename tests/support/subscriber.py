"""A subscriber that answers, byte for byte, what a test wrote down for each path: a scripted server in a thread.

Parses a request only to show it.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from tests.support.scripted_server import ScriptedServer, Step, answer, reply
from tests.support.serving import LoopThread

Pairs = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came; header names in lower case."""

    target: str
    pairs: Pairs
    body: bytes
    time_s: float

    @classmethod
    def of(cls, data: bytes) -> Request:
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        pairs = [(name.lower(), value.strip(b" \t")) for name, _, value in (line.partition(b":") for line in lines)]
        return cls(first.split(b" ")[1].decode("latin-1"), pairs, body, time.time())

    def header(self, name: str) -> str | None:
        """The value of a header that must not be there twice."""
        values = [value for key, value in self.pairs if key == name.encode()]
        assert len(values) <= 1, f"{name} came {len(values)} times"
        return values[0].decode("latin-1") if values else None

    @property
    def attributes(self) -> dict[str, str]:
        """The `ce-` headers, without the prefix."""
        return {name.decode()[3:]: value.decode("latin-1") for name, value in self.pairs if name.startswith(b"ce-")}


def says(status: int, body: bytes = b"", *headers: str) -> Step:
    """A plain answer on a connection that stays open."""
    return reply(answer(status, body, *headers))


@dataclass(slots=True)
class _Script:
    steps: Sequence[Step]
    requests: list[Request] = field(default_factory=list)


class ScriptedSubscriber:
    """Between `with` and its end it gives each path the answers of its script. Paths without a script answer 200."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._server = _Server(self, tls)
        self._scripts: dict[str, _Script] = {}

    def __enter__(self) -> Self:
        self._loop = LoopThread("subscriber")
        self._loop.call(self._server.__aenter__())
        self.port, self.url = self._server.port, self._server.url
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call(self._server.__aexit__())
        self._loop.stop()

    def script(self, path: str, *steps: Step) -> str:
        """What this path answers, the last one for ever; gives its URL."""
        self._scripts[path] = _Script(steps)
        return self.url(path)

    def requests(self, path: str) -> list[Request]:
        """What came to this path so far."""
        script = self._scripts.get(path)
        return list(script.requests) if script else []

    def take(self, request: Request) -> Step:
        """The answer to this request; called in its thread."""
        script = self._scripts.setdefault(request.target, _Script([says(200)]))
        script.requests.append(request)
        return script.steps[min(len(script.requests), len(script.steps)) - 1]


class _Server(ScriptedServer):
    def __init__(self, subscriber: ScriptedSubscriber, tls: ssl.SSLContext | None) -> None:
        super().__init__(tls=tls)
        self._subscriber = subscriber

    def take(self, request: bytes) -> Step:
        return self._subscriber.take(Request.of(request))
