"""What Spark computes of one batch: the windows of its records, the sums of windows, and the days as they are written.

Outsiders may invent types and sources, so only the COMBINATIONS_MAX busiest of each channel and minute keep their
names; the others are summed under "" and "". All computation is SQL: Python does not run on the workers, which do not
need these modules. `deltas` has the windows of deltas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa

from analytics.spark.kafka_source import body_bytes, header, second
from analytics.spark.rows import frame_of
from analytics.traffic.dataset import Ages
from analytics.traffic.windows import COUNTS, DAY_S, HOUR_S, KEYS, MINUTE_S, SCHEMA, STORED
from knative.traffic.counts import OF_SUBSCRIPTIONS, column
from knative.traffic.delta import AT_MAX, COMBINATIONS_MAX

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

LATENESS_S = 600
TEXT_MAX = 256  #: characters of a type or a source; the rest is cut off

_OWNERS = pa.schema([*((name, pa.string()) for name in ("topic", "namespace", "channel")), ("before", pa.int64())])
#: Windows of a batch, with the columns about the batch.
ROWS = pa.schema([*SCHEMA, ("topic", pa.string()), *((name, pa.int64()) for name in ("newest", "folded", "repeats"))])
#: The columns about a batch, and how each is summed.
OF_BATCH = {"newest": "max", "folded": "sum", "repeats": "sum"}
Owner = tuple[str, str]  #: namespace and name of a channel


def record_rows(records: DataFrame, owners: Mapping[str, Owner], before: Mapping[str, int]) -> DataFrame:
    """Returns windows of records in the topics of channels, with the columns about the batch. `before`: topic -> the
    newest second of earlier batches."""
    from pyspark.sql import functions as f

    when = f.least(second(), f.lit(AT_MAX))  # a producer may write any time
    slim = records.select(
        "topic",
        minute(when).alias("start"),
        f.coalesce(header("ce_type"), f.lit("")).alias("type"),
        f.coalesce(header("ce_source"), f.lit("")).alias("source"),
        body_bytes().alias("bytes"),
        when.alias("second"),
    )
    sums = slim.groupBy("topic", "start", "type", "source").agg(
        f.count(f.lit(1)).alias("events"), f.sum("bytes").alias("bytes"), f.max("second").alias("newest")
    )
    rows = ((topic, *owner, before.get(topic)) for topic, owner in owners.items())
    owner_rows = frame_of(records.sparkSession, rows, _OWNERS)
    joined = _bounded(sums, ("topic", "start"), ("events", "bytes")).join(f.broadcast(owner_rows), "topic")
    zeros = {column(name): f.lit(0) for name in OF_SUBSCRIPTIONS}
    return joined.select(
        "start",
        f.lit(MINUTE_S).alias("size"),
        f.lit(STORED).alias("kind"),
        "namespace",
        "channel",
        f.lit("").alias("subscription"),
        "type",
        "source",
        "events",
        "bytes",
        *(value.alias(name) for name, value in zeros.items()),
        late(f.col("start"), f.col("before"), f.col("events")).alias("late"),
        f.array().cast("array<struct<bucket:int,count:bigint>>").alias("latency"),
        "topic",
        "newest",
        "folded",
        f.lit(0).alias("repeats"),
    )


def late(start: Column, before: Column, events: Column) -> Column:
    """Returns the events of a window that should have ended LATENESS_S before the newest record of its topic in earlier
    batches."""
    from pyspark.sql import functions as f

    return f.when(start + MINUTE_S <= before - LATENESS_S, events).otherwise(0)


def summed(rows: DataFrame, keys: Sequence[str], more: Mapping[str, str] = MappingProxyType({})) -> DataFrame:
    """Returns one row for each of these keys: counts added, sketches added bucket by bucket, and `more` (column -> sum,
    min or max).

    In one query: each row becomes one row for each of its buckets, and the first of these has its counts. A sketch is
    an array throughout, so the sums are those of plain columns, which spill to disk.
    """
    from pyspark.sql import functions as f

    hows = {**dict.fromkeys(COUNTS, "sum"), **more}
    entries = f.posexplode_outer("latency").alias("nth", "entry")
    is_first = f.coalesce("nth", f.lit(0)) == 0
    split = rows.select(*keys, *hows, entries).withColumns(
        {name: f.when(is_first, f.col(name)) for name, how in hows.items() if how == "sum"}
        | {"bucket": f.col("entry.bucket"), "n": f.col("entry.count")}
    )
    sums = [getattr(f, how)(name).alias(name) for name, how in hows.items()]
    buckets = split.groupBy(*keys, "bucket").agg(*sums, f.sum("n").alias("n"))
    entry = f.when(f.col("bucket").isNotNull(), f.struct("bucket", f.col("n").alias("count")))
    return buckets.groupBy(*keys).agg(*sums, f.sort_array(f.collect_list(entry)).alias("latency"))


def days_of(rows: DataFrame, ages: Ages, run: str) -> DataFrame:
    """Returns windows as they are written: each day in the length of its age, with the columns that name its folder.

    One file for each day, sorted, so that readers skip what they do not need.
    """
    from pyspark.sql import functions as f

    begin = f.col("start") - f.col("start") % DAY_S
    size = f.when(begin >= ages.minutes, MINUTE_S).when(begin >= ages.hours, HOUR_S).otherwise(DAY_S)
    aged = rows.where((begin >= ages.kept) & (f.greatest(*COUNTS) > 0)).withColumn("size", f.greatest("size", size))
    whole = summed(aged.withColumn("start", f.col("start") - f.col("start") % f.col("size")), KEYS)
    named = whole.select(
        *SCHEMA.names,
        f.col("size").alias("resolution"),
        f.date_format(f.timestamp_seconds("start"), "yyyy-MM-dd").alias("day"),
        f.lit(run).alias("run"),
    )
    return named.repartition("day").sortWithinPartitions("resolution", "day", *KEYS)


def minute(seconds: Column) -> Column:
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
