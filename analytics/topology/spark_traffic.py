"""Traffic as a DataFrame of sums: from the workers' deltas in Kafka, or from the tables of the traffic job.

    topic records --from_json, each (by, n) once--> rows in the window --> spark_facts
    Parquet windows of a size, `stored` or else `accepted` of a channel --> the same rows

Refuses to choose between the two, and to bring anything but columns that are summed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from analytics.traffic.frames import read_deltas

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COUNTS = ("events", "bytes", "delivered", "retried", "dead", "filtered", "ignored")
HOUR_S, MINUTE_S = 3600, 60
_MINUTES_MAX_S = 6 * HOUR_S  #: longer spans are read in hours


def latest(records: DataFrame) -> DataFrame:
    """Of a compacted topic the last value of each key, as text in column `value`; removed keys are left out."""
    from pyspark.sql import functions as f

    last = records.groupBy("key").agg(f.max_by(f.col("value").cast("string"), f.col("offset")).alias("value"))
    return last.where("value is not null").select("value")


def of_deltas(records: DataFrame, since: float, until: float) -> tuple[DataFrame, float | None]:
    """The rows of the window, and the second of the first of them; None: there are none."""
    from pyspark.sql import functions as f

    rows = read_deltas(records).where(f.col("readable") & (f.col("at") >= since) & (f.col("at") < until))
    rows = rows.dropDuplicates(["by", "n"])
    came = f.col("kind") == "accepted"
    buckets = f.transform_keys("latency", lambda bucket, _: bucket.cast("int"))
    sums = rows.select(
        "at",
        came.alias("accepted"),
        f.col("ns").alias("namespace"),
        "channel",
        f.when(came, "").otherwise(f.col("sub")).alias("subscription"),
        f.when(came, f.col("source")).otherwise("").alias("source"),
        *_COUNTS,
        buckets.alias("latency"),
    )
    first = sums.agg(f.min("at")).collect()[0][0]
    return sums.drop("at"), None if first is None else float(first)


def of_windows(
    spark: SparkSession, files: Sequence[Path], since: float, until: float
) -> tuple[DataFrame, tuple[float, float] | None]:
    """The rows of the span, and what the windows cover; None: there are none."""
    from pyspark.sql import functions as f

    size = MINUTE_S if until - since <= _MINUTES_MAX_S else HOUR_S
    rows = spark.read.parquet(*(str(file) for file in files))
    if size == HOUR_S:
        begin = f.col("start") - f.col("start") % HOUR_S
        rows = rows.withColumns({"start": begin, "size": f.lit(HOUR_S)})
    rows = rows.where((f.col("size") == size) & (f.col("start") >= int(since) // size * size))
    rows = rows.where(f.col("start") < until)
    stored = rows.where("kind = 'stored'").select("namespace", "channel").distinct()
    rows = rows.join(stored.withColumn("read", f.lit(True)), ["namespace", "channel"], "left")
    rows = rows.where("kind = 'stored' or kind = 'settled' or read is null")
    came = f.col("kind") != "settled"
    entries = f.transform("latency", lambda one: f.struct(one["bucket"].alias("key"), one["count"].alias("value")))
    sums = rows.select(
        "start",
        came.alias("accepted"),
        "namespace",
        "channel",
        f.when(came, "").otherwise(f.col("subscription")).alias("subscription"),
        f.when(came, f.col("source")).otherwise("").alias("source"),
        *(f.col("dead_lettered" if name == "dead" else name).alias(name) for name in _COUNTS),
        f.map_from_entries(f.coalesce(entries, f.array().cast("array<struct<key:int,value:bigint>>"))).alias("latency"),
    )
    first, last = sums.agg(f.min("start"), f.max("start")).collect()[0]
    return sums.drop("start"), None if first is None else (float(first), min(float(last + size), until))
