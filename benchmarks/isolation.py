"""Measures healthy subscriptions of a worker while others of it fail or have deep backlogs.

    python -m benchmarks.isolation sick       12 kinds of sick subscribers beside 4 healthy ones
    python -m benchmarks.isolation backlog    an ordered subscription beside two with deep backlogs and concurrency 100

Real Kafka, one real worker, subscribers in processes of their own; prints one JSON object for each scene. Rates and
delays are those of the healthy ones, alone and beside the others. Does not judge the results; the tests do.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app.local.kafka import EmbeddedKafka
from benchmarks.sick import KINDS
from benchmarks.subscribers import Subscribers
from tests.support.installation import Installation
from tests.support.ledger.report import percentile
from tests.support.processes import Child, Failed, LoadProcess, Worker, get, wait_until
from tests.support.resources import Wanted

_LIMIT_S = 240.0
_HEALTHY = {"ordered": "ordered", "keyed": "key-ordered", "unordered": "unordered", "second": "ordered"}
_RATE = 40
_BACKLOG = 4_000  #: events that every sick subscription begins with
_DELIVERY = {"retry": 3, "backoffPolicy": "linear", "backoffDelay": "PT0.1S", "timeout": "PT2S"}
_FROM_THE_START = {"penstock.dev/start": "earliest"}
_GREEDY = ("greedy-1", "greedy-2")
_GREEDY_PER_S = 12_000  #: events in the backlog for each second of measuring: none of them comes to the end of it


class Sick(Child):
    """`benchmarks.sick` on a free port."""

    def __init__(self, folder: Path) -> None:
        super().__init__("sick", [sys.executable, "-m", "benchmarks.sick"], folder)
        wait_until("it says its port", lambda: self.output().endswith("\n") or not self.running, 20)
        if not self.running:
            raise Failed(self.tail())
        self._port = int(json.loads(self.output())["port"])

    def url(self, kind: str) -> str:
        """Returns the URL of one kind."""
        return f"http://127.0.0.1:{self._port}/{kind}"


def _lines(worker: Worker) -> int:
    return worker.log.read_bytes().count(b"\n") + worker.output().count("\n")


def _failed_attempts(worker: Worker) -> float:
    """Counts them so far, of all subscriptions."""
    lines = get(worker.admin_port, "/metrics")[1].decode().splitlines()
    rows = [line for line in lines if line.startswith("penstock_attempts_total{") and 'code="2' not in line]
    return sum(float(row.rpartition(" ")[2]) for row in rows)


def _flow(installation: Installation, worker: Worker, bad: Sick, sink: Subscribers, seconds: float) -> dict[str, Any]:
    """Sends 40 events a second for this long; returns what each healthy subscription got, and how old it was."""
    for name in _HEALTHY:
        sink.times(name)
    before = {name: sink.counter([name]) for name in _HEALTHY}
    cpu_s, bad_s, lines, began_s = worker.cpu_s(), bad.cpu_s(), _lines(worker), time.monotonic()
    failed = _failed_attempts(worker)
    options = {"rate": _RATE, "connections": 4, "seconds": seconds, "events": 0, "keys": 200, "stamp": True}
    with LoadProcess(installation.folder, installation.url(worker), **options) as load:
        sent = load.result(_LIMIT_S)["accepted"]
    took_s = time.monotonic() - began_s
    got = {name: count() for name, count in before.items()}
    delays = {name: sorted(sink.times(name).delays_s) for name in _HEALTHY}
    return {
        "accepted": sent,
        "rate_percent": {name: round(100 * count / sent, 1) for name, count in got.items()},
        "p50_ms": {name: round(1000 * percentile(times, 50), 1) for name, times in delays.items()},
        "p99_ms": {name: round(1000 * percentile(times, 99), 1) for name, times in delays.items()},
        "failed_attempts_per_s": round((_failed_attempts(worker) - failed) / took_s, 1),
        "cpu_percent": round(100 * (worker.cpu_s() - cpu_s) / took_s, 1),
        "cpu_percent_of_the_sick": round(100 * (bad.cpu_s() - bad_s) / took_s, 1),
        "load_average": round(os.getloadavg()[0], 1),  # other programs make delays, too
        "log_lines_per_s": round((_lines(worker) - lines) / took_s, 1),
    }


def sick(installation: Installation, seconds: float, kinds: Sequence[str], profile: Path | None) -> dict[str, Any]:
    """All subscriptions are of one channel, so that each sick one gets every event, and every retry of it."""
    with Sick(installation.folder) as bad, Subscribers(installation.folder) as sink:
        healthy = [Wanted(name, sink.url(name), order) for name, order in _HEALTHY.items()]
        installation.write(healthy)
        with installation.worker() as worker:
            worker.wait_ready()
            installation.wait_subscribers(worker, len(healthy), _LIMIT_S)
            fill = {"connections": 16, "events": _BACKLOG, "keys": 200}
            with LoadProcess(installation.folder, installation.url(worker), **fill) as load:
                load.result(_LIMIT_S)
            installation.wait_settled(list(_HEALTHY), _LIMIT_S)
            figures = {"alone": _flow(installation, worker, bad, sink, seconds)}
            for kind in kinds:
                url = bad.url(kind)
                installation.resources.write(Wanted(kind, url, "unordered", _DELIVERY, annotations=_FROM_THE_START))
            installation.wait_subscribers(worker, len(healthy) + len(kinds), _LIMIT_S)
            if profile is not None:
                _profile(worker, profile, seconds / 2)
            figures["while the sick ones begin"] = _flow(installation, worker, bad, sink, seconds)
            figures["beside sick ones"] = _flow(installation, worker, bad, sink, seconds)
            worker.kill()
    return figures


def _profile(worker: Worker, file: Path, seconds: float) -> None:
    """The worker's own sampling profile, beside the measured load."""
    from threading import Thread

    def fetch() -> None:
        _, body = get(worker.admin_port, f"/debug/profile?seconds={seconds:g}", seconds + 60)
        file.write_bytes(body)

    Thread(target=fetch, daemon=True).start()


def backlog(installation: Installation, seconds: float) -> dict[str, Any]:
    """Makes a backlog that all three begin with; the ordered one may have one event under way in a partition, the
    others 100 each."""
    with Subscribers(installation.folder) as sink, Subscribers(installation.folder) as own:
        figures = {}
        for greedy in ((), _GREEDY):
            # Another installation: the channel of a Subscription cannot be changed.
            folder = installation.folder / f"beside-{len(greedy)}"
            here = Installation(installation.bootstrap, folder, installation.partitions, env=dict(installation.env))
            own.behave("ordered", "delay_s=0.004")
            for name in greedy:
                sink.behave(name, "delay_s=0.004")
            here.write([])
            with here.worker() as worker:
                worker.wait_ready()
                wait_until("the channel is there", lambda here=here: here.ends() != {}, _LIMIT_S)  # type: ignore[misc]
                options = {"connections": 64, "events": int(_GREEDY_PER_S * seconds), "keys": 1000}
                with LoadProcess(here.folder, here.url(worker), **options) as load:
                    load.result(_LIMIT_S)
                specs = [Wanted("ordered", own.url("ordered"), annotations=_FROM_THE_START)]
                specs += [Wanted(name, sink.url(name), "unordered", annotations=_FROM_THE_START) for name in greedy]
                here.write(specs)
                here.wait_subscribers(worker, len(specs), _LIMIT_S)
                counts = {name: own.counter([name]) for name in ("ordered",)}
                counts |= {name: sink.counter([name]) for name in greedy}
                began_s, cpu_s = time.monotonic(), worker.cpu_s()
                time.sleep(seconds)
                took_s = time.monotonic() - began_s
                rates = {name: round(count() / took_s, 1) for name, count in counts.items()}
                figures["beside two" if greedy else "alone"] = {
                    "per_s": rates,
                    "cpu_percent": round(100 * (worker.cpu_s() - cpu_s) / took_s, 1),
                }
                worker.kill()
    return figures


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.isolation", description=__doc__.partition("\n")[0])
    parser.add_argument("scenes", nargs="*", default=["sick", "backlog"])
    parser.add_argument("--seconds", type=float, default=30.0, help="of each measurement")
    parser.add_argument("--kinds", default=",".join(KINDS), help="which sick ones, by commas")
    parser.add_argument("--profile", type=Path, help="a file for the worker's profile beside the sick ones")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-isolation-") as name:
        folder = Path(name)
        jars = Path(__file__).parent.parent / ".penstock" / "kafka"
        with EmbeddedKafka(folder / "kafka", port=0, heap="512m", jars_root=jars) as kafka:
            for scene in given.scenes:
                installation = Installation(kafka.bootstrap, folder / scene, partitions=4)
                installation.env["PENSTOCK_DEBUG"] = "true"
                if scene == "sick":
                    figures = sick(installation, given.seconds, given.kinds.split(","), given.profile)
                else:
                    figures = backlog(installation, given.seconds)
                sys.stdout.write(json.dumps({scene: figures}, indent=2) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
