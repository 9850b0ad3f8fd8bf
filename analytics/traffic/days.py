"""Writes the days of a batch with Spark: what is new, added to what the tables have, each day in the length of its age.

    files of these days + new windows --sum--> resolution=.../day=.../run=N-..., a new file for each day

The commit that follows names these files. Before it, the sum of what was written is compared with what went in: tasks
that ran again, and workers that wrote to disks of their own, must not go unnoticed.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pyarrow.parquet as pq

from analytics.spark.sizes import sized
from analytics.traffic.dataset import WINDOWS, Ages, Commit, Dataset, day_name
from analytics.traffic.frames import days_of
from analytics.traffic.windows import SPARK_SCHEMA
from knative.errors import PenstockError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def write_days(
    spark: SparkSession,
    dataset: Dataset,
    commit: Commit,
    ages: Ages,
    new: DataFrame | None,
    size: int,
    events: Mapping[int, int],
) -> dict[str, tuple[str, ...]]:
    """Returns the files of all days after run `commit.run`, which adds `size` `new` windows to `commit.days`.

    `events`: the first second of each day that has new windows, and their events. Days that have become too old are
    left out.
    """
    added = {day_name(start): count for start, count in events.items() if ages.resolution(day_name(start))}
    due = commit.due(ages)
    again = [day for day in commit.days if (day in added or day in due) and ages.resolution(day)]
    old = dataset.full(name for day in again for name in commit.days[day])
    untouched = {day: names for day, names in commit.days.items() if day not in added and day not in due}
    if not added and not old:
        return untouched
    # A folder of this attempt: Spark may still write for one whose command was killed, as a Connect server does.
    attempt = f"{commit.run}-{uuid.uuid4().hex[:8]}"
    parts = [new] if new is not None else []
    parts += [read_files(spark, dataset, old)] if old else []
    written = days_of(reduce(lambda data_frame, other: data_frame.unionByName(other), parts), ages, attempt)
    target = f"{dataset.uri}/{WINDOWS}"
    writer = written.write.mode("overwrite").option("partitionOverwriteMode", "dynamic").option("compression", "zstd")
    with sized(spark, size + sum(_rows(dataset, path) for path in old)):
        writer.partitionBy("resolution", "day", "run").parquet(target)
    days = dataset.files_of(attempt)
    expected = _events(dataset, old) + sum(added.values())
    counted = _events(dataset, dataset.full(name for names in days.values() for name in names))
    if counted != expected:
        raise PenstockError(
            f"Spark should have written {expected:,} events to {dataset.folder}, but {counted:,} are there. None was "
            "counted.",
            "Run the job again. If Spark's workers run on other machines, use a folder that all of them reach, such as "
            "s3a://BUCKET/traffic.",
        )
    return untouched | days


def read_files(spark: SparkSession, dataset: Dataset, paths: Sequence[str]) -> DataFrame:
    """Returns the windows in these files of the tables."""
    return spark.read.schema(SPARK_SCHEMA).parquet(*map(dataset.uri_of, paths))


def _rows(dataset: Dataset, path: str) -> int:
    rows: int = pq.read_metadata(path, filesystem=dataset.fs).num_rows
    return rows


def _events(dataset: Dataset, paths: Sequence[str]) -> int:
    """Counts events of all kinds. Reads one column."""
    tables = (pq.read_table(path, columns=["events"], filesystem=dataset.fs, partitioning=None) for path in paths)
    return sum(pc.sum(table["events"]).as_py() or 0 for table in tables)
