"""Traffic as a DataFrame of sums, from the workers' deltas in Kafka or from the tables of the traffic job.

    topic records --read_deltas, each (by, n) once--> rows in the window --> sums.fetch
    Parquet windows of a size, `stored` or else `accepted` of each --> the same rows

The caller chooses between the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from analytics.traffic.deltas import read_deltas
from analytics.traffic.frames import summed
from analytics.traffic.windows import COUNTS, size_for
from knative.traffic.counts import NAMES, column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEYS = ("accepted", "namespace", "channel", "subscription", "type", "source")


def of_deltas(records: DataFrame, since: float, until: float) -> DataFrame:
    """The sums of the window: one row for each of _KEYS with the counts, `latency` by bucket, `first` and `last`."""
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
    """The same from rows of the tables."""
    from pyspark.sql import functions as f

    size = f.greatest("size", f.lit(size_for(since, until)))  # a day is in the length of its age, or longer
    begin = f.col("start") - f.col("start") % size
    rows = rows.where((begin + size > int(since)) & (begin < until))
    place = ["namespace", "channel", "start"]
    stored = rows.where("kind = 'stored'").select(*place).distinct()
    accepted = rows.where("kind = 'accepted'").join(stored, place, "left_anti").select(rows.columns)
    rows = rows.where("kind <> 'accepted'").unionByName(accepted)
    return sums_of(rows.withColumns({"first": begin, "last": begin + size}))


def sums_of(rows: DataFrame) -> DataFrame:
    """Rows of windows or deltas by _KEYS: the subscription of what was settled, the type and source of what came."""
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
