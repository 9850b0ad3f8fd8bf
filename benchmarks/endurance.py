"""Measures a worker under extreme conditions. Prints facts, without targets or comparison.

    python -m benchmarks.endurance overload    five times the requests that may wait, for a minute, then none
    python -m benchmarks.endurance hostile     subscribers that hang, send slowly or flood, beside a healthy one
    python -m benchmarks.endurance many        300 subscriptions come and go twice; 100 at rest

Real Kafka, real processes; prints one JSON object for each scene. Does not judge the results; the tests do.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from app.local.kafka import EmbeddedKafka
from benchmarks.subscribers import Subscribers
from tests.support.installation import Installation
from tests.support.proc import open_files, thread_names
from tests.support.processes import LoadProcess, Worker, get, wait_until
from tests.support.resources import Wanted
from tests.support.scripted_server import forever, reply, silence
from tests.support.subscriber import ScriptedSubscriber

_LIMIT_S = 240.0
_CONNECTIONS, _WAITING_MAX = 640, 128
_HUGE_BYTES = 1 << 30
_MB = 1_000_000


def state(worker: Worker) -> dict[str, float]:
    """Returns memory, threads, open files and asyncio tasks of a worker now."""
    _, tasks = get(worker.admin_port, "/debug/tasks")
    return {
        "rss_mb": round(worker.rss_bytes() / _MB, 1),
        "threads": len(thread_names(worker.process.pid)),
        "open_files": len(open_files(worker.process.pid)),
        "tasks": int(tasks.split(maxsplit=1)[0]),
    }


def _watched(worker: Worker, work: Callable[[], bool], every_s: float = 1.0) -> float:
    """Returns the largest RSS in MB until `work` says that it is done."""
    most = 0
    until = time.monotonic() + _LIMIT_S
    while not work() and time.monotonic() < until:
        most = max(most, worker.most_rss_bytes())
        time.sleep(every_s)
    return round(most / _MB, 1)


def overload(installation: Installation, seconds: float) -> dict[str, Any]:
    """Opens 640 connections, each sending its next event at once, where 128 may wait for Kafka."""
    installation.write([])
    installation.env.update(PENSTOCK_INGRESS_INFLIGHT_MAX=str(_WAITING_MAX), PENSTOCK_DEBUG="true")
    folder = installation.folder
    with installation.worker() as worker:
        worker.wait_ready()
        url = installation.url(worker)

        def load(**options: object) -> LoadProcess:
            return LoadProcess(folder, url, events=0, keys=1000, limit_s=_LIMIT_S, **options)

        def finished(**options: object) -> dict[str, Any]:
            with load(**options) as process:
                result: dict[str, Any] = process.result(_LIMIT_S)
                return result

        wait_until("events are accepted", lambda: finished(seconds=0.2, connections=1)["accepted"] > 0, _LIMIT_S)
        figures: dict[str, Any] = {"calm": finished(seconds=5, connections=64), "before": state(worker)}
        with load(seconds=seconds, connections=_CONNECTIONS) as process:
            most = _watched(worker, lambda: not process.running)
            figures["overload"] = process.result(_LIMIT_S)
        figures["after"], figures["rss_mb_most"] = state(worker), most
        figures["recovered"] = finished(seconds=1, connections=64)
    return figures


def hostile(installation: Installation, seconds: float) -> dict[str, Any]:
    """Serves four subscriptions of one channel; `good` works, the others never do."""
    installation.env["PENSTOCK_DEBUG"] = "true"
    flood = reply(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % _HUGE_BYTES + b"x" * (64 * _MB), keep=False)
    with ScriptedSubscriber() as bad, Subscribers(installation.folder) as sink:
        good = Wanted("good", sink.url("good"))
        spoilt = [
            Wanted("hangs", bad.script("/hangs", silence())),
            Wanted(
                "drips", bad.script("/drips", forever(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n", b"x", 0.02))
            ),
            Wanted("floods", bad.script("/floods", flood)),
        ]
        installation.write([good])
        with installation.worker() as worker:
            worker.wait_ready()
            installation.wait_subscribers(worker, 1, _LIMIT_S)

            def flow() -> dict[str, Any]:
                options = {"rate": 300, "connections": 16, "seconds": seconds, "events": 0}
                arrived, started_s = sink.counter(["good"]), time.monotonic()
                with LoadProcess(installation.folder, installation.url(worker), **options) as process:
                    most = _watched(worker, lambda: not process.running)
                    sent = process.result(_LIMIT_S)["accepted"]
                wait_until("good has them all", lambda: arrived() >= sent, _LIMIT_S)
                rate = sent / (time.monotonic() - started_s)
                return {"good_per_s": round(rate, 1), "rss_mb_most": most, **state(worker)}

            figures = {"alone": flow()}
            for subscription in spoilt:
                installation.resources.write(subscription)
            installation.wait_subscribers(worker, 4, _LIMIT_S)
            figures["beside hostile ones"] = flow()
    return figures


def many(installation: Installation, count: int) -> dict[str, Any]:
    """Subscriptions come and go; then a third of them rests."""
    installation.env["PENSTOCK_DEBUG"] = "true"
    figures: dict[str, Any] = {}
    names = [f"s{number}" for number in range(count)]
    with Subscribers(installation.folder) as sink:
        installation.write([Wanted("stays", sink.url("stays"))])
        with installation.worker() as worker:
            worker.wait_ready()
            installation.wait_subscribers(worker, 1, _LIMIT_S)
            figures["start"] = state(worker)
            for turn in ("first", "second"):
                _add(installation, worker, sink, names)
                figures[f"{turn} time there"] = state(worker)
                for name in names:
                    installation.resources.remove(name)
                installation.wait_subscribers(worker, 1, _LIMIT_S)
                time.sleep(5)
                figures[f"{turn} time gone"] = state(worker)
            resting = names[: count // 3]
            _add(installation, worker, sink, resting)
            time.sleep(10)
            cpu_s, began_s = worker.cpu_s(), time.monotonic()
            time.sleep(30)
            share = 100 * (worker.cpu_s() - cpu_s) / (time.monotonic() - began_s)
            figures[f"{len(resting)} at rest"] = {"cpu_percent": round(share, 1), **state(worker)}
    return figures


def _add(installation: Installation, worker: Worker, sink: Subscribers, names: Sequence[str]) -> None:
    for name in names:
        installation.resources.write(Wanted(name, sink.url(name)))
    installation.wait_subscribers(worker, len(names) + 1, _LIMIT_S)


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.endurance", description=__doc__.partition("\n")[0])
    parser.add_argument("scenes", nargs="*", default=["overload", "hostile", "many"])
    parser.add_argument("--seconds", type=float, default=60.0, help="of overload")
    given = parser.parse_args()
    scenes: dict[str, Callable[[Installation], dict[str, Any]]] = {
        "overload": lambda installation: overload(installation, given.seconds),
        "hostile": lambda installation: hostile(installation, 15.0),
        "many": lambda installation: many(installation, 300),
    }
    unknown = set(given.scenes) - scenes.keys()
    if unknown:
        parser.error(f"there is no scene {sorted(unknown)[0]}; there are {', '.join(scenes)}")
    with tempfile.TemporaryDirectory(prefix="penstock-endurance-") as name:
        folder = Path(name)
        jars = Path(__file__).parent.parent / ".penstock" / "kafka"
        with EmbeddedKafka(folder / "kafka", port=0, heap="512m", jars_root=jars) as kafka:
            for scene in given.scenes:
                figures = scenes[scene](Installation(kafka.bootstrap, folder / scene, partitions=4))
                sys.stdout.write(json.dumps({scene: figures}, indent=2) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
