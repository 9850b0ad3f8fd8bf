"""Triggers that come and go under load, and what is left of them: threads, sockets, tasks, consumer groups, metrics.

    python -m tests.chaos.triggers [--triggers 200] [--seconds 180]

One Kafka, one worker, a broker, a steady load. One Trigger stays: it must get each event exactly once. The others come
in batches; some of a batch go as soon as the controller has seen them, the rest once they have been delivered to. The
short form is `tests/system/test_triggers_come_and_go.py`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient

from app.local.kafka import EmbeddedKafka
from knative.contract import kafka_names
from tests.support.installation import Installation
from tests.support.proc import open_files, thread_names
from tests.support.processes import REPOSITORY, Failed, LoadProcess, SinkProcess, Worker, get, wait_until
from tests.support.resources import Wanted

LIMIT_S = 300.0
ENV = {"PENSTOCK_DEBUG": "true"}  #: for its tasks and threads
_STAYS, _GOES = "stays", "goes"
_BATCH, _HASTY = 20, 5
_SEED = 20_261_122
_RATE, _TYPES = 100, "a,b,c,d"
_TASKS = re.compile(r"^(\d+) tasks at ")
_THREAD = re.compile(r"^Thread \d+ (.*)$", re.MULTILINE)
_POOL = "asyncio_"  #: names of the threads of the event loop's pool, which grows to a fixed size and stays
_FOREIGN = "not started by Python"
_TRIGGERS = kafka_names.subscription_group("")  #: how the names of their groups begin


@dataclass(frozen=True, slots=True)
class Held:
    """What a worker holds."""

    client_threads: int  #: of Kafka's clients
    threads: int  #: of Python, without those of the event loop's pool
    sockets: int
    tasks: int
    series: int  #: lines of its metrics that name a Trigger
    groups: frozenset[str]

    @classmethod
    def by(cls, worker: Worker, bootstrap: str) -> Held:
        """At this moment."""
        tasks = _TASKS.match(_page(worker, "/debug/tasks"))
        if tasks is None:
            raise Failed(f"/debug/tasks does not say how many there are\n{worker.tail()}")
        stacks, metrics = _page(worker, "/debug/stacks"), _page(worker, "/metrics")
        return cls(
            client_threads=sum(name.startswith("rdk:") for name in thread_names(worker.process.pid).values()),
            threads=sum(not name.startswith((_POOL, _FOREIGN)) for name in _THREAD.findall(stacks)),
            sockets=sum(file.startswith("socket:") for file in open_files(worker.process.pid).values()),
            tasks=int(tasks[1]),
            series=sum("trigger:" in line for line in metrics.splitlines()),
            groups=groups(bootstrap),
        )

    def more_than(self, before: Held) -> dict[str, object]:
        """What there is more of; {} = nothing."""
        names = ("client_threads", "threads", "sockets", "tasks", "series")
        grown = {name: (getattr(before, name), getattr(self, name)) for name in names}
        growth: dict[str, object] = {name: pair for name, pair in grown.items() if pair[1] > pair[0]}
        return growth | ({"groups": more} if (more := sorted(self.groups - before.groups)) else {})


def groups(bootstrap: str) -> frozenset[str]:
    """The consumer groups of this Kafka."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    return frozenset(group.group_id for group in admin.list_consumer_groups(request_timeout=180).result().valid)


def _page(worker: Worker, path: str) -> str:
    status, body = get(worker.admin_port, path, 60.0)
    if status != 200:
        raise Failed(f"{path} answered {status}\n{worker.tail()}")
    return body.decode()


class Churn:
    """Triggers of one broker that come and go, by a seed."""

    def __init__(self, broker: Installation, sink: SinkProcess, triggers: int, seed: int) -> None:
        self._broker = broker
        self._sink = sink
        self._random = random.Random(seed)
        self._names = itertools.cycle([f"t{number:03}" for number in range(triggers)])
        self._there: list[str] = []
        self.gone = 0

    def batch(self) -> None:
        """The next ones come; then those of the batch before go."""
        broker, leaving = self._broker, self._there
        self._there = [next(self._names) for _ in range(_BATCH)]
        for name in self._there:
            types = [{"exact": {"type": self._random.choice(_TYPES.split(","))}}]
            broker.resources.write(Wanted(name, self._sink.url(_GOES), "key-ordered", filter={"filters": types}))
        hasty = self._random.sample(self._there, _HASTY)
        wait_until("the controller has seen all", lambda: all(map(self._seen, self._there)), LIMIT_S)
        self._remove(hasty)
        self._there = [name for name in self._there if name not in hasty]
        broker.wait_triggers(self._there, LIMIT_S)
        before = self.delivered()
        wait_until("events come to some of them", lambda: self.delivered() > before, LIMIT_S)
        self._remove(leaving)

    def end(self) -> None:
        """All go."""
        self._remove(self._there)
        self._there = []

    def delivered(self) -> int:
        """Deliveries to those that come and go."""
        return self._sink.stats().get(_GOES, {}).get("delivered", 0)

    def _seen(self, name: str) -> bool:
        return bool(self._broker.status("Trigger", name))

    def _remove(self, names: Sequence[str]) -> None:
        self._broker.delete(*names)
        self.gone += len(names)


def come_and_go(bootstrap: str, folder: Path, triggers: int, seconds: float, rate: int) -> dict[str, Any]:
    """At least so many Triggers, for at least so long, with so many events in a second. Raises Failed for what stays of
    them, and for events that the Trigger which stays did not get, or got twice. Returns figures."""
    broker = Installation(bootstrap, folder, partitions=2, env=ENV, is_broker=True)
    with SinkProcess(folder) as sink:
        broker.write([Wanted(_STAYS, sink.url(_STAYS), "key-ordered")])
        with broker.worker() as worker:
            worker.wait_ready()
            broker.wait_triggers([_STAYS], LIMIT_S)
            churn, at_first = Churn(broker, sink, triggers, _SEED), groups(bootstrap)

            def loaded(run: str, more: Callable[[], bool]) -> int:
                """Batches come and go under load, until no `more` are wanted; how many events were accepted."""
                options = {"events": 0, "keys": 50, "rate": rate, "types": _TYPES, "run": run, "limit_s": 3600}
                with LoadProcess(folder, broker.url(worker), **options) as load:
                    churn.batch()
                    while more():
                        churn.batch()
                    churn.end()
                    load.process.terminate()
                    return int(load.result(LIMIT_S)["accepted"])

            sent = loaded("a", lambda: False)  # what is made once for the first of them stays, and does not count
            before = _rest(worker, bootstrap, sink, at_first)
            rss_bytes, ends_s, first = worker.rss_bytes(), time.monotonic() + seconds, churn.gone
            sent += loaded("b", lambda: churn.gone - first < triggers or time.monotonic() < ends_s)
            _wait_for_the_rest(worker, bootstrap, before)
            figures = {
                "triggers": churn.gone - first,
                "events": sent,
                "deliveries": churn.delivered(),
                "rss_growth_mb": round((worker.rss_bytes() - rss_bytes) / 1e6, 1),
                "held": {name: count for name, count in asdict(before).items() if isinstance(count, int)},
            }
            broker.wait_settled([_STAYS], LIMIT_S)
            stats = sink.stats()[_STAYS]
            if (stats["distinct"], stats["duplicates"]) != (sent, 0):
                raise Failed(f"of {sent} events {stats['distinct']} came, and {stats['duplicates']} came again")
            if (code := worker.terminate()) != 0:
                raise Failed(f"the worker ended with {code}\n{worker.tail()}")
            return figures


def _rest(worker: Worker, bootstrap: str, sink: SinkProcess, at_first: frozenset[str]) -> Held:
    """What it holds without load, once no group of those that went is left, no subscriber is connected, and two
    looks in a row are the same."""
    looks: list[Held] = []

    def same() -> bool:
        if _connections_to(sink.port):
            return False
        looks.append(Held.by(worker, bootstrap))
        # Groups of the installation itself may come late: its worker was just started.
        left = {group for group in looks[-1].groups - at_first if group.startswith(_TRIGGERS)}
        return not left and len(looks) > 1 and looks[-1] == looks[-2]

    try:
        wait_until("what the worker holds does not change", same, LIMIT_S, poll_s=2.0)
    except Failed as failure:
        raise Failed(f"{failure}\ngroups at first: {sorted(at_first)}\nlast looks: {looks[-2:]}") from failure
    return looks[-1]


def _connections_to(port: int) -> int:
    """Established connections of this machine to a port of loopback; an idle one is closed after half a minute."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[2].endswith(f":{port:04X}") and row[3] == "01" for row in rows)


def _wait_for_the_rest(worker: Worker, bootstrap: str, before: Held) -> None:
    left: dict[str, object] = {}

    def nothing() -> bool:
        left.clear()
        left.update(Held.by(worker, bootstrap).more_than(before))
        return not left

    try:
        wait_until("nothing is left of the Triggers that went", nothing, LIMIT_S, poll_s=1.0)
    except Failed as failure:
        tasks = _page(worker, "/debug/tasks")
        raise Failed(f"{failure}\n{tasks}\n{worker.tail()}\nleft, before and after: {left}") from failure


def main() -> None:
    """The command line; prints one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triggers", type=int, default=200, help="so many come and go, at least")
    parser.add_argument("--seconds", type=float, default=180.0, help="for at least so long")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="triggers-") as name:
        folder = Path(name)
        jars = REPOSITORY / ".penstock" / "kafka"
        with EmbeddedKafka(folder / "kafka", port=0, heap="512m", jars_root=jars) as kafka:
            print(json.dumps(come_and_go(kafka.bootstrap, folder / "run", given.triggers, given.seconds, _RATE)))


if __name__ == "__main__":
    main()
