"""Counts the machine instructions of the hot functions, for each event.

    python -m benchmarks.instructions [--write]

A busy machine changes CPU times by half, and this count by a thousandth. The functions run under valgrind's callgrind.
Prints the counts beside those of benchmarks/results/instructions.json, and judges nothing; `--write` replaces that
file. Without valgrind it says so, and the exit code is 0. A count depends on the build of Python, so compare only those
of one machine.

Sockets and Kafka's client are stubs, and not in the counts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import faust
from confluent_kafka import Message

from agents.config import DeliveryConfig
from agents.dispatch.context import DeliveryContext
from agents.dispatch.dispatcher import Dispatcher
from agents.http.connection import Connection as Sender
from agents.http.egress_guard import EgressGuard
from agents.http.pool import PoolConfig
from agents.listeners.base import Hooks
from agents.listeners.metrics import MetricsListener
from agents.listeners.traffic import TrafficListener
from agents.offsets.commits import Commits
from agents.offsets.offset_tracker import OffsetTracker
from agents.offsets.partition import PartitionState
from agents.reader.decode import decode
from agents.reader.selection import select
from app.observability.metrics import Metrics
from app.worker.producer.client import ProducerClient
from app.worker.producer.config import ProducerConfig
from app.worker.producer.kafka_producer import KafkaProducer
from app.worker.system_clock import SystemClock
from benchmarks.events import Events
from knative.cloudevents import json_format
from knative.cloudevents.http_binding import to_record
from knative.cloudevents.record_headers import record_headers
from knative.cloudevents.request_plan import planned_request
from knative.contract.records import Channel, Subscription
from knative.delivery.policy import Addressable
from knative.traffic.counters import TrafficCounters
from tests.support.fakes import MemoryContract, MemoryProduce
from web.http.config import DriverConfig
from web.http.connection import Connection
from web.http.driver import Web
from web.http.raw_request import RawRequest
from web.http.request_reader import RequestReader
from web.ingress.view import Ingress, IngressConfig, IngressView, record_of

RESULTS = Path(__file__).parent / "results" / "instructions.json"
_TURN = 16  #: events of one call of a case: so many arrive before answers do
_TURNS, _WARM_UP_TURNS = 64, 32
_PARTITIONS = 4
_LIMIT_S = 600.0
_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
_TOTAL = re.compile(r"^totals: (\d+)", re.MULTILINE)


class _Sink:
    """A transport that takes what is written."""

    def write(self, data: bytes) -> None:
        """Drop it."""

    def get_write_buffer_size(self) -> int:
        """Nothing waits."""
        return 0


class _Message:
    """What librdkafka says of a stored record."""

    def topic(self) -> str:
        """Returns that of the one channel."""
        return "bench.c"

    def partition(self) -> int:
        """Returns any."""
        return 3

    def offset(self) -> int:
        """Returns any: it is stored."""
        return 7

    def latency(self) -> float:
        """Returns seconds."""
        return 0.004


class _KafkaClient:
    """A client of librdkafka that stores at the next `poll`."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[None, _Message], None]] = []
        self._message = _Message()

    def __len__(self) -> int:
        return len(self._waiting)

    def produce(self, topic: str, value: Any, key: Any, partition: int, *, on_delivery: Any, headers: Any) -> None:
        """One record."""
        self._waiting.append(on_delivery)

    def poll(self, timeout: float = 0.0) -> int:
        """Acknowledge all of them, on the event loop only."""
        if threading.current_thread() is not threading.main_thread():
            return 0
        waiting, self._waiting = self._waiting, []
        for on_delivery in waiting:
            on_delivery(None, self._message)
        return len(waiting)

    def list_topics(self, timeout: float) -> None:
        """Kafka is there."""

    def flush(self, timeout: float) -> int:
        """The poll thread asks; the loop is faster."""
        return len(self._waiting)


class _Producer(KafkaProducer):
    """The real one, on the stub."""

    def _build(self) -> ProducerClient:
        return ProducerClient(_KafkaClient(), self.config.timeout_s, 0.0)  # type: ignore[arg-type]


class _Listener:
    """Who a sending connection answers to."""

    head_bytes_max = body_bytes_max = 1 << 20

    def answered(self, connection: Sender, keep: bool) -> None:
        """Nothing follows."""


def _way_in(producer: KafkaProducer, metrics: Metrics) -> Mapping[str, Callable[[], object]]:
    channel = Channel("u", 1, "bench", "c", "bench.c", "bench.c.dlq", 10)
    ingress = Ingress(IngressConfig(), MemoryContract(channel), producer, metrics, TrafficCounters("bench"))
    web = Web(faust.App("bench", autodiscover=False))
    web.route("/{path:.*}", type("View", (IngressView,), {"ingress": ingress})(web.app, web))
    events = Events("http://h/channels/bench/c", run="r", keys=1000, body_bytes=1024, seed=1, checked=False)
    requests = [events.make(number).request for number in range(_TURN)]
    connections = [Connection(web) for _ in requests]
    for connection in connections:
        connection.connection_made(_Sink())  # type: ignore[arg-type]
    reader = RequestReader(DriverConfig())

    def read(request: bytes) -> RawRequest:
        reader.read(request, 0)
        return reader.take()

    for _ in range(2):  # the first requests make the plan
        taken = [read(request) for request in requests]
    records = [record_of(request) for request in taken]

    envelope = json_format.write({**dict(records[0][0][:-1]), "content-type": b"application/json"}, b'{"a": [1, "b"]}')
    structured = [(b"host", b"h"), (b"content-type", b"application/cloudevents+json")]

    def produce() -> None:
        for headers, key, value in records:
            producer.send("bench.c", value, key, headers, _ignore)
        for _ in range(producer._gather_ticks):
            producer._tick()

    def way_in() -> None:
        for connection, request in zip(connections, requests, strict=True):
            connection.data_received(request)
        for _ in range(producer._gather_ticks):
            producer._tick()
        assert not producer._outstanding

    return {
        "in: a request is read": lambda: [read(request) for request in requests],
        "in: a request becomes a record": lambda: [record_of(request) for request in taken],
        "in: a structured event becomes a record": lambda: [to_record(structured, envelope) for _ in requests],
        "in: a record is sent and acknowledged": produce,
        "in: all of it, from bytes to the answer": way_in,
    }


class _Subscriber(_Sink):
    """The transport of a connection, which then waits for an answer."""

    def __init__(self, waiting: list[Sender], connection: Sender) -> None:
        self._waiting = waiting
        self._connection = connection

    def write(self, data: bytes) -> None:
        """A request."""
        self._waiting.append(self._connection)


def _message(number: int) -> Message:
    """Returns a record as a consumer returns it: nothing of it, such as the hash of a name, is worked out yet."""
    names = ["ce_id", "ce_source", "ce_type", "ce_specversion", "ce_time", "ce_partitionkey", "content-type"]
    values = f"r-{number} /load load.event 1.0 2026-11-21T10:00:00.{number:09}Z k{number % 1000} a/b".encode().split()
    offset, partition = divmod(number, _PARTITIONS)
    return Message(
        topic="bench.c",
        partition=partition,
        offset=offset,
        key=values[5],
        value=bytes(1024),
        headers=list(zip(names, values, strict=True)),
        timestamp=(1, 1_764_000_000_000),
    )


def _way_out(metrics: Metrics) -> Mapping[str, Callable[[], object]]:
    destination = Addressable("http://h/sub")
    subscription = Subscription("u", 1, "bench", "s", "c", "c", "bench.c", "bench.c.dlq", _PARTITIONS, "g", destination)
    commits = Commits(subscription.label, 0.5, _raise, _ignore)
    context = DeliveryContext(
        DeliveryConfig({}), PoolConfig(), EgressGuard(), MemoryProduce(), metrics, SystemClock(), _raise, _ignore
    )
    counter = TrafficCounters("bench").subscription("bench", "c", "s")
    hooks = Hooks([MetricsListener(metrics, subscription.label), TrafficListener(counter)])
    dispatcher = Dispatcher(subscription, context, commits, hooks)
    prefix = dispatcher._prefix
    waiting: list[Sender] = []
    for _ in range(_PARTITIONS):
        connection = Sender(dispatcher.pool(destination))
        connection.connection_made(_Subscriber(waiting, connection))  # type: ignore[arg-type]
        dispatcher.pool(destination)._idle.append(connection)
    heads, states = ({n: PartitionState("bench.c", n, OffsetTracker(0)) for n in range(_PARTITIONS)} for _ in range(2))
    messages = [_message(number) for number in range(_TURN * (_TURNS + _WARM_UP_TURNS))]
    records = iter([(record_headers(message), message.value()) for message in messages])
    fetched = iter([_message(number) for number in range(len(messages))])
    sender = Sender(_Listener())  # type: ignore[arg-type]
    sender.connection_made(_Sink())  # type: ignore[arg-type]

    def to_requests() -> None:
        for headers, value in islice(records, _TURN):
            planned_request(prefix, headers, value)

    def post() -> None:
        for _ in range(_TURN):
            sender.send(b"", _ignore, 0.0)
            sender.data_received(_ANSWER)

    def way_out() -> None:
        for range_ in decode(list(islice(fetched, _TURN)), heads, states.get).ranges:
            deliveries, _ = select(range_, states[range_.number], range_.start, None, None)
            dispatcher.scheduler.enqueue(states[range_.number], deliveries, range_.end)
        while waiting:
            waiting.pop().data_received(_ANSWER)
        assert not dispatcher.scheduler.started

    return {
        "out: a record becomes a request": to_requests,
        "out: a request is sent and its answer is read": post,
        "out: all of it, from the record to its offset": way_out,
    }


@asynccontextmanager
async def cases() -> AsyncIterator[Mapping[str, Callable[[], object]]]:
    """Yields what is counted, by name. Each call does the work of sixteen events."""
    metrics = Metrics()
    producer = _Producer(ProducerConfig({}, "bench"), metrics)
    await producer.start()
    try:
        yield {**_way_in(producer, metrics), **_way_out(metrics)}
    finally:
        await producer.stop(0.0)


def _ignore(*_: object) -> None:
    """A callback."""


def _raise(problem: BaseException) -> None:
    """What ends a process."""
    raise problem


async def _measured(folder: Path) -> None:
    """Runs in the process of valgrind: one dump of the counts for each case, and first for no work at all."""
    async with cases() as counted:
        for case in counted.values():
            for _ in range(_WARM_UP_TURNS):
                case()
        _control("--instr=on")
        for number, case in enumerate([_ignore, *counted.values()]):
            _control("--zero")
            for _ in range(_TURNS):
                case()
            _control(f"--dump={number}")
        _control("--instr=off")
    (folder / "names.json").write_text(json.dumps(list(counted)))


def _control(what: str) -> None:
    subprocess.run(["callgrind_control", what, str(os.getpid())], check=True, capture_output=True, timeout=_LIMIT_S)


def measure(folder: Path) -> dict[str, int]:
    """Counts instructions for each event by the name of the case. Raises CalledProcessError. `folder` takes files."""
    command = [
        "valgrind",
        "--tool=callgrind",
        "--instr-atstart=no",
        f"--callgrind-out-file={folder / 'counts'}",
        sys.executable,
        "-m",
        "benchmarks.instructions",
        "--in",
        str(folder),
    ]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=_LIMIT_S, env=environment)
    names = json.loads((folder / "names.json").read_text())
    counts = []
    for number in range(len(names) + 1):
        dumps = [text for file in folder.glob("counts.*") if f"dump {number}\n" in (text := file.read_text())]
        counts.append(int(_TOTAL.findall(dumps[0])[0]))
    return {name: round((count - counts[0]) / (_TURNS * _TURN)) for name, count in zip(names, counts[1:], strict=True)}


def lines(counts: dict[str, int], before: dict[str, int]) -> list[str]:
    """Returns the table: each count, and how it differs from the one before."""
    rows = []
    for name, count in counts.items():
        former = before.get(name)
        change = f"{former:>8,} {100 * (count - former) / former:+6.1f} %" if former else "     new"
        rows.append(f"{name:48} {count:>8,} {change}")
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.instructions", description="Instructions of an event.")
    parser.add_argument("--write", action="store_true", help=f"replace the figures of {RESULTS.name}")
    parser.add_argument("--in", dest="folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.folder is not None:
        asyncio.run(_measured(given.folder))
        return 0
    if shutil.which("valgrind") is None:
        print("valgrind is not installed: no instructions are counted (apt-get install valgrind)")
        return 0
    with tempfile.TemporaryDirectory() as name:
        try:
            counts = measure(Path(name))
        except subprocess.CalledProcessError as error:
            print(f"no instructions are counted: {error}\n{error.stderr[-2000:]}", file=sys.stderr)
            return 1
    former = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    print(f"instructions of an event, Python {platform.python_version()}; before, Python {former.get('python')}")
    print("\n".join(lines(counts, former.get("counts", {}))))
    if given.write:
        RESULTS.write_text(json.dumps({"python": platform.python_version(), "counts": counts}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
