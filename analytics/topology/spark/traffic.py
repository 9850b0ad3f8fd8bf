"""Traffic as a DataFrame of sums, from the workers' deltas in Kafka or from the tables of the traffic job.

    topic records --from_json, each (by, n) once--> rows in the window --> sums.fetch
    Parquet windows of a size, `stored` or else `accepted` of a channel --> the same rows

The caller chooses between the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from analytics.spark.rows import frame_of_table
from analytics.traffic.frames import read_deltas
from analytics.traffic.windows import HOUR_S, MINUTE_S, SCHEMA
from knative.traffic.counts import NAMES, column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_KEYS = ("accepted", "namespace", "channel", "subscription", "source")
_MINUTES_MAX_S = 6 * HOUR_S  #: longer spans are read in hours


def of_deltas(records: DataFrame, since: float, until: float) -> DataFrame:
    """The sums of the window, as `summed` returns them."""
    from pyspark.sql import functions as f

    rows = read_deltas(records).where(f.col("readable") & (f.col("at") >= since) & (f.col("at") < until))
    rows = rows.dropDuplicates(["by", "n"])
    came = f.col("kind") == "accepted"
    buckets = f.transform_keys("latency", lambda bucket, _: bucket.cast("int"))
    parts = rows.select(
        f.col("at").alias("first"),
        f.col("at").alias("last"),
        came.alias("accepted"),
        f.col("ns").alias("namespace"),
        "channel",
        f.when(came, "").otherwise(f.col("sub")).alias("subscription"),
        f.when(came, f.col("source")).otherwise("").alias("source"),
        *NAMES,
        buckets.alias("latency"),
    )
    return summed(parts)


def read_files(spark: SparkSession, files: Sequence[Path], since: float, until: float, near: bool) -> DataFrame:
    """Rows of the tables. `near`: Spark runs here and reads the files; otherwise this process sends their rows."""
    if near:
        return spark.read.parquet(*(str(file.absolute()) for file in files))
    within = [("start", ">=", int(since) // HOUR_S * HOUR_S), ("start", "<", int(until) + 1)]
    tables = [pq.read_table(one, schema=SCHEMA, filters=within) for one in files]
    return frame_of_table(spark, pa.concat_tables(tables))


def of_windows(rows: DataFrame, since: float, until: float) -> DataFrame:
    """The sums of the span from rows of the tables, as `summed` returns them."""
    from pyspark.sql import functions as f

    size = MINUTE_S if until - since <= _MINUTES_MAX_S else HOUR_S
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
    parts = rows.select(
        f.col("start").alias("first"),
        (f.col("start") + f.col("size")).alias("last"),
        came.alias("accepted"),
        "namespace",
        "channel",
        f.when(came, "").otherwise(f.col("subscription")).alias("subscription"),
        f.when(came, f.col("source")).otherwise("").alias("source"),
        *(f.col(column(name)).alias(name) for name in NAMES),
        f.map_from_entries(f.coalesce(entries, f.array().cast("array<struct<key:int,value:bigint>>"))).alias("latency"),
    )
    return summed(parts)


def summed(parts: DataFrame) -> DataFrame:
    """One row for each key: sums of the counts, `first` and `last` second, and the merged sketches.

    In one query, because a second use of `parts` would read Kafka again: each row becomes one row for each of its
    buckets, and the first of these has its counts.
    """
    from pyspark.sql import functions as f

    rows = parts.select(*_KEYS, *NAMES, "first", "last", f.posexplode_outer("latency").alias("nth", "bucket", "n"))
    counting = f.coalesce("nth", f.lit(0)) == 0
    buckets = rows.groupBy(*_KEYS, "bucket").agg(
        *(f.sum(f.when(counting, f.col(name))).alias(name) for name in NAMES),
        f.min("first").alias("first"),
        f.max("last").alias("last"),
        f.sum("n").alias("n"),
    )
    entry = f.when(f.col("bucket").isNotNull(), f.struct("bucket", "n"))
    return buckets.groupBy(*_KEYS).agg(
        *(f.sum(name).alias(name) for name in NAMES),
        f.map_from_entries(f.collect_list(entry)).alias("latency"),
        f.min("first").alias("first"),
        f.max("last").alias("last"),
    )
