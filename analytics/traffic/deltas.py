"""Reads the traffic topic with Spark: which records are deltas, which deltas are new, and their windows.

    value --VARIANT--> readable or not --by, n--> each delta once --ranges that were counted--> new or a repeat

Does not write, and does not know what was read before, except for the ranges of deltas that the caller passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

import pyarrow as pa

from analytics.spark.rows import frame_of
from analytics.traffic.frames import OF_BATCH, TEXT_MAX, late, minute, summed
from analytics.traffic.windows import KEYS, MINUTE_S
from knative.traffic.counts import NAMES, column
from knative.traffic.delta import (
    ACCEPTED,
    AT_MAX,
    BUCKET,
    COUNT_MAX,
    HALF_A_CHARACTER,
    SETTLED,
    VERSION,
)
from knative.traffic.latency_sketch import BUCKET_MAX

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_TEXTS = ("by", "kind", "ns", "channel", "sub", "type", "source")
_NUMBERS = ("v", "n", "at")
_END = "end of the record"
_RANGES = pa.schema([("r_by", pa.string()), ("r_first", pa.int64()), ("r_last", pa.int64())])


def read_deltas(records: DataFrame) -> DataFrame:
    """Returns the fields of the records in the traffic topic; `readable` says whether it is a valid delta.

    Reads what `knative.traffic.delta.decode` reads: a test compares both. A VARIANT keeps the type of each value.
    `from_json` would take the number 5 as the text "5".
    """
    from pyspark.sql import functions as f

    text = f.col("value").cast("string")
    # Spark reads one value and ignores what follows. After a second one that is as expected, the first was all.
    parsed = f.try_parse_json(f.concat(f.lit("["), text, f.lit(f',"{_END}"]')))
    whole = f.is_valid_utf8(text) & ~text.rlike(HALF_A_CHARACTER) & (f.try_variant_get("all", "$[1]", "string") == _END)
    typed = records.withColumn("all", parsed).withColumns(
        {
            **{name: f.try_variant_get("all", f"$[0].{name}", "string") for name in _TEXTS},
            **{name: f.try_variant_get("all", f"$[0].{name}", "long") for name in (*_NUMBERS, *NAMES)},
            "latency": f.try_variant_get("all", "$[0].latency", "map<string,bigint>"),
        }
    )
    rows = typed.withColumn("readable", f.coalesce(whole & _is_delta(), f.lit(False)))
    zeros = {name: f.coalesce(f.col(name), f.lit(0)) for name in NAMES}
    cut = {name: f.substring(f.coalesce(f.col(name), f.lit("")), 1, TEXT_MAX) for name in ("type", "source")}
    buckets = f.transform(
        f.map_entries("latency"),
        lambda entry: f.struct(entry["key"].try_cast("int").alias("bucket"), entry["value"].alias("count")),
    )
    return rows.withColumns(
        {**zeros, **cut, "sub": f.coalesce("sub", f.lit("")), "start": minute(f.col("at")), "latency": buckets}
    ).drop("all", "v")


def _is_delta() -> Column:
    from pyspark.sql import functions as f

    def type_of(name: str) -> Column:
        return f.schema_of_variant(f.try_variant_get("all", f"$[0].{name}", "variant"))

    buckets = f.forall(
        f.map_entries("latency"),
        lambda entry: (
            entry["key"].rlike(f"^({BUCKET})$")
            & (entry["key"].try_cast("int") <= BUCKET_MAX)
            & entry["value"].between(1, COUNT_MAX)
        ),
    )
    # An object of whole numbers only, or none.
    latency = type_of("latency")
    checks = [
        f.col("v") == VERSION,
        f.col("kind").isin(ACCEPTED, SETTLED),
        f.col("n").between(0, COUNT_MAX),
        f.col("at").between(0, AT_MAX),
        *(f.coalesce(f.col(name), f.lit(0)).between(0, COUNT_MAX) for name in NAMES),
        *(type_of(name) == "STRING" for name in ("by", "kind", "ns", "channel")),
        *(f.coalesce(type_of(name), f.lit("STRING")) == "STRING" for name in ("sub", "type", "source")),
        *(type_of(name) == "BIGINT" for name in _NUMBERS),
        *(f.coalesce(type_of(name), f.lit("BIGINT")) == "BIGINT" for name in NAMES),
        latency.isNull() | (latency.rlike("^OBJECT<(?:[^:]+: BIGINT(?:, )?)*>$") & buckets),
    ]
    return reduce(and_, checks)


def fresh_deltas(deltas: DataFrame, counted: Sequence[tuple[str, int, int]]) -> DataFrame:
    """Returns each readable delta once, with its `copies`, and whether it was already `counted` (ranges).

    All records that are not readable are one row, without `by`: their number is `copies`, and `first` has the
    partition, the offset and the value of the first.
    """
    from pyspark.sql import functions as f

    mine = ("start", *_TEXTS[1:], "at", *NAMES, "latency")
    keys = [f.when(f.col("readable"), f.col(name)).alias(name) for name in ("by", "n")]
    once = deltas.groupBy(*keys).agg(
        f.count(f.lit(1)).alias("copies"),
        f.first(f.struct(*mine)).alias("delta"),
        f.min(f.when(~f.col("readable"), f.struct("partition", "offset", "value"))).alias("first"),
    )
    flat = once.select("by", "n", "copies", "first", "delta.*")
    if not counted:
        return flat.withColumn("counted", f.lit(False))
    ranges = frame_of(deltas.sparkSession, counted, _RANGES)
    within = (f.col("by") == f.col("r_by")) & f.col("n").between(f.col("r_first"), f.col("r_last"))
    joined = flat.join(f.broadcast(ranges), within, "left")
    return joined.withColumn("counted", f.col("r_by").isNotNull()).drop("r_by", "r_first", "r_last")


def delta_rows(fresh: DataFrame, topic: str, before: int | None) -> DataFrame:
    """Sums new deltas in windows, with the columns about the batch. `before`: the newest second of earlier batches."""
    from pyspark.sql import functions as f

    new = ~f.col("counted")
    settled = f.col("kind") == SETTLED
    parts = fresh.where("by is not null").select(
        "start",
        f.lit(MINUTE_S).alias("size"),
        "kind",
        f.col("ns").alias("namespace"),
        "channel",
        f.when(settled, f.col("sub")).otherwise("").alias("subscription"),
        "type",
        "source",
        *(f.when(new, f.col(name)).otherwise(0).alias(column(name)) for name in NAMES),
        f.when(new, late(f.col("start"), f.lit(before), f.col("events"))).otherwise(0).alias("late"),
        f.when(new, f.col("latency")).alias("latency"),
        f.lit(topic).alias("topic"),
        f.col("at").alias("newest"),
        f.lit(0).alias("folded"),
        (f.col("copies") - f.when(new, 1).otherwise(0)).alias("repeats"),
    )
    return summed(parts, (*KEYS, "topic"), OF_BATCH)


def delta_ranges(fresh: DataFrame) -> DataFrame:
    """Returns the columns by, first, last, at: the delta numbers in this batch, in as few ranges as possible."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    place = f.row_number().over(Window.partitionBy("by").orderBy("n"))
    islands = fresh.where("by is not null").select("by", "n", "at", (f.col("n") - place).alias("island"))
    grouped = islands.groupBy("by", "island").agg(
        f.min("n").alias("first"), f.max("n").alias("last"), f.max("at").alias("at")
    )
    return grouped.drop("island")
