"""Measures what Triggers of one broker cost a worker, when all but some of them want none of the events.

    python -m benchmarks.triggers --triggers 1,10,100 --wanting 1 --rate 100 --seconds 30

Real Kafka, one real worker in the role all, one subscriber; prints one JSON object for each number of Triggers. Fetched
bytes are those that the worker's connections to Kafka received (`ss` of iproute2). A measurement ends when each Trigger
has settled the last event. Does not judge the results.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.local.kafka import EmbeddedKafka
from benchmarks.subscribers import Subscribers
from tests.support.installation import Installation
from tests.support.proc import thread_names
from tests.support.processes import LoadProcess, Worker, wait_until
from tests.support.resources import Wanted

_LIMIT_S = 300.0
_PARTITIONS = 4
_KEYS = 200
_WANTED = "wanted"
_LOCAL_PORT = re.compile(r"^\S+\s+\S+\s+\S*:(\d+)\s")
_RECEIVED = re.compile(r"bytes_received:(\d+)")


def _received_bytes(worker: Worker, kafka_port: int) -> dict[int, int]:
    """Returns what each of the worker's connections to Kafka has received so far, by its local port."""
    command = ["ss", "-tinpHO", "state", "established", "dport", "=", f":{kafka_port}"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    by_port = {}
    for line in lines:
        port, received = _LOCAL_PORT.search(line), _RECEIVED.search(line)
        if f"pid={worker.process.pid}," in line and port and received:
            by_port[int(port[1])] = int(received[1])
    return by_port


@dataclass(frozen=True, slots=True)
class _Usage:
    """What the worker has used so far."""

    time_s: float
    cpu_s: float
    received: dict[int, int]

    @classmethod
    def of(cls, worker: Worker, kafka_port: int) -> _Usage:
        return cls(time.monotonic(), worker.cpu_s(), _received_bytes(worker, kafka_port))

    def since(self, before: _Usage) -> tuple[float, float, int]:
        """Returns seconds, CPU seconds, bytes from Kafka."""
        fetched = sum(count - before.received.get(port, 0) for port, count in self.received.items())
        return self.time_s - before.time_s, self.cpu_s - before.cpu_s, fetched


def measure(
    installation: Installation, kafka_port: int, count: int, wanting: int, rate: float, seconds: float
) -> dict[str, Any]:
    """Serves `count` Triggers, of which the last `wanting` want every event that is sent."""
    with Subscribers(installation.folder) as sink:
        names = [f"t{number}" for number in range(count)]
        types = [f"other.{number}" for number in range(count - wanting)] + [_WANTED] * wanting
        installation.write(
            Wanted(name, sink.url(name), "key-ordered", filter={"filters": [{"exact": {"type": type_}}]})
            for name, type_ in zip(names, types, strict=True)
        )
        with installation.worker() as worker:
            began_s = time.monotonic()
            worker.wait_ready()
            installation.wait_triggers(names, _LIMIT_S)
            ready_s = time.monotonic() - began_s
            rested = _Usage.of(worker, kafka_port)
            time.sleep(seconds / 2)
            before, consumed = _Usage.of(worker, kafka_port), worker.consumed()
            idle_s, idle_cpu_s, idle_bytes = before.since(rested)
            options = {"rate": rate, "connections": 4, "events": int(rate * seconds), "keys": _KEYS, "types": _WANTED}
            with LoadProcess(installation.folder, installation.url(worker), **options) as load:
                load_result = load.result(seconds + _LIMIT_S)
            sent = int(load_result["accepted"])
            every = consumed + sent * count
            wait_until("all have all", lambda: worker.consumed() >= every, _LIMIT_S, poll_s=0.5)
            installation.wait_settled(names, _LIMIT_S)
            busy_s, cpu_s, fetched = _Usage.of(worker, kafka_port).since(before)
            figures = {
                "triggers": count,
                "events": sent,
                "per_s": load_result["per_s"],
                "delivered": {name: counts["delivered"] for name, counts in sink.stats().items()},
                "ready_s": round(ready_s, 1),
                "idle_cpu_percent": round(100 * idle_cpu_s / idle_s, 1),
                "cpu_percent": round(100 * cpu_s / busy_s, 1),
                "cpu_us_per_event": round(1e6 * cpu_s / sent),
                "cpu_us_per_event_and_trigger": round(1e6 * cpu_s / sent / count, 1),
                "cpu_us_per_delivery": round(1e6 * cpu_s / sent / wanting),
                "fetched_bytes_per_event": round(fetched / sent),
                "idle_fetched_bytes_per_s": round(idle_bytes / idle_s),
                "connections": len(_received_bytes(worker, kafka_port)),
                "threads": len(thread_names(worker.process.pid)),
                "rss_mb": round(worker.rss_bytes() / 1e6),
                "load_average": round(os.getloadavg()[0], 1),  # other programs make delays, too
            }
            worker.kill()
    return figures


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.triggers", description=__doc__.partition("\n")[0])
    parser.add_argument("--triggers", default="1,10,100", help="how many, by commas")
    parser.add_argument("--wanting", type=int, default=1, help="so many of them want the events, or all if fewer")
    parser.add_argument("--rate", type=float, default=100.0, help="events per second")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each measurement")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-triggers-") as name:
        folder = Path(name)
        jars = Path(__file__).parent.parent / ".penstock" / "kafka"
        with EmbeddedKafka(folder / "kafka", port=0, heap="512m", jars_root=jars) as kafka:
            for count in map(int, given.triggers.split(",")):
                installation = Installation(kafka.bootstrap, folder / f"of-{count}", _PARTITIONS, is_broker=True)
                figures = measure(installation, kafka.port, count, min(count, given.wanting), given.rate, given.seconds)
                sys.stdout.write(json.dumps(figures) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
