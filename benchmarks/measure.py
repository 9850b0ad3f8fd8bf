"""What an event costs the worker: CPU microseconds by /proc, at ingress and in dispatch, on a real Kafka.

    ingress:   load (64 connections, closed loop) --> worker `ingress` --> Kafka
    dispatch:  Kafka, filled beforehand --> worker `dispatcher` --> sink that answers at once

CPU time is user and system time of the whole worker process, over an interval in which a known number of events went
through; the start is not in it. Wall rates depend on what else the machine does; they are given, not compared.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

from benchmarks.events import Events
from tests.installation import Installation
from tests.processes import LoadProcess, SinkProcess, Worker, wait_until
from tests.resources import NAMESPACE, Wanted

PARTITIONS, KEYS, BODY_BYTES, CONNECTIONS = 10, 1000, 1024, 64
_LIMIT_S = 120.0


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured: `events` in each of `rounds`, after `warm_up` events."""

    events: int
    warm_up: int
    rounds: int


FULL = Size(events=30_000, warm_up=5_000, rounds=3)
QUICK = Size(events=4_000, warm_up=1_000, rounds=1)


@dataclass(frozen=True, slots=True)
class Result:
    """One figure over all rounds. `target` None = none agreed; `better` is "lower" or "higher"."""

    name: str
    unit: str
    min: float
    median: float
    max: float
    target: float | None
    better: str

    @classmethod
    def of(cls, name: str, unit: str, values: list[float], better: str, target: float | None = None) -> Result:
        """From the values of the rounds."""
        ordered = sorted(round(value, 1) for value in values)
        return cls(name, unit, ordered[0], round(statistics.median(ordered), 1), ordered[-1], target, better)


@dataclass(frozen=True, slots=True)
class Round:
    """One measured interval."""

    events: int
    cpu_s: float
    seconds: float

    @property
    def cpu_us(self) -> float:
        """Per event."""
        return 1e6 * self.cpu_s / self.events

    @property
    def per_s(self) -> float:
        """Events a second."""
        return self.events / self.seconds


def ingress(bootstrap: str, folder: Path, size: Size) -> list[Result]:
    """POST to 202, 1 KiB, 1,000 keys, 10 partitions."""
    installation = Installation(bootstrap, folder, PARTITIONS)
    installation.write([])
    with installation.worker("controller"), installation.worker("ingress", controller=False) as worker:
        worker.wait_ready()
        url = installation.url(worker)
        wait_until("the ingress takes events", lambda: _load(folder, url, 1) == 1, _LIMIT_S, poll_s=0.3)
        _load(folder, url, size.warm_up)
        rounds = []
        for _ in range(size.rounds):
            with LoadProcess(folder, url, **_options(size.events)) as load:
                before_s = worker.cpu_s()
                result = load.result(_LIMIT_S)
                cpu_s = worker.cpu_s() - before_s
            if result["accepted"] != size.events:
                raise RuntimeError(f"not every event was accepted: {result}")
            rounds.append(Round(size.events, cpu_s, result["seconds"]))
    return _results("ingress", rounds)


def dispatch(bootstrap: str, folder: Path, size: Size, order: str) -> list[Result]:
    """Consume, map, POST, settle and commit a backlog for one subscription of this order."""
    installation = Installation(bootstrap, folder, PARTITIONS)
    events = Events("http://unused/", run="b", keys=KEYS, body_bytes=BODY_BYTES, seed=1, checked=False)
    with SinkProcess(folder) as sink:
        name = f"{NAMESPACE}/{order}"
        installation.write([Wanted(order, sink.url(name), order)])
        with installation.worker("controller"):
            with _dispatcher(installation) as worker:  # the group's start is committed before anything is stored
                installation.wait_subscribers(worker, 1, _LIMIT_S)
            rounds = []
            for _ in range(size.rounds):
                _fill(bootstrap, installation.resources.topic, events, size.warm_up + size.events)
                before = _received(sink, name)
                with _dispatcher(installation) as worker:
                    rounds.append(_drain(worker, lambda: _received(sink, name), before, size))
    return _results(f"dispatch {order}", rounds)


def _drain(worker: Worker, received: Callable[[], int], before: int, size: Size) -> Round:
    """Measure from the end of the warm-up to the last event; both ends are samples of (events, CPU, time)."""

    def sample() -> tuple[int, float, float]:
        return received() - before, worker.cpu_s(), time.monotonic()

    wait_until("the first events arrive", lambda: received() - before >= size.warm_up, _LIMIT_S, poll_s=0.02)
    start = sample()
    total = size.warm_up + size.events
    wait_until("the last event arrives", lambda: received() - before >= total, _LIMIT_S, poll_s=0.02)
    end = sample()
    if start[0] >= total:
        raise RuntimeError("the backlog was gone before the measurement began: take more events")
    return Round(end[0] - start[0], end[1] - start[1], end[2] - start[2])


@contextmanager
def _dispatcher(installation: Installation) -> Iterator[Worker]:
    with installation.worker("dispatcher", controller=False) as worker:
        worker.wait_ready()
        yield worker
        if worker.terminate() != 0:
            raise RuntimeError(f"the worker did not end in order\n{worker.tail()}")


def _received(sink: SinkProcess, name: str) -> int:
    return sink.stats().get(name, {}).get("delivered", 0)


def _fill(bootstrap: str, topic: str, events: Events, count: int) -> None:
    """Store `count` events, as the ingress would have."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "partitioner": "murmur2_random",
            "compression.type": "lz4",
            "linger.ms": 5,
            "queue.buffering.max.messages": 0,
        }
    )
    for number in range(count):
        event = events.make(number % KEYS)
        body = event.request.partition(b"\r\n\r\n")[2]
        producer.produce(topic, body, event.key, headers=list(events.headers(event)))
    if producer.flush(_LIMIT_S) != 0:
        raise RuntimeError(f"{topic} could not be filled")


def _options(events: int) -> dict[str, object]:
    return {"events": events, "connections": CONNECTIONS, "keys": KEYS, "body_bytes": BODY_BYTES}


def _load(folder: Path, url: str, events: int) -> int:
    """Send so many events; how many were accepted."""
    with LoadProcess(folder, url, **_options(events)) as load:
        return int(load.result(_LIMIT_S)["accepted"])


def _results(name: str, rounds: list[Round]) -> list[Result]:
    return [
        Result.of(f"{name}, CPU per event", "us", [one.cpu_us for one in rounds], "lower"),
        Result.of(f"{name}, rate", "events/s", [one.per_s for one in rounds], "higher"),
    ]
