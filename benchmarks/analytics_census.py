"""`python -m benchmarks.analytics_census`: a million census lines read by Spark, compared with a plain Python loop.

    files -> plain loop (CPU and wall)
    files -> read of examples/census (Spark, CPU of its whole process tree and wall) -> topic compute

The words of the chunks must be those that the loop counts, or the exit code is 1. On one machine the loop is much
faster: the figures show what the way through Spark and Kafka costs there. Starts and stops its own Kafka.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from app.local.kafka import EmbeddedKafka
from examples.census.model import count
from examples.census.samples import plain_count, write
from examples.census.topics import remove
from examples.census.totals import Totals
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.topic_reader import TopicReader
from tests.support.proc import tree
from tests.support.processes import REPOSITORY

_POLL_S = 0.2
_KAFKA_LIMIT_S = 300.0
_YEAR = 2019
_MONTHS = ("jan", "feb", "mar", "apr")


def _timed(folder: Path, *arguments: str) -> tuple[float, float]:
    """Runs a census command to its end; returns wall seconds, CPU seconds of all its processes as last seen."""
    command = [sys.executable, "-m", "examples.census", *arguments]
    began, seen = time.monotonic(), dict[int, float]()
    with (folder / "said").open("w+") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, stdin=subprocess.DEVNULL, cwd=REPOSITORY)
        while process.poll() is None:
            seen.update((pid, stat.cpu_s) for pid, stat in tree(process.pid).items())
            time.sleep(_POLL_S)
        wall = time.monotonic() - began
        said.seek(0)
        if process.returncode:
            raise SystemExit(said.read())
    return wall, sum(seen.values())


@contextlib.contextmanager
def _kafka(folder: Path, running: str | None) -> Iterator[str]:
    if running is not None:
        yield running
        return
    kafka = EmbeddedKafka(folder / "kafka", 0, jars_root=REPOSITORY / ".penstock" / "kafka")
    kafka.start(_KAFKA_LIMIT_S)
    try:
        yield kafka.bootstrap
    finally:
        kafka.stop()


def measure(folder: Path, lines: int, master: str, running: str | None = None) -> dict[str, Any]:
    """Measures all of it: seconds, and whether the totals are equal."""
    paths = [write(folder, _YEAR, month, lines // len(_MONTHS), 0.0003) for month in _MONTHS]
    wall, cpu = time.monotonic(), time.process_time()
    plain = plain_count([(_YEAR, path) for path in paths])
    loop_s, loop_cpu_s = time.monotonic() - wall, time.process_time() - cpu
    topic = f"bench-{secrets.token_hex(4)}"
    with _kafka(folder, running) as bootstrap:
        files = [f"--from-file={path}" for path in paths]
        command = ("read", "--years", str(_YEAR), *files, "--master", master, "--compute-topic", topic)
        read_s, read_cpu_s = _timed(folder, *command, "--kafka", bootstrap)
        client, totals = {"bootstrap.servers": bootstrap}, Totals()
        with TopicReader(topic, client) as reader:
            for record in reader.stored():
                totals.add(*count(record.key, record.value))
        remove(KafkaAdmin(client), [topic])
    return {
        "lines": plain[_YEAR].total(), "equal": totals.words() == plain and totals.complete, "loop_s": loop_s,
        "loop_cpu_s": loop_cpu_s, "read_s": read_s, "read_cpu_s": read_cpu_s,
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; the last line is JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.analytics_census", description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=1_000_000, help="in all")
    parser.add_argument("--master", default="local[2]", help="where Spark runs")
    parser.add_argument("--kafka", help="HOST:PORT of a running Kafka, instead of its own")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-census-") as name:
        figures = measure(Path(name), given.lines, given.master, given.kafka)
    print(f"{figures['lines']} lines, totals {'equal' if figures['equal'] else 'NOT EQUAL'}")
    for label, wall, cpu in (("plain Python loop", "loop_s", "loop_cpu_s"), ("read by Spark", "read_s", "read_cpu_s")):
        print(f"{label:28} {figures[wall]:8.1f} s wall {figures[cpu]:8.1f} s CPU")
    print(json.dumps({name: round(value, 2) if isinstance(value, float) else value for name, value in figures.items()}))
    return 0 if figures["equal"] else 1


if __name__ == "__main__":
    sys.exit(main())
