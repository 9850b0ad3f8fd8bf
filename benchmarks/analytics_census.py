"""`python -m benchmarks.analytics_census`: a million census lines counted by Spark, compared with a plain Python loop.

    files -> plain loop (CPU and wall)
    files -> read -> topic compute -> compute --once (Spark, CPU of its whole process tree and wall) -> topic results

The totals of both must be equal, or the exit code is 1. On one machine the loop is much faster: the figures show what
the way through Kafka and Spark costs there. Starts and stops its own Kafka. Measures the start of the JVM separately.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import secrets
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from analytics.census.generator import Recipe, write
from analytics.census.model import Result, decode
from analytics.census.plain import count_files, same
from app.local.kafka import EmbeddedKafka
from tables.kafka.topic_reader import TopicReader
from tests.support.proc import tree
from tests.support.processes import REPOSITORY

_POLL_S = 0.2
_KAFKA_LIMIT_S = 300.0
_YEAR = 2019
_MONTHS = ("jan", "feb", "mar", "apr")


def _timed(folder: Path, *arguments: str) -> tuple[float, float, str]:
    """A census command to its end: wall seconds, CPU seconds of all its processes as last seen, what it said."""
    command = [sys.executable, "-m", "app.cli", "census", *arguments]
    began, seen = time.monotonic(), dict[int, float]()
    with (folder / "said").open("w+") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, stdin=subprocess.DEVNULL, cwd=REPOSITORY)
        while process.poll() is None:
            seen.update((pid, stat.cpu_s) for pid, stat in tree(process.pid).items())
            time.sleep(_POLL_S)
        wall = time.monotonic() - began
        said.seek(0)
        text = said.read()
    if process.returncode:
        raise SystemExit(text)
    return wall, sum(seen.values()), text


@contextlib.contextmanager
def _kafka(folder: Path, running: str) -> Iterator[str]:
    if running:
        yield running
        return
    kafka = EmbeddedKafka(folder / "kafka", 0, jars_root=REPOSITORY / ".penstock" / "kafka")
    kafka.start(_KAFKA_LIMIT_S)
    try:
        yield kafka.bootstrap
    finally:
        kafka.stop()


def _totals(bootstrap: str, topic: str) -> tuple[dict[int, dict[int, int]], int]:
    """Of the topic of results, each chunk once, and how many came more than once."""
    codes: Counter[int] = Counter()
    seen: set[str] = set()
    repeats = 0
    with TopicReader(topic, {"bootstrap.servers": bootstrap}) as reader:
        for record in reader.stored():
            result = decode(record.value)
            assert isinstance(result, Result)
            if str(result.place) in seen:
                repeats += 1
                continue
            seen.add(str(result.place))
            codes.update(result.codes)
    return {_YEAR: dict(codes)}, repeats


def measure(folder: Path, lines: int, master: str, running: str = "", start_apart: bool = True) -> dict[str, Any]:
    """All of it; seconds, and whether the totals are equal. `start_apart`: a second run tells what is start and end."""
    each = Recipe(lines // len(_MONTHS), 1, 0.0001, 0.0001, 0.0001)
    paths = [write(folder, _YEAR, month, each).path for month in _MONTHS]
    wall, cpu = time.monotonic(), time.process_time()
    plain = count_files([(_YEAR, path) for path in paths])
    loop_s, loop_cpu_s = time.monotonic() - wall, time.process_time() - cpu
    files = [part for path in paths for part in ("--from-file", str(path))]
    name = f"bench-{secrets.token_hex(4)}"
    chunks, results = f"{name}-compute", f"{name}-results"
    with _kafka(folder, running) as bootstrap:
        at = ("--kafka", bootstrap, "--compute-topic", chunks)
        read_s, read_cpu_s, _ = _timed(folder, "read", "--years", str(_YEAR), *files, *at)
        spark = ("compute", "--once", "--verbose", "--master", master, "--checkpoint", str(folder / "checkpoint"))
        spark_s, spark_cpu_s, said = _timed(folder, *spark, *at, "--results-topic", results)
        # Nothing is left to count: what starting and ending costs.
        again_s, again_cpu_s = 0.0, 0.0
        if start_apart:
            again_s, again_cpu_s, _ = _timed(folder, *spark, *at, "--results-topic", results)
        found, repeats = _totals(bootstrap, results)
        if running:
            _timed(folder, "rmtopics", "--force", "--topic", f"{chunks},{results}", "--kafka", bootstrap)
    rates = [int(rate) for rate in re.findall(r"(\d+)/s", said)]
    return {
        "lines": plain.lines, "equal": same(plain.years, found), "repeats": repeats,
        "loop_s": loop_s, "loop_cpu_s": loop_cpu_s, "read_s": read_s, "read_cpu_s": read_cpu_s,
        "spark_s": spark_s, "spark_cpu_s": spark_cpu_s, "spark_start_s": again_s, "spark_start_cpu_s": again_cpu_s,
        "spark_count_s": spark_s - again_s, "spark_count_cpu_s": spark_cpu_s - again_cpu_s, "batch_chunks_per_s": rates,
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; the last line is JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.analytics_census", description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=1_000_000, help="in all")
    parser.add_argument("--master", default="local[2]", help="where Spark runs")
    parser.add_argument("--kafka", default="", help="HOST:PORT of a running Kafka, instead of its own")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-census-") as name:
        found = measure(Path(name), given.lines, given.master, given.kafka)
    rows = (
        ("plain Python loop", "loop_s", "loop_cpu_s"),
        ("read: files -> topic", "read_s", "read_cpu_s"),
        ("compute: Spark, all of it", "spark_s", "spark_cpu_s"),
        ("  of that start and end", "spark_start_s", "spark_start_cpu_s"),
        ("  of that counting", "spark_count_s", "spark_count_cpu_s"),
    )
    print(f"{found['lines']} lines, totals {'equal' if found['equal'] else 'NOT EQUAL'}")
    for label, wall, cpu in rows:
        print(f"{label:28} {found[wall]:8.1f} s wall {found[cpu]:8.1f} s CPU")
    print(json.dumps({name: round(value, 2) if isinstance(value, float) else value for name, value in found.items()}))
    return 0 if found["equal"] else 1


if __name__ == "__main__":
    sys.exit(main())
