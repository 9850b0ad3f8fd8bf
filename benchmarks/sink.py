"""The sink: one process that acts as many subscribers, answers as configured and records what it received.

    python -m benchmarks.sink [--port 0] [--path NAME=BEHAVIOUR ...] [--ledger FILE]

`POST /sub/<name>` is the subscriber <name> (any name; without a behaviour it answers at once). The first line of
standard output is {"port": N}. SIGTERM writes the ledger and exits with 0. Further pages, for measurements:

    GET /stats            the counts of every subscriber
    GET /ids/<name>       the ids that it accepted
    GET /times/<name>     times of requests and answers since the last call
    POST /behave/<name>   sets its behaviour (body: a behaviour); hanging requests are answered

Reads only id, attributes, `bodyhash` and `sent` of an event.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import cast

import httptools
import orjson
import uvloop

from benchmarks.behaviour import HANG, Answers, Behaviour
from tests.support.ledger.facts import Received, Writer, attributes_hash, body_hash

_PREFIX = b"/sub/"
_FLUSH_S = 0.2
_REASONS = {200: b"OK", 500: b"Internal Server Error"}


def answer(status: int, body: bytes = b"", content_type: bytes = b"application/json") -> bytes:
    """Builds a whole HTTP/1.1 response."""
    kind = b"content-type: %b\r\n" % content_type if body else b""
    reason = _REASONS.get(status, b"Status")
    return b"HTTP/1.1 %d %b\r\n%bcontent-length: %d\r\n\r\n%b" % (status, reason, kind, len(body), body)


_OK = answer(200)


@dataclass(slots=True)
class Counts:
    """What one path has seen. `duplicates`: requests for an event that was already answered 200."""

    received: int = 0
    delivered: int = 0
    failed: int = 0
    distinct: int = 0
    duplicates: int = 0
    corrupt: int = 0
    in_flight: int = 0
    max_in_flight: int = 0


@dataclass(slots=True)
class Times:
    """When a path was asked: Unix seconds of the first request and the last answer, the sum of all waits for an
    answer, and how old each event was that said when it was sent."""

    first_s: float = 0.0
    last_s: float = 0.0
    answered: int = 0
    busy_s: float = 0.0
    delays_s: list[float] = field(default_factory=list)


class Subscriber:
    """One subscriber: its answers, its counts, and what it remembers of each event."""

    def __init__(self, name: str, behaviour: Behaviour) -> None:
        self.name = name
        self.answers = Answers(behaviour)
        self.counts = Counts()
        self.times = Times()
        self.hanging: list[Callable[[], None]] = []  #: what answers each request that was left unanswered
        self.attempts: dict[str, int] = {}
        self.delivered: set[str] = set()


@dataclass(slots=True)
class Request:
    """One request that is being answered."""

    path: Subscriber
    event: str
    attempt: int
    status: int
    time_s: float
    body_hash: str
    attributes_hash: str


class Sink:
    """All subscribers of the process."""

    def __init__(self, behaviours: dict[str, Behaviour], ledger: Path | None) -> None:
        self._paths = {name: Subscriber(name, behaviour) for name, behaviour in behaviours.items()}
        self._ledger = Writer(ledger) if ledger else None
        self.loop = asyncio.get_running_loop()
        if self._ledger is not None:
            self.loop.call_later(_FLUSH_S, self._flush)

    def begin(self, name: str, pairs: list[tuple[bytes, bytes]], body: bytes) -> Request:
        """A request is complete: decide its answer."""
        path, now_s = self._path(name), time.time()
        event, sent_hash, counts, times = "", b"", path.counts, path.times
        times.first_s = times.first_s or now_s
        for header, value in pairs:
            if header == b"ce-id":
                event = value.decode()
            elif header == b"ce-bodyhash":
                sent_hash = value
            elif header == b"ce-sent":
                times.delays_s.append(now_s - float(value))
        attempt = path.attempts[event] = path.attempts.get(event, 0) + 1
        counts.received += 1
        counts.distinct += attempt == 1
        counts.duplicates += event in path.delivered
        counts.in_flight += 1
        counts.max_in_flight = max(counts.max_in_flight, counts.in_flight)
        digest = body_hash(body) if sent_hash or self._ledger else ""
        counts.corrupt += bool(sent_hash) and sent_hash.decode() != digest
        attributes = attributes_hash(pairs) if self._ledger else ""
        return Request(path, event, attempt, path.answers.next(event, attempt), now_s, digest, attributes)

    def end(self, request: Request, status: int) -> None:
        """The answer is about to be written (status 0: the connection ended first)."""
        path, times = request.path, request.path.times
        times.last_s = time.time()
        times.answered += 1
        times.busy_s += times.last_s - request.time_s
        path.counts.in_flight -= 1
        if 200 <= status < 300:
            path.counts.delivered += 1
            path.delivered.add(request.event)
        else:
            path.counts.failed += 1
        if self._ledger is not None:
            hashes = (request.body_hash, request.attributes_hash)
            moments = (request.time_s, times.last_s)
            self._ledger.write(Received(path.name, request.event, request.attempt, status, *moments, *hashes))

    def control(self, url: str, body: bytes) -> bytes:
        """Returns the answer to a request that is for the sink itself."""
        what, _, name = url.removeprefix("/").partition("/")
        if what == "stats":
            return answer(200, orjson.dumps({name: asdict(path.counts) for name, path in self._paths.items()}))
        if not name or what not in ("ids", "times", "behave"):
            return answer(404)
        path = self._path(name)
        if what == "ids":
            return answer(200, orjson.dumps(sorted(path.delivered)))
        if what == "times":
            times, path.times = path.times, Times()
            return answer(200, orjson.dumps(asdict(times)))
        path.answers = Answers(Behaviour.parse(body.decode()))
        hanging, path.hanging = path.hanging, []
        for give_answer in hanging:
            give_answer()
        return answer(200)

    def _path(self, name: str) -> Subscriber:
        path = self._paths.get(name)
        if path is None:
            path = self._paths[name] = Subscriber(name, Behaviour())
        return path

    def close(self) -> None:
        if self._ledger is not None:
            self._ledger.close()
            self._ledger = None

    def _flush(self) -> None:
        if self._ledger is not None:
            self._ledger.flush()
            self.loop.call_later(_FLUSH_S, self._flush)


class Connection(asyncio.Protocol):
    """One connection of a worker's pool: a request at a time."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpRequestParser | None = None
        self._url = b""
        self._pairs: list[tuple[bytes, bytes]] = []
        self._body = b""
        self._request: Request | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are, but do not inherit from it
        self._parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        assert self._parser is not None
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._url, self._pairs, self._body = b"", [], b""

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._pairs.append((name.lower(), value))

    def on_body(self, body: bytes) -> None:
        self._body = self._body + body if self._body else body

    def on_message_complete(self) -> None:
        assert self._transport is not None
        if not self._url.startswith(_PREFIX):
            self._transport.write(self._sink.control(self._url.decode(), self._body))
            return
        name = self._url[len(_PREFIX) :].decode()
        self._request = request = self._sink.begin(name, self._pairs, self._body)
        if request.status == HANG:
            request.status = 200
            request.path.hanging.append(lambda: self._answer(request))
            return
        delay_s = request.path.answers.behaviour.delay_s
        if delay_s:
            self._sink.loop.call_later(delay_s, self._answer, request)
        else:
            self._answer(request)

    def connection_lost(self, error: Exception | None) -> None:
        request, self._request = self._request, None
        if request is not None:
            self._sink.end(request, 0)

    def _answer(self, request: Request) -> None:
        if self._request is not request:
            return
        self._request = None
        assert self._transport is not None
        self._sink.end(request, request.status)
        self._transport.write(_OK if request.status == 200 else answer(request.status, b"refused", b"text/plain"))


async def serve(port: int, behaviours: dict[str, Behaviour], ledger: Path | None) -> None:
    """Serve on 127.0.0.1 until SIGTERM or SIGINT; says the port on standard output first."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    sink = Sink(behaviours, ledger)
    server = await loop.create_server(lambda: Connection(sink), "127.0.0.1", port)
    sys.stdout.write(orjson.dumps({"port": server.sockets[0].getsockname()[1]}).decode() + "\n")
    sys.stdout.flush()
    await stop.wait()
    server.close()
    sink.close()


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.sink", description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, default=0, help="0 = a free one")
    parser.add_argument("--path", action="append", default=[], help="NAME=BEHAVIOUR, e.g. a=delay_s=0.01,fail_every=10")
    parser.add_argument("--ledger", type=Path, default=None, help="append `received` facts to this file")
    given = parser.parse_args(arguments)
    behaviours = {}
    for text in given.path:
        name, _, behaviour = text.partition("=")
        behaviours[name] = Behaviour.parse(behaviour)
    uvloop.run(serve(given.port, behaviours, given.ledger))
    return 0


if __name__ == "__main__":
    sys.exit(main())
