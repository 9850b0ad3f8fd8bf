"""What a scene happens in: a Kafka, an installation with two subscriptions, workers, a load and a subscriber.

The first worker has all roles and is never broken; others are beside it from the start, or come and go.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.chaos.disks import SmallDisk
from tests.support.installation import Installation
from tests.support.kafka_cluster import KafkaCluster
from tests.support.ledger import reader
from tests.support.ledger.checker import Verdict, check
from tests.support.ledger.facts import Fault, Writer, read
from tests.support.ledger.worker_log import pauses
from tests.support.proc import open_files, thread_names
from tests.support.processes import LoadProcess, SinkProcess, Worker, get, wait_until
from tests.support.resources import NAMESPACE, Wanted

ORDERS = ("ordered", "key-ordered")
PARTITIONS, KEYS, SEED = 6, 300, 20_261_122
#: A subscriber that sometimes fails, and one so slow that events wait in the workers' memory.
FLAKY = "fail_chance=0.02,delay_s=0.002"


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast events come, and a subscriber that takes as many, one at a time of each partition."""

    rate_per_s: int

    @property
    def slow(self) -> str:
        """The behaviour of that subscriber: events wait in the workers' memory."""
        return f"delay_s={PARTITIONS / self.rate_per_s:g}"


#: In the long forms; and in the short ones, for machines that run other tests at the same time: enough events to fill a
#: network that has been made narrow, or a fifth for all else, where half of the CPU would be the brokers'.
FULL, HALF, FIFTH = Pace(300), Pace(150), Pace(60)
FLOW_LIMIT_S, SETTLE_LIMIT_S = 240.0, 300.0
_DELIVERY = {"retry": 8, "backoffPolicy": "linear", "backoffDelay": "PT0.05S"}
_SAMPLES = 8
_POOLS = ("asyncio_", "uvloop_")  #: names of threads, by kind of loop
_NOT_SERIES = ("#", "penstock_oldest_event_timestamp_seconds{")  # the latter comes and goes with events that wait
_FLOWING = 100  # events: this many more have arrived when events flow


@dataclass(slots=True)
class World:
    """Everything that runs; `outside` are the processes that may be broken."""

    cluster: KafkaCluster
    installation: Installation
    folder: Path
    sink: SinkProcess
    first: Worker
    beside: list[Worker] = field(default_factory=list)
    gone: list[Worker] = field(default_factory=list)  #: ended or killed
    faults: list[Fault] = field(default_factory=list)
    disk: SmallDisk | None = None  #: of a scene that fills one

    def received(self) -> int:
        """Different events that have arrived at the subscribers, added up."""
        return sum(counts["distinct"] for counts in self.sink.stats().values())

    def wait_flow(self, limit_s: float = FLOW_LIMIT_S) -> float:
        """Until events arrive again; how many seconds that took."""
        began_s, before = time.monotonic(), self.received()
        wait_until("events flow", lambda: self.received() >= before + _FLOWING, limit_s, poll_s=0.1)
        return round(time.monotonic() - began_s, 2)

    @contextmanager
    def fault(self, kind: str) -> Iterator[None]:
        """What happens within is a fault of this kind."""
        from_s = time.time()
        try:
            yield
        finally:
            self.faults.append(Fault(kind, from_s, time.time(), SEED))

    def join(self, installation: Installation | None = None) -> Worker:
        """One more dispatcher, with partitions of its own. `installation`: this one, reached in another way."""
        with self.fault("join"):
            worker = (installation or self.installation).worker("dispatcher", controller=False).wait_ready()
            self.beside.append(worker)
            wait_until("it consumes", lambda: worker.consumed() > 0, FLOW_LIMIT_S)
        return worker

    def leave(self, worker: Worker) -> None:
        """SIGTERM, and wait for a clean end."""
        self._part(worker)
        with self.fault("term"):
            assert worker.terminate() == 0, worker.tail()

    def kill(self, worker: Worker) -> None:
        """SIGKILL, until the sink has read what the worker had sent: its answer comes after that."""
        self._part(worker)
        with self.fault("kill"):
            worker.kill()
            self.sink.stats()

    def _part(self, worker: Worker) -> None:
        self.beside.remove(worker)
        self.gone.append(worker)

    def add_subscription(self, name: str, order: str = "ordered") -> Callable[[], dict[str, Any]]:
        """One more subscription of the channel, or another order for it; what is returned reads its status file."""
        installation = self.installation
        installation.resources.write(Wanted(name, self.sink.url(f"{NAMESPACE}/{name}"), order))
        return lambda: installation.status("Subscription", name)

    def holdings(self) -> dict[str, int]:
        """The most that the first worker holds within some seconds, and the groups in Kafka."""
        pid, most = self.first.process.pid, {"groups": len(self.cluster.groups())}
        for _ in range(_SAMPLES):
            page = get(self.first.admin_port, "/metrics")[1].decode()
            now = {
                **_threads(pid, get(self.first.admin_port, "/debug/stacks")[1].decode()),
                "files": _files(pid, {broker.proxy.port for broker in self.cluster.brokers}),
                "tasks": int(get(self.first.admin_port, "/debug/tasks")[1].split(maxsplit=1)[0]),
                "series": sum(not line.startswith(_NOT_SERIES) for line in page.splitlines()),
            }
            most |= {name: max(count, most.get(name, 0)) for name, count in now.items()}
            time.sleep(0.3)
        return most

    def counts_dead_letters(self) -> bool:
        """Whether the first worker, whose controller leads, has counted the DLQ topics once."""
        return "\npenstock_dlq_letters{" in get(self.first.admin_port, "/metrics")[1].decode()

    def stored_again(self) -> int:
        """What the first worker says that it may have stored twice."""
        return total(self.first, "penstock_produce_stored_again_total")


def total(worker: Worker, name: str) -> int:
    """The sum of one of its metrics."""
    _, page = get(worker.admin_port, "/metrics")
    lines = (line for line in page.decode().splitlines() if line.startswith(f"{name}{{"))
    return int(sum(float(line.rpartition(" ")[2]) for line in lines))


def _threads(pid: int, stacks: str) -> dict[str, int]:
    """Those of Kafka clients, and those of Python. Not those of the event loop's pool, which starts one whenever all
    that it has are busy, up to a limit, and keeps it."""
    names = re.findall(r"^Thread \d+ (.*)$", stacks, re.MULTILINE)
    return {
        "kafka_threads": _named(pid, "rdk:"),
        "python_threads": sum(not name.startswith(_POOLS) for name in names),
    }


def _named(pid: int, beginning: str) -> int:
    """Its threads with such a name."""
    return sum(name.startswith(beginning) for name in thread_names(pid).values())


def _files(pid: int, brokers: Set[int]) -> int:
    """Open files. A Kafka client has a thread for each broker from the start, and connects when it first needs it: of
    the connections to the ports of `brokers` only those count that are more than these threads."""
    links = list(open_files(pid).values())
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    to_kafka = {f"socket:[{row[9]}]" for row in rows if int(row[2].partition(":")[2], 16) in brokers}
    connected = sum(link in to_kafka for link in links)
    return len(links) - min(connected, _named(pid, "rdk:broker"))


@contextmanager
def world(
    cluster: KafkaCluster,
    folder: Path,
    disk: SmallDisk | None = None,
    *,
    workers: int = 1,
    subscriber: str,
    is_broker: bool = False,
    direct: bool = False,
) -> Iterator[World]:
    """So many workers, ready, with the subscriptions of a channel, or the triggers of a broker. Statuses are in
    `folder`/state. `direct`: they go past the proxies."""
    replication = min(3, len(cluster.brokers))
    env = {"PENSTOCK_INTERNAL_REPLICATION": str(replication), "PENSTOCK_DEBUG": "true"}
    installation = Installation(
        cluster.direct if direct else cluster.bootstrap,
        folder,
        PARTITIONS,
        env=env,
        replication=replication,
        is_broker=is_broker,
    )
    behaviours = {f"{NAMESPACE}/{order}": f"{subscriber},seed={SEED}" for order in ORDERS}
    with SinkProcess(folder, behaviours, folder / "received") as sink:
        installation.write(_wanted(sink))
        with installation.worker() as first:
            first.wait_ready()
            if is_broker:
                installation.wait_triggers(ORDERS, FLOW_LIMIT_S)
            else:
                installation.wait_subscribers(first, len(ORDERS), FLOW_LIMIT_S)
            whole = World(cluster, installation, folder, sink, first, disk=disk)
            try:
                for _ in range(workers - 1):
                    whole.beside.append(installation.worker("dispatcher", controller=False))
                for worker in whole.beside:
                    worker.wait_ready()
                yield whole
            finally:
                for worker in whole.beside:
                    worker.kill()


def load(whole: World, pace: Pace) -> LoadProcess:
    """Events at a steady rate until it is terminated; a key's next one is sent after its last was answered."""
    options: dict[str, Any] = {"events": 0, "rate": pace.rate_per_s, "keys": KEYS, "connections": 64, "body_bytes": 256}
    url, ledger = whole.installation.url(whole.first), whole.folder / "sent"
    return LoadProcess(whole.folder, url, seed=SEED, sequential=True, ledger=ledger, limit_s=1800, **options)


def settle(whole: World) -> None:
    """Until everything is delivered and committed; then all workers end in order, and so does the subscriber."""
    replace(whole.installation, bootstrap=whole.cluster.direct).wait_settled(ORDERS, SETTLE_LIMIT_S)
    for worker in list(whole.beside):
        whole.leave(worker)
    with whole.fault("term"):
        assert whole.first.terminate() == 0, whole.first.tail()
    assert whole.sink.terminate() == 0


def judged(whole: World) -> Verdict:
    """What the ledger says; after `settle`."""
    installation, outside = whole.installation, whole.folder / "outside"
    with Writer(outside) as writer:
        writer.write_all(whole.faults)
        for worker in (whole.first, *whole.gone):
            writer.write_all(pauses(worker.log))
        writer.write_all(reader.stored(whole.cluster.direct, installation.resources.topic))
        writer.write_all(reader.dead(whole.cluster.direct, installation.resources.dlq_topic))
        groups = [installation.group(order) for order in ORDERS]
        writer.write_all(reader.committed(whole.cluster.direct, groups))
    facts = read(whole.folder / "sent", whole.folder / "received", outside)
    return check(facts, [installation.rule(subscription) for subscription in _wanted(whole.sink)])


def _wanted(sink: SinkProcess) -> list[Wanted]:
    return [Wanted(order, sink.url(f"{NAMESPACE}/{order}"), order, _DELIVERY) for order in ORDERS]
