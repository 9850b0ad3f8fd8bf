"""Traffic as a DataFrame of sums, from the workers' deltas in Kafka or from the tables of the traffic job.

    topic records --read_deltas, each (by, n) once--> rows in the window --> sums.fetch
    Parquet windows of a size, what came counted once --> the same rows

The caller chooses between the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from analytics.traffic.deltas import read_deltas
from analytics.traffic.frames import summed
from analytics.traffic.windows import ACCEPTED, COUNTS, STORED, size_for
from knative.traffic.counts import NAMES, column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEYS = ("accepted", "namespace", "channel", "subscription", "type", "source")


def of_deltas(records: DataFrame, since: float, until: float) -> DataFrame:
    """Returns the sums of the window: a row for each of _KEYS with the counts, `latency` by bucket, `first`, `last`."""
    from pyspark.sql import functions as f

    rows = read_deltas(records).where(f.col("readable") & (f.col("at") >= since) & (f.col("at") < until))
    rows = rows.dropDuplicates(["by", "n"])
    return sums_of(
        rows.select(
            f.col("at").alias("first"),
            f.col("at").alias("last"),
            "kind",
            f.col("ns").alias("namespace"),
            "channel",
            f.col("sub").alias("subscription"),
            "type",
            "source",
            *(f.col(name).alias(column(name)) for name in NAMES),
            f.lit(0).alias("late"),
            "latency",
        )
    )


def of_windows(rows: DataFrame, since: float, until: float) -> DataFrame:
    """Returns the sums of `of_deltas`, from rows of the tables."""
    from pyspark.sql import functions as f

    size = f.greatest("size", f.lit(size_for(since, until)))  # a day is in the length of its age, or longer
    begin = f.col("start") - f.col("start") % size
    rows = rows.where((begin + size > int(since)) & (begin < until))
    place = ["namespace", "channel", "start"]
    accepted = rows.where("kind = 'accepted'").join(_again(rows), place, "left_anti").select(rows.columns)
    rows = rows.where("kind <> 'accepted'").unionByName(accepted)
    return sums_of(rows.withColumns({"first": begin, "last": begin + size}))


def _again(rows: DataFrame) -> DataFrame:
    """Marks where what was accepted is stored as well: see `counted_once`, which says the same of an Arrow table."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    came = {kind: f.sum(f.when(f.col("kind") == kind, f.col("events")).otherwise(0)) for kind in (STORED, ACCEPTED)}
    place = ["namespace", "channel", "start"]
    totals = rows.groupBy(*place, "size").agg(*(total.alias(kind) for kind, total in came.items()))
    by_start, more = Window.partitionBy("namespace", "channel").orderBy("start"), f.col(STORED) - f.col(ACCEPTED)
    until = by_start.rowsBetween(Window.unboundedPreceding, 0)
    left = f.col("sums") - f.least(f.min("sums").over(until), f.lit(0))
    totals = totals.withColumn("sums", f.sum(more).over(until)).withColumn("left", f.least(left, f.col(STORED)))
    end = f.col("start") + f.col("size")
    before = f.when(f.lag(end).over(by_start) == f.col("start"), f.lag("left").over(by_start)).otherwise(0)
    spare = f.greatest(more, f.lit(0))
    after = f.when(f.lead("start").over(by_start) == end, f.lead(spare).over(by_start)).otherwise(0)
    return totals.withColumn("beside", before + after).where(f"{STORED} > 0 or {ACCEPTED} <= beside").select(*place)


def sums_of(rows: DataFrame) -> DataFrame:
    """Sums rows of windows or deltas by _KEYS: the subscription of what was settled, type and source of what came."""
    from pyspark.sql import functions as f

    came = f.col("kind") != "settled"
    keyed = rows.withColumns(
        {
            "accepted": came,
            "subscription": f.when(came, "").otherwise(f.col("subscription")),
            **{name: f.when(came, f.col(name)).otherwise("") for name in ("type", "source")},
        }
    ).select(*_KEYS, *COUNTS, "latency", "first", "last")
    sums = summed(keyed, _KEYS, {"first": "min", "last": "max"})
    counts = (f.col(column(name)).alias(name) for name in NAMES)
    return sums.select(*_KEYS, *counts, f.map_from_entries("latency").alias("latency"), "first", "last")
