"""The load generator: one process that POSTs events over keep-alive connections and writes down each answer.

    python -m benchmarks.load URL --events 20000 --connections 64 --keys 1000 [--sequential] [--rate 500] [--ledger F]

Closed loop: each connection sends its next event when the last is answered; with `--rate` they share that many
events a second. `--sequential` sends a key's next event only after its last was answered. The last line of standard
output is one JSON object with the numbers. Does not repeat events that were not answered 202.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import ssl
import sys
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import httptools
import orjson
import uvloop

from benchmarks.events import TYPE, Event, Events
from tests.support.ledger.facts import Sent, Writer
from tests.support.ledger.report import percentile

_REFUSED_PAUSE_S = 0.05  #: after an answer that is not 202, so that an outage is not hammered
_RECONNECT_PAUSE_S = 0.1
_UNANSWERED_MAX = 20  #: of these the result says how their connections ended
_TICK_S = 0.01
_PACE_S = 0.001  #: the loop's timers are no finer


@dataclass(frozen=True, slots=True)
class LoadConfig:
    """`events` 0 = until `seconds` have passed (or SIGTERM); `rate_per_s` 0 = as fast as answers come."""

    url: str
    events: int
    seconds: float = 0.0
    connections: int = 64
    rate_per_s: float = 0.0
    sequential: bool = False
    by_turns: bool = False  #: the connection that has waited longest sends next, not the one that was used last
    seed: int = 1
    ledger: Path | None = None
    authority: Path | None = None  #: of the certificate behind an https:// URL
    limit_s: float = 300.0


class Connection(asyncio.Protocol):
    """One keep-alive connection; at most one request on it at a time."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self.event: Event | None = None
        self.key_number = self.answers = 0
        self.sent_s = 0.0
        self.idle_since_s = time.time()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are, but do not inherit from it
        self._parser = httptools.HttpResponseParser(self)
        self._load.opened(self)

    def send(self, event: Event, key_number: int) -> None:
        assert self.event is None
        assert self._transport is not None
        self.event, self.key_number, self.sent_s = event, key_number, time.time()
        self._transport.write(event.request)

    def data_received(self, data: bytes) -> None:
        assert self._parser is not None
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        assert self._parser is not None
        status = self._parser.get_status_code()
        if status < 200:
            return
        assert self._transport is not None
        if self.event is None or not self._parser.should_keep_alive():
            self._transport.close()
        if self.event is None:  # no request is open: the server said goodbye to an idle connection
            return
        self._load.answered(self, status)
        self.answers += 1
        self.idle_since_s = time.time()
        if not self._transport.is_closing():
            self._load.idle(self, 0.0 if status in (200, 202) else _REFUSED_PAUSE_S)

    def connection_lost(self, error: Exception | None) -> None:
        if self.event is not None:
            if len(self._load.unanswered) < _UNANSWERED_MAX:
                self._load.unanswered.append(self._end(error))
            self._load.answered(self, 0)
        self._load.lost(self)

    def _end(self, error: Exception | None) -> str:
        """How the connection ended before the answer, in words."""
        sent, idle_s = datetime.fromtimestamp(self.sent_s, UTC), self.sent_s - self.idle_since_s
        how = "closed" if error is None else f"cut ({error!r})"
        return (
            f"sent at {sent:%H:%M:%S.%f}, after {self.answers} answers and {idle_s:.3f} s without a request: "
            f"{how} {time.time() - self.sent_s:.4f} s later"
        )

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class Load:
    """Decides which connection sends which event when, and counts."""

    def __init__(self, config: LoadConfig, events: Events, loop: asyncio.AbstractEventLoop) -> None:
        self._config, self._events, self._loop = config, events, loop
        self._chance = random.Random(config.seed)
        self._free_keys = list(range(max(events.keys, 1)))
        self._waiting: list[Connection] = []
        self._open: set[Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ledger = Writer(config.ledger) if config.ledger else None
        self._started_s = time.monotonic()
        self._stopping = False
        self.begun = self.in_flight = 0
        self.statuses: Counter[int] = Counter()
        self.delays_s: list[float] = []  #: until 202
        self.refused_delays_s: list[float] = []  #: until any other answer
        self.unanswered: list[str] = []  #: how their connections ended
        self.not_connected = 0  #: how often a connection was refused
        self.done = asyncio.Event()

    def start(self) -> None:
        """Open the connections; `done` is set when the last answer is in."""
        for _ in range(self._config.connections):
            self._connect_after(0.0)
        self._loop.call_later(_TICK_S, self._tick)
        if self._config.rate_per_s:
            self._pace()

    def stop(self) -> None:
        """No new events; those under way are waited for."""
        self._stopping = True
        self._finish_if_idle()

    def opened(self, connection: Connection) -> None:
        """A new connection, ready to send."""
        self._open.add(connection)
        self.idle(connection)

    def idle(self, connection: Connection, pause_s: float = 0.0) -> None:
        """This connection may send again, now or after a pause."""
        if pause_s:
            self._loop.call_later(pause_s, self.idle, connection)
        elif connection in self._open:
            self._waiting.append(connection)
            self._send_waiting()

    def answered(self, connection: Connection, status: int) -> None:
        """The connection's event got this status; 0 = the connection ended instead."""
        event, now_s = connection.event, time.time()
        assert event is not None
        connection.event = None
        self.in_flight -= 1
        self.statuses[status] += 1
        (self.delays_s if status == 202 else self.refused_delays_s).append(now_s - connection.sent_s)
        if self._config.sequential:
            self._free_keys.append(connection.key_number)
        if self._ledger is not None:
            times, hashes = (connection.sent_s, now_s), (event.body_hash, event.attributes_hash)
            self._ledger.write(Sent(event.id, event.key, event.seq, status, *times, *hashes, event.type))
        self._finish_if_idle()

    def lost(self, connection: Connection) -> None:
        """The connection is gone: open another in its place."""
        self._open.discard(connection)
        if connection in self._waiting:
            self._waiting.remove(connection)
        if not self._finished():
            self._connect_after(_RECONNECT_PAUSE_S)

    def close(self) -> None:
        """Cut what is left (its events count as unanswered) and write the ledger out."""
        self._stopping = True
        for connection in list(self._open):
            if connection.event is not None:
                self.answered(connection, 0)
            connection.close()
        for task in self._tasks:
            task.cancel()
        if self._ledger is not None:
            self._ledger.close()
            self._ledger = None

    def _send_waiting(self) -> None:
        while self._waiting and self._free_keys and self._may_send():
            connection = self._waiting.pop(0 if self._config.by_turns else -1)
            key_number = self._take_key()
            self.begun += 1
            self.in_flight += 1
            connection.send(self._events.make(key_number), key_number)

    def _take_key(self) -> int:
        place = self._chance.randrange(len(self._free_keys))
        if not self._config.sequential:
            return self._free_keys[place]
        keys = self._free_keys
        keys[place], keys[-1] = keys[-1], keys[place]
        return keys.pop()

    def _may_send(self) -> bool:
        config, elapsed_s = self._config, time.monotonic() - self._started_s
        if self._finished():
            return False
        return not config.rate_per_s or self.begun < config.rate_per_s * elapsed_s

    def _finished(self) -> bool:
        config = self._config
        out_of_time = config.seconds and time.monotonic() - self._started_s >= config.seconds
        return self._stopping or bool(out_of_time) or (config.events > 0 and self.begun >= config.events)

    def _tick(self) -> None:
        self._send_waiting()
        self._finish_if_idle()
        if self._ledger is not None:
            self._ledger.flush()
        if not self.done.is_set():
            self._loop.call_later(_TICK_S, self._tick)

    def _pace(self) -> None:
        """At a rate events are sent one by one, not a tick's worth at once: a burst would measure itself."""
        self._send_waiting()
        if not self.done.is_set():
            self._loop.call_later(min(_TICK_S, max(_PACE_S, 1 / self._config.rate_per_s)), self._pace)

    def _finish_if_idle(self) -> None:
        if self._finished() and self.in_flight == 0:
            self.done.set()

    def _connect_after(self, pause_s: float) -> None:
        task = self._loop.create_task(self._connect(pause_s))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, pause_s: float) -> None:
        parts = urlsplit(self._config.url)
        tls = ssl.create_default_context(cafile=self._config.authority) if parts.scheme == "https" else None
        while not self._finished():
            await asyncio.sleep(pause_s)
            try:
                await self._loop.create_connection(
                    lambda: Connection(self), parts.hostname or "127.0.0.1", parts.port or 80, ssl=tls
                )
            except OSError:  # not there (yet, again): the next try comes after a pause
                self.not_connected += 1
                pause_s = _RECONNECT_PAUSE_S
            else:
                return


async def run(config: LoadConfig, events: Events) -> dict[str, object]:
    """Send everything; returns the numbers. Stops after `limit_s` whatever is missing ("complete" tells)."""
    loop = asyncio.get_running_loop()
    load = Load(config, events, loop)
    loop.add_signal_handler(signal.SIGTERM, load.stop)
    started_s = time.monotonic()
    load.start()
    complete = True
    try:
        await asyncio.wait_for(load.done.wait(), config.limit_s)
    except TimeoutError:
        complete = False
    seconds = time.monotonic() - started_s
    load.close()
    return {
        "complete": complete,
        "sent": load.begun,
        "accepted": load.statuses[202],
        "statuses": {str(status): count for status, count in sorted(load.statuses.items())},
        "seconds": round(seconds, 3),
        "per_s": round(load.begun / seconds, 1),
        "p50_ms": round(1000 * percentile(load.delays_s, 50), 2),
        "p99_ms": round(1000 * percentile(load.delays_s, 99), 2),
        "longest_ms": round(1000 * max(load.delays_s, default=0.0), 2),
        "unanswered": load.unanswered,
        "not_connected": load.not_connected,
        "refused_p99_ms": round(1000 * percentile(load.refused_delays_s, 99), 2),
    }


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; 0 when every event was answered within the limit."""
    parser = argparse.ArgumentParser(prog="benchmarks.load", description=__doc__.partition("\n")[0])
    parser.add_argument("url", help="http[s]://host:port/path of the ingress")
    parser.add_argument("--events", type=int, default=10_000, help="how many; 0 = until --seconds or SIGTERM")
    parser.add_argument("--seconds", type=float, default=0.0, help="stop after this time; 0 = never")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--rate", type=float, default=0.0, help="events per second; 0 = closed loop")
    parser.add_argument("--keys", type=int, default=1000, help="number of keys; 0 = events without a key")
    parser.add_argument("--body-bytes", type=int, default=1024)
    parser.add_argument("--sequential", action="store_true", help="a key's next event after the last answer")
    parser.add_argument("--by-turns", action="store_true", help="no connection is idle for longer than the others")
    parser.add_argument("--stamp", action="store_true", help="each event says when it was sent (attribute sent)")
    parser.add_argument("--types", default=TYPE, help="of the events, by commas; each has one of them at random")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--run", default="e", help="prefix of the event ids")
    parser.add_argument("--ledger", type=Path, default=None, help="append `sent` facts to this file")
    parser.add_argument("--authority", type=Path, default=None, help="CA certificates (PEM) for an https:// URL")
    parser.add_argument("--limit-s", type=float, default=300.0, help="give up after this time")
    given = parser.parse_args(arguments)
    config = LoadConfig(
        given.url,
        events=given.events,
        seconds=given.seconds,
        connections=given.connections,
        rate_per_s=given.rate,
        sequential=given.sequential,
        by_turns=given.by_turns,
        seed=given.seed,
        ledger=given.ledger,
        authority=given.authority,
        limit_s=given.limit_s,
    )
    checked = given.ledger is not None
    events = Events(
        given.url,
        run=given.run,
        keys=given.keys,
        body_bytes=given.body_bytes,
        seed=given.seed,
        checked=checked,
        stamped=given.stamp,
        types=given.types.split(","),
    )
    result = uvloop.run(run(config, events))
    sys.stdout.write(orjson.dumps(result).decode() + "\n")
    return 0 if result["complete"] else 1


if __name__ == "__main__":
    sys.exit(main())
