"""`python -m benchmarks.analytics_tables`: minutes of many series become hours in one run, and are read back.

    series x 1,440 minutes x days, each with a latency sketch of ten buckets, all older than minutes are kept

Prints CPU, the largest RSS of Spark's process and of Python, and whether the sums are equal. `--memory 1g` is the heap.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from analytics.traffic.dataset import Commit, Dataset, day_name
from analytics.traffic.windows import COUNTS, DAY_S, KEYS, SCHEMA
from benchmarks.analytics_traffic import cpu_s, rss_mb
from tests.support.proc import tree
from tests.support.processes import REPOSITORY

_BUCKETS = 10


def write(folder: Path, series: int, days: int) -> int:
    """Writes minutes of this many days, the newest four days old; returns the number of events."""
    dataset, today = Dataset(folder), int(time.time()) // DAY_S * DAY_S
    rows = series * 1440
    for day in range(today - (days + 4) * DAY_S, today - 4 * DAY_S, DAY_S):
        number = np.repeat(np.arange(series), 1440)
        columns: dict[str, object] = dict.fromkeys(COUNTS, np.full(rows, 7))
        columns |= {"start": np.tile(day + 60 * np.arange(1440), series), "size": np.full(rows, 60, np.int32)}
        columns |= {name: np.char.add(f"{name}-", number.astype(str)) for name in KEYS[3:]}
        columns["kind"] = np.full(rows, "settled")
        entries = pa.StructArray.from_arrays(
            [
                pa.array(np.tile(np.arange(40, 40 + _BUCKETS, dtype=np.int32), rows)),
                pa.array(np.ones(rows * _BUCKETS, int)),
            ],
            ["bucket", "count"],
        )
        ends = np.arange(0, rows * _BUCKETS + 1, _BUCKETS, dtype=np.int32)
        columns["latency"] = pa.ListArray.from_arrays(ends, entries)
        target = folder / "windows" / "resolution=60" / f"day={day_name(day)}" / "run=1"
        target.mkdir(parents=True)
        pq.write_table(pa.table({name: columns[name] for name in SCHEMA.names}).cast(SCHEMA), target / "part-0.parquet")
    dataset.write(Commit("bench", "", 1, days=dataset.files_of("1")))
    return rows * days * 7


def main() -> None:
    """Write, compact with Spark, read back."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.analytics_tables", description=__doc__)
    parser.add_argument("--series", type=int, default=100)
    parser.add_argument("--days", type=int, default=35)
    parser.add_argument("--memory", default="1g")
    parser.add_argument("--master", default="local[2]")
    wish = parser.parse_args()
    from analytics.spark.session import SparkOptions, spark_session
    from analytics.traffic.job import TrafficJob, TrafficPlan
    from analytics.traffic.read import count_rows, read_sums
    from app.operations.spark_jars import jar_places

    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        folder = Path(name) / "traffic"
        events = write(folder, wish.series, wish.days)
        print(f"{count_rows(folder):,} rows of {wish.days} days, load {os.getloadavg()[0]:.1f}", flush=True)
        began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
        sums, _ = read_sums(folder, 3600)
        after = resource.getrusage(resource.RUSAGE_SELF)
        equal = sum(window.counts.events for window in sums) == events
        print(
            f"read back       {time.monotonic() - began:6.1f} s, {after.ru_utime - before.ru_utime:5.1f} s CPU, "
            f"{after.ru_maxrss // 1024} MB of Python at most, sums {'equal' if equal else 'DIFFERENT'}",
            flush=True,
        )
        jars = tuple(jar_places(root=REPOSITORY / ".penstock" / "spark"))
        options = SparkOptions(master=wish.master, jars=jars, driver_memory=wish.memory)
        with spark_session(options) as spark:
            pids = [pid for pid in tree(os.getpid()) if pid != os.getpid()]
            most, ended = [0], threading.Event()

            def watch() -> None:
                while not ended.wait(0.2):
                    most[0] = max(most[0], sum(map(rss_mb, pids)))

            threading.Thread(target=watch, daemon=True).start()
            began, cpu = time.monotonic(), sum(map(cpu_s, pids))
            plan = TrafficPlan({"bootstrap.servers": "none"}, {}, "", folder, lambda *_: {}, "bench")
            TrafficJob(spark, plan).run()
            ended.set()
            print(
                f"compacted       {time.monotonic() - began:6.1f} s, {sum(map(cpu_s, pids)) - cpu:5.1f} s CPU, "
                f"{most[0]} MB of Spark at most",
                flush=True,
            )
        sums, _ = read_sums(folder, 3600)
        equal = sum(window.counts.events for window in sums) == events
        print(f"after           {count_rows(folder):,} rows, sums {'equal' if equal else 'DIFFERENT'}")


if __name__ == "__main__":
    main()
