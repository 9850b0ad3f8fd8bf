"""Facts by Spark: the graph, and every answer that needs only a join or an aggregate, on DataFrames.

    contract frame --> channels, consumers (addresses resolved by a join) --+--> FactFrames --facts_of_rows--> Facts
    traffic frame  --> sums by channel and source, by consumer -------------+        `-> graph, queries

The answers equal those that `model/facts.facts_of` computes from values; a test compares them. `spark_facts` collects
everything, for an engine of this process; `report` collects only what is in the document.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from analytics.spark.rows import frame_of
from analytics.topology.model.document import LISTED_MAX
from analytics.topology.model.facts import (
    Facts,
    Imbalance,
    Joins,
    ReplyChain,
    SubscriptionFacts,
    off_balance,
    slack,
)
from analytics.topology.model.inputs import SOURCES_MAX, Inputs, Traffic
from analytics.topology.spark.contract import ContractFrames
from knative.traffic.counts import NAMES, SETTLED, read

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

_ENDS = ("channel_id", "target", "reply", "dead")
#: The columns of `traffic`, one row for each key.
TRAFFIC_SCHEMA = pa.schema(
    [
        ("accepted", pa.bool_()),
        *((name, pa.string()) for name in ("namespace", "channel", "subscription", "source")),
        *((name, pa.int64()) for name in NAMES),
        ("latency", pa.map_(pa.int32(), pa.int64())),
    ]
)
#: The workers' reports, one row for each uid in them: the subscription is served if it has this generation and no
#: more partitions; `lag` null: unknown.
SERVED_SCHEMA = pa.schema(
    [
        ("uid", pa.string()),
        ("served_generation", pa.int64()),
        ("served_partitions", pa.int32()),
        ("lag", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class FactFrames:
    """channels: id, uid, own, events, bytes (null: none came), read, fed. arrivals: source, id, events, bytes, beyond.

    consumers: those of ContractFrames with n_* and latency (their sums, null: none), came, done, lag, odd, served.
    Spark persists them from the first query until `close`.
    """

    channels: DataFrame
    consumers: DataFrame
    arrivals: DataFrame
    kept: tuple[DataFrame, ...]

    def links_count(self) -> int:
        """The number of edges of the map."""
        from pyspark.sql import functions as f

        ends = f.lit(2) + (f.col("reply") != "").cast("int") + (f.col("dead") != "").cast("int")
        count = self.consumers.agg(f.coalesce(f.sum(ends), f.lit(0))).collect()[0][0]
        return int(count) + self.arrivals.count()

    def close(self) -> None:
        """Release the persisted frames."""
        for frame in self.kept:
            frame.unpersist()


def fact_frames(window_s: float, contract: ContractFrames, traffic: DataFrame, served: DataFrame) -> FactFrames:
    """`window_s`: of the traffic; 0 = no counts. `served`: see SERVED_SCHEMA."""
    channels, consumers = contract.channels.cache(), contract.consumers.cache()
    arrivals = _arrivals(channels, traffic).cache()
    accepted = arrivals.groupBy("id").agg(*_sums("events", "bytes"))
    of_consumer = _of_consumers(window_s, consumers, accepted, traffic, served)
    of_channel = _of_channels(channels, consumers, accepted)
    return FactFrames(of_channel, of_consumer, arrivals, (channels, consumers, arrivals))


def spark_facts(spark: SparkSession, inputs: Inputs, contract: ContractFrames, traffic: DataFrame) -> Facts:
    """`inputs`: everything except the traffic, which is in the frame (see TRAFFIC_SCHEMA). Runs three queries."""
    lags = [(uid, None, None, state.lag) for uid, state in inputs.states.items() if state.lag is not None]
    served = frame_of(spark, lags, SERVED_SCHEMA).coalesce(1)
    frames = fact_frames(inputs.window.seconds if inputs.counted else 0.0, contract, traffic, served)
    try:
        return collect(inputs, frames)
    finally:
        frames.close()


def collect(inputs: Inputs, frames: FactFrames) -> Facts:
    """Collect everything, for an engine that walks over values. `inputs` must have the resources."""
    return facts_of_rows(
        inputs,
        sorted(frames.arrivals.collect()),
        sorted(frames.consumers.collect(), key=_by_id),
        sorted(frames.channels.collect(), key=_by_id),
        chains=reply_chains(frames),
    )


def _by_id(row: Row) -> str:
    return str(row["id"])


def facts_of_rows(
    inputs: Inputs,
    came: Sequence[Row],
    of_consumer: Sequence[Row],
    of_channel: Sequence[Row],
    joins: Joins | None = None,
    chains: Sequence[ReplyChain] = (),
) -> Facts:
    """Facts from sorted rows of FactFrames. `inputs` must have their resources; `joins` None: made from the rows and
    `chains`."""
    known = {one.uid: one for one in inputs.channels}
    return Facts(
        channels={row["id"]: known[row["uid"]] for row in of_channel},
        own=frozenset(row["id"] for row in of_channel if row["own"]),
        consumers=_consumers(inputs, of_consumer),
        published={(row["source"], row["id"]): (row["events"], row["bytes"]) for row in came},
        accepted={row["id"]: (row["events"], row["bytes"]) for row in of_channel if row["events"] is not None},
        settled={row["id"]: _traffic(row) for row in of_consumer if row["n_events"] is not None},
        joins=joins if joins is not None else _joins(inputs, of_consumer, of_channel, chains),
        sources_left_out=max((row["beyond"] for row in came), default=0),
    )


def reply_chains(frames: FactFrames, most: int | None = None) -> list[ReplyChain]:
    """Sorted by broker; `most`: only the first."""
    from pyspark.sql import functions as f

    def named(ids: Column) -> Column:
        return f.slice(f.sort_array(f.collect_list(ids)), 1, LISTED_MAX)  # collect_list leaves null out

    triggers = frames.consumers.where(f.col("id").startswith("trigger:")).groupBy(f.col("channel_id").alias("broker"))
    found = triggers.agg(
        f.count("id").alias("count"),
        named(f.when(~f.col("filtered"), f.col("id"))).alias("unfiltered"),
        named(f.when(f.col("filtered"), f.col("id"))).alias("filtered"),
    ).orderBy("broker")
    rows = (found if most is None else found.limit(most)).collect()
    return [ReplyChain(row[0], row[1], tuple(row[2]), tuple(row[3])) for row in rows]


def traffic_frame(spark: SparkSession, sums: list[Traffic]) -> DataFrame:
    """Values as a traffic frame: for sums that are here, and if there are none, an empty one."""
    rows = [
        (
            one.accepted,
            one.namespace,
            one.channel,
            one.subscription,
            one.source,
            *one.counts.values(),
            tuple(one.latency.items()),
        )
        for one in sums
    ]
    return frame_of(spark, rows, TRAFFIC_SCHEMA)


def _sums(*names: str) -> list[Column]:
    from pyspark.sql import functions as f

    return [f.sum(name).alias(name) for name in names]


def _consumers(inputs: Inputs, rows: Sequence[Row]) -> list[SubscriptionFacts]:
    by_uid = {one.uid: one for one in inputs.subscriptions}
    return [
        SubscriptionFacts(
            id=row["id"],
            subscription=by_uid[row["uid"]],
            channel=row["channel_id"],
            target=row["target"],
            reply=row["reply"],
            dead=row["dead"],
            filtered=row["filtered"],
        )
        for row in rows
    ]


def _traffic(row: Row) -> Traffic:
    counts = read(lambda name: row[f"n_{name}"])
    return Traffic(False, row["namespace"], row["channel"], row["name"], "", counts, dict(row["latency"] or {}))


def _arrivals(channels: DataFrame, traffic: DataFrame) -> DataFrame:
    """source, id of channel, events, bytes. Sources beyond SOURCES_MAX are one row; `beyond` is their number."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    names = channels.select("namespace", f.col("unique_name").alias("channel"), "id")
    came = traffic.where("accepted and events > 0").join(names, ["namespace", "channel"])
    came = came.select("id", f.concat(f.lit("source:"), "source").alias("source"), "events", "bytes")
    of_source = came.where("source != 'source:'").groupBy("source").agg(f.sum("events").alias("total"))
    place = f.row_number().over(Window.partitionBy(f.lit(0)).orderBy(f.desc("total"), "source"))
    placed = of_source.select("source", place.alias("place"))
    count = f.greatest(f.lit(0), f.max("place").over(Window.partitionBy(f.lit(0))) - SOURCES_MAX)
    placed = placed.withColumn("beyond", count)
    source = f.when(f.col("place") > SOURCES_MAX, "source:").otherwise(f.col("source"))
    marked = came.join(placed, ["source"], "left").withColumn("source", source)
    return marked.groupBy("source", "id").agg(
        *_sums("events", "bytes"), f.coalesce(f.max("beyond"), f.lit(0)).alias("beyond")
    )


def _of_consumers(
    window_s: float, consumers: DataFrame, accepted: DataFrame, traffic: DataFrame, served: DataFrame
) -> DataFrame:
    """Each consumer with its sums, merged latencies, what came into its channel, what waits, and who serves it."""
    from pyspark.sql import functions as f

    of = ["namespace", "channel", "name"]
    counts = [f.col(name).alias(f"n_{name}") for name in NAMES]  # `dead` alone is the dead letter destination
    settled = traffic.where("not accepted").withColumnRenamed("subscription", "name")
    came = accepted.select(f.col("id").alias("channel_id"), f.col("events").alias("came"))
    rows = consumers.join(settled.select(*of, *counts, "latency"), of, "left")
    rows = rows.join(came, ["channel_id"], "left").join(served, ["uid"], "left").na.fill(0, ["came"])
    done = f.coalesce(f.expr(" + ".join(f"n_{name}" for name in SETTLED)), f.lit(0))
    is_served = f.expr("served_generation = generation and partitions <= served_partitions")
    return rows.withColumn("done", done).withColumns(
        {"odd": _odd(window_s), "served": f.coalesce(is_served, f.lit(False))}
    )


def _odd(window_s: float) -> Column:
    """Where more or less came than was settled and still waits, by more than the slack."""
    from pyspark.sql import functions as f

    if window_s <= 0:
        return f.lit(False)
    came, done, lag = f.col("came"), f.col("done"), f.col("lag")
    odd: Column = off_balance(came, done, lag, slack(f.greatest(came, done), window_s))
    return lag.isNotNull() & odd


def _of_channels(channels: DataFrame, consumers: DataFrame, accepted: DataFrame) -> DataFrame:
    """Each channel with what came, whether it has a consumer, and whether an edge leads to it."""
    from pyspark.sql import functions as f

    ends = [f.struct(f.col(end).alias("id"), f.lit(end == "channel_id").alias("read")) for end in _ENDS]
    joined = consumers.select(f.inline(f.array(*ends)))
    marks = joined.groupBy("id").agg(f.bool_or("read").alias("read"), f.bool_or(~f.col("read")).alias("fed"))
    rows = channels.select("id", "uid", "own").join(accepted, ["id"], "left").join(marks, ["id"], "left")
    return rows.na.fill(False, ["read", "fed"])


def _joins(inputs: Inputs, consumers: Iterable[Row], channels: Iterable[Row], chains: Sequence[ReplyChain]) -> Joins:
    """The joins from rows with marks, sorted by id."""
    rows = list(consumers)
    twins: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in rows:
        twins[row["channel_id"], row["target"]].append(row["id"])
    doubles = {pair: ids for pair, ids in twins.items() if len(ids) > 1}
    return joins_of(inputs.counted, rows, channels, doubles, chains)


def joins_of(
    counted: bool,
    consumers: Sequence[Row],
    channels: Iterable[Row],
    doubles: Mapping[tuple[str, str], Sequence[str]],
    chains: Sequence[ReplyChain],
) -> Joins:
    """The joins from rows of FactFrames, sorted by id, and from the answers that the rows do not have."""
    own = [row for row in channels if row["own"]]
    silent = [row["id"] for row in own if row["events"] is None and not row["fed"]]
    return Joins(
        unread=tuple(row["id"] for row in own if not row["read"]),
        unsent=tuple(silent) if counted else (),
        doubles=tuple(sorted((*pair, tuple(ids)) for pair, ids in doubles.items())),
        ignoring=tuple(row["id"] for row in consumers if row["ignores"]),
        chains=tuple(chains),
        imbalances=tuple(Imbalance(row["id"], row["came"], row["done"], row["lag"]) for row in consumers if row["odd"]),
    )
