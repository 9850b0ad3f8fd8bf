"""Turns tables of format 1, of versions before 0.1.0, into the dataset: sums, and positions in Kafka.

tables.json, records and deltas: parts/batch=N or upto=N (sums), checkpoint (offsets)  -->  run 1 of the dataset
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analytics.traffic.dataset import OLD_QUERIES, OLD_TABLES, Ages, BrokenTablesError, Commit, Dataset, reset_hint
from analytics.traffic.days import write_days
from analytics.traffic.windows import DAY_S, SPARK_SCHEMA
from knative.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def migrate(spark: SparkSession, dataset: Dataset, last: Commit, traffic_topic: str, now_s: float) -> Commit:
    """Returns the commit to continue with: `last`, or that of the migrated tables. Then the old tables are deleted."""
    folder = Path(dataset.root)
    if not dataset.is_local or not (folder / OLD_TABLES).is_file():
        return last
    if last.run == 0:
        try:
            last = _migrated(spark, dataset, last, traffic_topic, now_s)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
            raise BrokenTablesError(
                f"The tables in {folder} are of an older version, and cannot be read ({problem}).", reset_hint(folder)
            ) from problem
    for query in OLD_QUERIES:
        if (folder / query).exists():
            dataset.fs.delete_dir(str(folder / query))
    (folder / OLD_TABLES).unlink()
    return last


def _migrated(spark: SparkSession, dataset: Dataset, last: Commit, traffic_topic: str, now_s: float) -> Commit:
    folder = Path(dataset.root)
    about = json.loads((folder / OLD_TABLES).read_bytes())
    if (about["instance"], about["cluster"]) != (last.instance, last.cluster):
        raise UsageError(
            f"The tables in {folder} belong to another Kafka or another instance ({about['instance']}).",
            "Use another folder: --folder DIR.",
        )
    files: list[Path] = []
    for query in OLD_QUERIES:
        paths, facts, offsets = _committed(folder / query)
        files += paths
        newest = facts.get("newest", {})
        last = replace(
            last,
            offsets={**last.offsets, **offsets},
            ids={**last.ids, **facts.get("ids", {})},
            owners={**last.owners, **{topic: (ns, name) for topic, (ns, name) in facts.get("owners", {}).items()}},
            newest={**last.newest, **(newest if isinstance(newest, dict) else {traffic_topic: newest})},
            seen=facts.get("seen", last.seen),
        )
    last = replace(last, run=1)
    if files:
        rows = spark.read.schema(SPARK_SCHEMA).parquet(*map(str, files))
        last = replace(last, days=write_days(spark, dataset, last, Ages.at(now_s), rows, rows.count(), _by_day(rows)))
    dataset.write(last)
    return last


def _by_day(rows: DataFrame) -> dict[int, int]:
    from pyspark.sql import functions as f

    day = (f.col("start") - f.col("start") % DAY_S).alias("day")
    return {row["day"]: row["events"] for row in rows.groupBy(day).agg(f.sum("events").alias("events")).collect()}


def _committed(query: Path) -> tuple[list[Path], dict[str, Any], dict[str, dict[int, int]]]:
    """Returns files, facts and offsets of the batches that Spark had committed. A batch after them counts again."""
    numbers = [int(path.name) for path in (query / "checkpoint" / "commits").glob("[0-9]*")]
    if not numbers:
        return [], {}, {}
    parts: dict[Path, int] = {path: int(path.name.partition("=")[2]) for path in (query / "parts").glob("*=*")}
    base = max((number for path, number in parts.items() if path.name.startswith("upto=")), default=-1)
    valid = [
        path
        for path, number in sorted(parts.items(), key=lambda part: part[1])
        if base < number <= max(numbers) or path.name == f"upto={base:010}"
    ]
    facts = json.loads((valid[-1] / "facts.json").read_bytes()) if valid else {}  # there was nothing to count
    places = json.loads((query / "checkpoint" / "offsets" / str(max(numbers))).read_text().splitlines()[-1])
    offsets = {topic: {int(number): int(at) for number, at in by.items()} for topic, by in places.items()}
    return [path / "windows.parquet" for path in valid], facts, offsets
