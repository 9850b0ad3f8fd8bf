"""The test bench: Kafka, filled topics, sinks, and the measured processes of an implementation.

    Lab     one Kafka and the size of what is measured
    Stage   one topic of an implementation, its subscriptions, and the processes that work on it

`measures` decides what is measured, `rounds` how often.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.events import Events
from benchmarks.implementation import Assignment, Implementation, Process, Tls, Wanted, prepare
from tests.support.ledger import reader
from tests.support.processes import Failed, LoadProcess, wait_until

PARTITIONS, KEYS, BODY_BYTES, CONNECTIONS = 10, 1000, 1024, 64
LIMIT_S = 120.0
_SAMPLE_S = 0.05
_KAFKA_LIMIT_S = 20.0


@dataclass(frozen=True, slots=True)
class Lab:
    """`scale` 1 = a figure, less = only whether it works."""

    kafka: str
    folder: Path
    scale: float = 1.0

    def events(self, count: int) -> int:
        """Returns this many events, less in a small laboratory."""
        return max(round(count * self.scale), 50)

    def seconds(self, seconds: float) -> float:
        """Returns this many seconds, less in a small laboratory."""
        return max(seconds * self.scale, 1.0)

    def new_folder(self, name: str) -> Path:
        """Makes a folder of its own."""
        folder = self.folder / f"{name}-{uuid.uuid4().hex[:6]}"
        folder.mkdir(parents=True)
        return folder

    @contextmanager
    def stage(
        self,
        implementation: Implementation,
        subscriptions: Sequence[Wanted] = (),
        partitions: int = PARTITIONS,
        body_bytes: int = BODY_BYTES,
        tls: Tls | None = None,
        processes: int = 1,
    ) -> Iterator[Stage]:
        """Yields a fresh topic and what the implementation needs to serve it; the topic is deleted at the end. `tls`:
        its receivers have TLS. `processes`: of each receiver."""
        channel = f"c{uuid.uuid4().hex[:8]}"
        topic = f"bench.{channel}"
        folder = self.new_folder(implementation.name)
        assignment = Assignment(
            self.kafka, topic, partitions, f"/channels/bench/{channel}", folder, tuple(subscriptions), tls, processes
        )
        admin = AdminClient({"bootstrap.servers": self.kafka, "log_level": 2})
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(_KAFKA_LIMIT_S)
        try:
            prepare(implementation, assignment)
            yield Stage(self, implementation, assignment, body_bytes)
        finally:
            topics = [name for name in admin.list_topics(timeout=_KAFKA_LIMIT_S).topics if name.startswith(topic)]
            for future in admin.delete_topics(topics).values():
                future.result(_KAFKA_LIMIT_S)


class Stage:
    """One topic of one implementation."""

    def __init__(self, lab: Lab, implementation: Implementation, assignment: Assignment, body_bytes: int) -> None:
        self.lab, self._implementation, self.assignment = lab, implementation, assignment
        self._body_bytes = body_bytes
        run = uuid.uuid4().hex[:4]
        self._events = Events("http://unused/", run=run, keys=KEYS, body_bytes=body_bytes, seed=1, checked=False)

    @contextmanager
    def receiver(self) -> Iterator[tuple[Process, float]]:
        """Yields a receiver that takes events, and the CPU seconds until it did."""
        with Process(self._implementation, "receiver", self.assignment) as process:
            self.until("the receiver takes events", process, lambda: self.load(process, events=1) == 1, poll_s=0.1)
            yield process, process.cpu_s()
            process.end()

    @contextmanager
    def dispatcher(self) -> Iterator[Process]:
        """Yields a dispatcher that was just started."""
        with Process(self._implementation, "dispatcher", self.assignment) as process:
            yield process
            process.end()

    @contextmanager
    def killed(self) -> Iterator[Process]:
        """Yields a dispatcher that ends by SIGKILL."""
        with Process(self._implementation, "dispatcher", self.assignment) as process:
            yield process
            process.check()
            process.kill()

    def until(self, what: str, process: Process, holds: Callable[[], bool], poll_s: float = 0.02) -> None:
        """Wait for something that the process brings about. Raises Failed or NotOffered."""

        def alive_and_holds() -> bool:
            process.check()
            return holds()

        try:
            wait_until(what, alive_and_holds, LIMIT_S, poll_s)
        except Failed as error:
            raise Failed(f"{error}\n{process.tail()}") from error

    def load(self, process: Process, **options: object) -> int:
        """Send events and wait; how many were accepted."""
        return int(self.load_result(process, **options)["accepted"])

    def load_result(self, process: Process, **options: object) -> dict[str, float]:
        """Send events and wait; the numbers of the load generator."""
        with self.loading(process, **options) as load:
            result: dict[str, float] = load.result(LIMIT_S)
            return result

    def loading(self, process: Process, **options: object) -> LoadProcess:
        """Starts a load generator at work."""
        given = {"connections": CONNECTIONS, "keys": KEYS, "body_bytes": self._body_bytes, **options}
        if self.assignment.tls is not None:
            given["authority"] = self.assignment.tls.authority
        return LoadProcess(self.assignment.folder, process.url, **given)

    def fill(self, count: int) -> None:
        """Store `count` events, as a receiver would have. Raises Failed."""
        producer = Producer(
            {
                "bootstrap.servers": self.lab.kafka,
                "acks": "all",
                "partitioner": "murmur2_random",
                "compression.type": "lz4",
                "linger.ms": 5,
                "queue.buffering.max.messages": 0,
                "queue.buffering.max.kbytes": 1_000_000,
            }
        )
        for number in range(count):
            event = self._events.make(number % KEYS)
            body = event.request.partition(b"\r\n\r\n")[2]
            producer.produce(self.assignment.topic, body, event.key, headers=list(self._events.headers(event)))
        if producer.flush(LIMIT_S) != 0:
            raise Failed(f"{self.assignment.topic} could not be filled")

    def ends(self) -> dict[int, int]:
        """Returns the ends of the topic's partitions."""
        return reader.ends(self.lab.kafka, self.assignment.topic)

    def topics_beside(self) -> list[str]:
        """Returns topics that begin with the topic's name and a dot: what an implementation keeps there is not lost."""
        admin = AdminClient({"bootstrap.servers": self.lab.kafka, "log_level": 2})
        prefix = f"{self.assignment.topic}."
        return [name for name in admin.list_topics(timeout=_KAFKA_LIMIT_S).topics if name.startswith(prefix)]


@dataclass(frozen=True, slots=True)
class Sample:
    """What was seen at one moment."""

    delivered: int
    cpu_s: float
    time_s: float


def sample(process: Process, delivered: Callable[[], int]) -> Sample:
    """Look at a process and its sink."""
    return Sample(delivered(), process.cpu_s(), time.monotonic())


@dataclass(frozen=True, slots=True)
class Interval:
    """What happened between two samples."""

    start: Sample
    end: Sample

    @property
    def events(self) -> int:
        """Deliveries."""
        return self.end.delivered - self.start.delivered

    @property
    def cpu_us(self) -> float:
        """CPU microseconds of the process for each delivery."""
        return 1e6 * (self.end.cpu_s - self.start.cpu_s) / self.events

    @property
    def per_s(self) -> float:
        """Deliveries a second."""
        return self.events / (self.end.time_s - self.start.time_s)


def drain(stage: Stage, process: Process, delivered: Callable[[], int], warm_up: int, total: int) -> Interval:
    """Measures from when `warm_up` are delivered until `total` are. Raises Failed when that was one moment."""
    stage.until(f"{warm_up} events arrive", process, lambda: delivered() >= warm_up)
    start = sample(process, delivered)
    stage.until(f"{total} events arrive", process, lambda: delivered() >= total)
    end = sample(process, delivered)
    if start.delivered >= total:
        raise Failed("the backlog was gone before the measurement began: take more events")
    return Interval(start, end)


class Memory:
    """The most memory that a process held between enter and exit, looked at every 50 ms."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)
        self.most_mb = 0.0

    def __enter__(self) -> Memory:
        self.most_mb = self._process.resident_mb()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(_SAMPLE_S) and self._process.running:
            self.most_mb = max(self.most_mb, self._process.resident_mb())
