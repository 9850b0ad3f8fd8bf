"""Facts by Spark: the graph and everything that a join or an aggregate answers, on DataFrames.

    contract frame --> channels, consumers (addresses resolved by a join) --+--> links, Joins
    traffic frame  --> sums by channel and source, by consumer -------------+--> published, accepted, settled

The same questions as `facts.facts_of` answers on values, and the same answers: a test holds them against each other.
Only what the document shows is collected. Refuses to walk the graph: that is an engine's part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from analytics.topology.facts import SLACK_EVENTS, SLACK_S, SLACK_SHARE, Consumer, Facts, Imbalance, Joins
from analytics.topology.inputs import SOURCES_MAX, Inputs, Traffic
from analytics.topology.spark_contract import ContractFrames
from knative.contract import Channel

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

_COUNTS = ("events", "bytes", "delivered", "retried", "dead", "filtered", "ignored")
#: What `traffic` must have, one row or more for each key; `latency` is map<int,bigint>.
TRAFFIC_SCHEMA = (
    "accepted boolean, namespace string, channel string, subscription string, source string, "
    + ", ".join(f"{name} bigint" for name in _COUNTS)
    + ", latency map<int,bigint>"
)


def spark_facts(spark: SparkSession, inputs: Inputs, contract: ContractFrames, traffic: DataFrame) -> Facts:
    """`inputs`: everything but the traffic, which is in the frame (see TRAFFIC_SCHEMA)."""
    channels = contract.channels.cache()
    consumers = contract.consumers.cache()
    own = contract.own.cache()
    arrivals, left_out = _arrivals(channels, traffic)
    arrivals = arrivals.cache()
    accepted = arrivals.groupBy("id").agg(*_sums("events", "bytes")).cache()
    settled = _settled(consumers, traffic).cache()
    try:
        return Facts(
            channels=_channels(inputs, contract),
            own=frozenset(_column(own, "id")),
            consumers=_consumers(inputs, consumers),
            published={(row["source"], row["id"]): (row["events"], row["bytes"]) for row in sorted(arrivals.collect())},
            accepted={row["id"]: (row["events"], row["bytes"]) for row in accepted.collect()},
            settled={row["id"]: _traffic(row) for row in settled.collect()},
            joins=_joins(spark, inputs, own, consumers, accepted, settled),
            sources_left_out=left_out,
        )
    finally:
        for frame in (channels, consumers, own, arrivals, accepted, settled):
            frame.unpersist()


def traffic_frame(spark: SparkSession, sums: list[Traffic]) -> DataFrame:
    """Values as the frame: for tests, and where the sums are here already."""
    rows = [
        (
            one.accepted,
            one.namespace,
            one.channel,
            one.subscription,
            one.source,
            *(getattr(one, name) for name in _COUNTS),
            dict(one.latency),
        )
        for one in sums
    ]
    return spark.createDataFrame(rows, TRAFFIC_SCHEMA)


def _sums(*names: str) -> list[Column]:
    from pyspark.sql import functions as f

    return [f.sum(name).alias(name) for name in names]


def _column(frame: DataFrame, name: str) -> list[str]:
    """Sorted here: a sort in Spark is a stage more, and this is not much."""
    return sorted({row[0] for row in frame.select(name).collect()})


def _channels(inputs: Inputs, contract: ContractFrames) -> dict[str, Channel]:
    by_uid = {one.uid: one for one in inputs.channels}
    rows = contract.channels.select("id", "uid").collect()
    return {row["id"]: by_uid[row["uid"]] for row in sorted(rows)}


def _consumers(inputs: Inputs, consumers: DataFrame) -> list[Consumer]:
    by_uid = {one.uid: one for one in inputs.subscriptions}
    return [
        Consumer(
            id=row["id"],
            subscription=by_uid[row["uid"]],
            channel=row["channel_id"],
            target=row["target"],
            reply=row["reply"],
            dead=row["dead"],
            filtered=row["filtered"],
        )
        for row in sorted(consumers.collect(), key=lambda row: str(row["id"]))
    ]


def _traffic(row: Row) -> Traffic:
    given = {name: row[name] for name in ("namespace", "channel", "subscription", *_COUNTS)}
    return Traffic(accepted=False, latency=dict(row["latency"] or {}), **given)


def _arrivals(channels: DataFrame, traffic: DataFrame) -> tuple[DataFrame, int]:
    """(id of channel, source, events, bytes), sources beyond SOURCES_MAX as one; and how many those are."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    # Deltas name no kind: of a broker and a channel with one name the channel counts.
    names = channels.groupBy("namespace", "name").agg(f.max("id").alias("id"))
    names = names.withColumnRenamed("name", "channel")
    came = traffic.where("accepted and events > 0").join(names, ["namespace", "channel"])
    came = came.select("id", f.concat(f.lit("source:"), "source").alias("source"), "events", "bytes")
    came = came.groupBy("source", "id").agg(*_sums("events", "bytes"))
    of_source = came.where("source != 'source:'").groupBy("source").agg(f.sum("events").alias("total"))
    place = f.row_number().over(Window.orderBy(f.desc("total"), "source"))
    beyond = of_source.withColumn("place", place).where(f.col("place") > SOURCES_MAX).select("source")
    left_out = max(0, of_source.count() - SOURCES_MAX)
    if not left_out:
        return came, 0
    marked = came.join(beyond.withColumn("beyond", f.lit(True)), ["source"], "left")
    source = f.when(f.col("beyond"), "source:").otherwise(f.col("source"))
    return marked.withColumn("source", source).groupBy("source", "id").agg(*_sums("events", "bytes")), left_out


def _settled(consumers: DataFrame, traffic: DataFrame) -> DataFrame:
    """One row for each consumer with traffic: its sums, and its latencies merged."""
    from pyspark.sql import functions as f

    keys = ["namespace", "channel", "subscription"]
    rows = traffic.where("not accepted")
    sums = rows.groupBy(keys).agg(*_sums(*_COUNTS))
    buckets = rows.select(*keys, f.explode("latency").alias("bucket", "count")).groupBy(*keys, "bucket")
    entries = f.collect_list(f.struct("bucket", "count"))
    sketches = buckets.agg(*_sums("count")).groupBy(keys).agg(f.map_from_entries(entries).alias("latency"))
    of = consumers.select("id", "namespace", "channel", f.col("name").alias("subscription"))
    return of.join(sums, keys).join(sketches, keys, "left")


def _joins(
    spark: SparkSession,
    inputs: Inputs,
    own: DataFrame,
    consumers: DataFrame,
    accepted: DataFrame,
    settled: DataFrame,
) -> Joins:
    from pyspark.sql import functions as f

    fed = consumers.select(f.explode(f.array("target", "reply", "dead")).alias("id"))
    silent = own.join(accepted, ["id"], "left_anti").join(fed, ["id"], "left_anti")
    reads = consumers.select(f.col("channel_id").alias("id"))
    back = consumers.where("channel_id = reply or channel_id = target")
    groups = consumers.groupBy("channel_id", "target").agg(f.sort_array(f.collect_list("id")).alias("ids"))
    doubles = groups.where("size(ids) > 1").collect()
    return Joins(
        unread=tuple(_column(own.join(reads, ["id"], "left_anti"), "id")),
        unsent=tuple(_column(silent, "id")) if inputs.counted else (),
        self_replies=tuple(sorted((row["id"], row["channel_id"]) for row in back.select("id", "channel_id").collect())),
        doubles=tuple(sorted((row["channel_id"], row["target"], tuple(row["ids"])) for row in doubles)),
        ignoring=tuple(_column(consumers.where("ignores"), "id")),
        imbalances=_imbalances(spark, inputs, consumers, accepted, settled),
    )


def _imbalances(
    spark: SparkSession, inputs: Inputs, consumers: DataFrame, accepted: DataFrame, settled: DataFrame
) -> tuple[Imbalance, ...]:
    """Where fan-out times what came is not what was delivered, filtered, dropped and dead-lettered."""
    from pyspark.sql import functions as f

    lags = [(uid, state.lag) for uid, state in inputs.states.items() if state.lag is not None]
    if not inputs.counted or inputs.window.seconds <= 0 or not lags:
        return ()
    came = accepted.select(f.col("id").alias("channel_id"), f.col("events").alias("came"))
    done = settled.select("id", f.expr("delivered + dead + filtered + ignored").alias("done"))
    waiting = spark.createDataFrame(lags, "uid string, lag bigint")
    rows = consumers.select("id", "uid", "channel_id").join(waiting, ["uid"])
    rows = rows.join(came, ["channel_id"], "left").join(done, ["id"], "left").na.fill(0, ["came", "done"])
    room = SLACK_EVENTS + f.greatest("came", "done") * f.lit(SLACK_SHARE + SLACK_S / inputs.window.seconds)
    odd = rows.where((f.expr("came - done - lag") > room) | (f.expr("done - came") > room))
    return tuple(
        Imbalance(row["id"], row["came"], row["done"], row["lag"])
        for row in sorted(odd.select("id", "came", "done", "lag").collect())
    )
