"""What Spark computes of one batch: partial sums of records and of deltas, and the numbers of those deltas.

There are few result rows (one for each minute, channel, type and source), so the driver can hold them. Outsiders may
invent types and sources, so only the COMBINATIONS_MAX busiest of each channel and minute keep their names; the others
are summed under "" and "". All computation is SQL: Python does not run on the workers, which do not need these modules.

Does not write, and does not know what was read before, except for the ranges of deltas that the caller passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from analytics.spark.kafka_source import body_bytes, header, second
from analytics.spark.rows import frame_of
from analytics.traffic.windows import MINUTE_S
from knative.traffic.counts import NAMES
from knative.traffic.delta import ACCEPTED, COMBINATIONS_MAX, SETTLED, VERSION
from knative.traffic.latency_sketch import BUCKET_MAX

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TEXT_MAX = 256  #: characters of a type or a source; the rest is cut off

_DELTA = (
    "v long, by string, n long, at long, kind string, ns string, channel string, sub string, type string, "
    f"source string, {', '.join(f'{name} long' for name in NAMES)}, latency map<string, long>, _bad string"
)
_RANGES = pa.schema([("r_by", pa.string()), ("r_first", pa.int64()), ("r_last", pa.int64())])
#: The columns by which deltas are summed.
DELTA_KEYS = ("start", "kind", "ns", "channel", "sub", "type", "source")


def record_sums(records: DataFrame) -> DataFrame:
    """Sums of records in channel topics: topic, start, type, source -> events, bytes, newest (Unix second), folded."""
    from pyspark.sql import functions as f

    slim = records.select(
        "topic",
        _minute(second()).alias("start"),
        f.coalesce(header("ce_type"), f.lit("")).alias("type"),
        f.coalesce(header("ce_source"), f.lit("")).alias("source"),
        body_bytes().alias("bytes"),
        second().alias("second"),
    )
    sums = slim.groupBy("topic", "start", "type", "source").agg(
        f.count(f.lit(1)).alias("events"), f.sum("bytes").alias("bytes"), f.max("second").alias("newest")
    )
    return _bounded(sums, ("topic", "start"), ("events", "bytes"))


def read_deltas(records: DataFrame) -> DataFrame:
    """Fields of the records in the traffic topic; `readable` says whether it is a valid delta (as `decode` does)."""
    from pyspark.sql import functions as f

    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_bad"}
    parsed = records.select(f.from_json(f.col("value").cast("string"), _DELTA, options).alias("d")).select("d.*")
    zeros = {name: f.coalesce(f.col(name), f.lit(0)) for name in NAMES}
    texts = {name: f.substring(f.coalesce(f.col(name), f.lit("")), 1, TEXT_MAX) for name in ("type", "source")}
    sub = f.coalesce(f.col("sub"), f.lit(""))
    return parsed.withColumn("readable", f.coalesce(_is_delta(), f.lit(False))).withColumns(
        {**zeros, **texts, "sub": sub, "start": _minute(f.col("at"))}
    )


def _is_delta() -> Column:
    from pyspark.sql import functions as f

    counts = [f.coalesce(f.col(name), f.lit(0)) >= 0 for name in NAMES]
    latency = f.coalesce("latency", f.create_map().cast("map<string, long>"))
    buckets = f.forall(
        f.map_entries(latency),
        lambda one: one["key"].rlike("^[0-9]{1,9}$") & (one["key"].cast("int") <= BUCKET_MAX) & (one["value"] > 0),
    )
    found = (
        f.col("_bad").isNull()
        & (f.col("v") == VERSION)
        & f.col("kind").isin(ACCEPTED, SETTLED)
        & f.col("by").isNotNull()
        & (f.col("n") >= 0)
        & (f.col("at") >= 0)
        & f.col("ns").isNotNull()
        & f.col("channel").isNotNull()
        & buckets
    )
    for one in counts:
        found = found & one
    return found


def fresh_deltas(deltas: DataFrame, counted: Sequence[tuple[str, int, int]]) -> DataFrame:
    """Each readable delta once, with its `copies` in this batch, and whether it was already `counted` (ranges)."""
    from pyspark.sql import functions as f

    rest = [name for name in deltas.columns if name not in ("by", "n", "readable", "_bad", "v")]
    once = (
        deltas.where("readable")
        .groupBy("by", "n")
        .agg(f.count(f.lit(1)).alias("copies"), f.first(f.struct(*rest)).alias("d"))
    )
    flat = once.select("by", "n", "copies", "d.*")
    if not counted:
        return flat.withColumn("counted", f.lit(False))
    ranges = frame_of(deltas.sparkSession, counted, _RANGES)
    within = (f.col("by") == f.col("r_by")) & f.col("n").between(f.col("r_first"), f.col("r_last"))
    joined = flat.join(f.broadcast(ranges), within, "left")
    return joined.withColumn("counted", f.col("r_by").isNotNull()).drop("r_by", "r_first", "r_last")


def delta_sums(fresh: DataFrame) -> DataFrame:
    """`DELTA_KEYS` -> sums of the new deltas, `repeats` of those already counted, newest second, latency."""
    from pyspark.sql import functions as f

    numbers = {name: f.when(~f.col("counted"), f.col(name)).otherwise(0) for name in NAMES}
    again = f.col("copies") - f.when(f.col("counted"), 0).otherwise(1)
    sums = fresh.groupBy(*DELTA_KEYS).agg(
        *(f.sum(column).alias(name) for name, column in numbers.items()),
        f.sum(again).alias("repeats"),
        f.max("at").alias("newest"),
    )
    buckets = (
        fresh.where("not counted and latency is not null")
        .select(*DELTA_KEYS, f.explode("latency").alias("bucket", "count"))
        .groupBy(*DELTA_KEYS, f.col("bucket").cast("int").alias("bucket"))
        .agg(f.sum("count").alias("count"))
        .groupBy(*DELTA_KEYS)
        .agg(f.collect_list(f.struct("bucket", "count")).alias("latency"))
    )
    return sums.join(buckets, list(DELTA_KEYS), "left")


def delta_ranges(fresh: DataFrame) -> DataFrame:
    """Columns by, first, last, at: the delta numbers in this batch, in as few ranges as possible."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    place = f.row_number().over(Window.partitionBy("by").orderBy("n"))
    islands = fresh.select("by", "n", "at", (f.col("n") - place).alias("island"))
    grouped = islands.groupBy("by", "island").agg(
        f.min("n").alias("first"), f.max("n").alias("last"), f.max("at").alias("at")
    )
    return grouped.drop("island")


def _minute(seconds: Column) -> Column:
    return seconds - seconds % MINUTE_S


def _bounded(sums: DataFrame, within: Sequence[str], counts: Sequence[str]) -> DataFrame:
    """Keep the names of the busiest types and sources in each group; cut long texts and replace invalid characters."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    busiest = Window.partitionBy(*within).orderBy(f.desc("events"), "type", "source")
    ranked = sums.withColumn("rank", f.row_number().over(busiest))
    keep = f.col("rank") <= COMBINATIONS_MAX
    named = ranked.withColumns(
        {
            name: f.when(keep, f.substring(f.make_valid_utf8(name), 1, TEXT_MAX)).otherwise("")
            for name in ("type", "source")
        }
    )
    return named.groupBy(*within, "type", "source").agg(
        *(f.sum(name).alias(name) for name in counts),
        f.max("newest").alias("newest"),
        f.sum(f.when(keep, 0).otherwise(f.col("events"))).alias("folded"),
    )
