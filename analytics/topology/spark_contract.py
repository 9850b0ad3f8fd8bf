"""The contract as DataFrames: channels, and consumers whose destinations are ids of vertices.

    latest record of each key --from_json--> channels, subscriptions
    destinations --distinct--> host or path --join--> the channel that listens there, else `uri:...`

The rules are those of `addresses` and `facts.structure_of`. Refuses to decode what the document shows of a resource:
the driver does that with the same records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: Of the contract's records, what the graph needs.
SCHEMA = """
    what string,
    channel struct<uid: string, namespace: string, name: string, kind: string, topic: string, hosts: array<string>>,
    subscription struct<
        uid: string, namespace: string, name: string, kind: string, channel_uid: string, channel: string,
        dlq_topic: string, exhausted: string, filters: string, filter: string,
        subscriber: struct<uri: string>, reply: struct<uri: string>,
        delivery: struct<dead_letter_sink: struct<uri: string>>
    >
"""


@dataclass(frozen=True, slots=True)
class ContractFrames:
    """channels: id, uid, namespace, name. own: id. consumers: id, uid, namespace, name, channel (its name),
    channel_id, target, reply, dead ("" = none), ignores, filtered."""

    channels: DataFrame
    own: DataFrame
    consumers: DataFrame


def contract_frames(records: DataFrame, namespace: str = "") -> ContractFrames:
    """`records`: one column `value`, JSON text, one row for each resource. `namespace`: the filter, "" = all."""
    from pyspark.sql import functions as f

    rows = records.select(f.from_json("value", SCHEMA).alias("row"))
    prefix = f.when(f.col("kind") == "Broker", "broker:").otherwise("channel:")
    channels = rows.where("row.what = 'channel'").select("row.channel.*").withColumn("id", _named(prefix))
    consumers = _consumers(rows.where("row.what = 'subscription'").select("row.subscription.*"), channels)
    if not namespace:
        return ContractFrames(channels, channels.select("id"), consumers)
    own = channels.where(f.col("namespace") == namespace).select("id")
    ends = f.array("target", "reply", "dead")
    touching = consumers.select(f.explode(ends).alias("id"), f.col("uid")).join(own, ["id"]).select("uid").distinct()
    marked = consumers.join(touching.withColumn("touches", f.lit(True)), ["uid"], "left")
    kept = marked.where((f.col("namespace") == namespace) | f.col("touches")).drop("touches")
    joined = kept.select(f.explode(f.array("channel_id", "target", "reply", "dead")).alias("id")).union(own).distinct()
    return ContractFrames(channels.join(joined, ["id"], "left_semi"), own, kept)


def _named(prefix: Column) -> Column:
    from pyspark.sql import functions as f

    return f.concat(prefix, "namespace", f.lit("/"), "name")


def _consumers(subscriptions: DataFrame, channels: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    ignores = f.col("exhausted") == "ignore"
    prefix = f.when(f.col("kind") == "Trigger", "trigger:").otherwise("subscription:")
    rows = subscriptions.select(
        _named(prefix).alias("id"),
        "uid",
        "namespace",
        "name",
        "channel",
        "channel_uid",
        "dlq_topic",
        ignores.alias("ignores"),
        f.coalesce(_some("filters") | _some("filter"), f.lit(False)).alias("filtered"),
        f.col("subscriber.uri").alias("target_uri"),
        f.col("reply.uri").alias("reply_uri"),
        f.when(~ignores, f.col("delivery.dead_letter_sink.uri")).alias("dead_uri"),
    )
    rows = rows.join(_resolved(rows, _listening(channels)), ["uid"], "left").na.fill("", ["target", "reply", "dead"])
    by_uid = channels.select(f.col("uid").alias("channel_uid"), f.col("id").alias("channel_id"))
    by_topic = _first(channels.select(f.col("topic").alias("dlq_topic"), "id", _order()), "dlq_topic", "of_topic")
    rows = rows.join(by_uid, ["channel_uid"], "left").join(by_topic, ["dlq_topic"], "left")
    own_name = f.concat("namespace", f.lit("/"), "channel")
    dead = f.when(f.col("ignores"), "").when(f.col("dead") != "", f.col("dead"))
    dead = dead.otherwise(f.coalesce("of_topic", f.concat(f.lit("dlq:"), own_name)))
    return rows.select(
        "id",
        "uid",
        "namespace",
        "name",
        "channel",
        f.coalesce("channel_id", f.concat(f.lit("channel:"), own_name)).alias("channel_id"),
        "target",
        "reply",
        dead.alias("dead"),
        "ignores",
        "filtered",
    )


def _some(name: str) -> Column:
    """A filter that is there and not empty, as the text of its JSON."""
    from pyspark.sql import functions as f

    return f.coalesce(~f.col(name).isin("", "null", "[]", "{}"), f.lit(False))


def _order() -> Column:
    """Of channels that claim one address the first counts."""
    from pyspark.sql import functions as f

    return f.struct("namespace", "name", "uid").alias("order")


def _first(rows: DataFrame, key: str, name: str) -> DataFrame:
    from pyspark.sql import functions as f

    return rows.groupBy(key).agg(f.min_by("id", "order").alias(name))


def _listening(channels: DataFrame) -> DataFrame:
    """(place, at): every path and host, and who listens there."""
    from pyspark.sql import functions as f

    path = f.concat(
        f.lit("/"), f.when(f.col("kind") == "Broker", "").otherwise("channels/"), "namespace", f.lit("/"), "name"
    )
    paths = channels.select(path.alias("place"), "id", _order())
    hosts = channels.select(f.explode("hosts").alias("host"), "id", _order())
    return _first(paths.union(hosts.select(_plain_host(f.col("host")), "id", "order")), "place", "at")


def _plain_host(host: Column) -> Column:
    """Lower case, without port and without the root's dot; a path begins with `/`, a host never does."""
    from pyspark.sql import functions as f

    return f.regexp_replace(f.substring_index(f.lower(host), ":", 1), r"\.+\z", "").alias("place")


def _resolved(rows: DataFrame, listening: DataFrame) -> DataFrame:
    """uid -> ids of its destinations as columns target, reply, dead; null where there is none. One join for all."""
    from pyspark.sql import functions as f

    roles = ("target", "reply", "dead")
    entries = f.array(*(f.struct(f.lit(role).alias("role"), f.col(f"{role}_uri").alias("uri")) for role in roles))
    ends = rows.select("uid", f.inline(entries)).where("uri is not null")
    rest = f.substring_index(f.regexp_replace("uri", r"\A[^:]*://", ""), "?", 1)
    path = f.when(f.instr(rest, "/") > 0, f.regexp_replace(rest, r"\A[^/]*/", "")).otherwise("")
    host = _plain_host(f.substring_index(rest, "/", 1))
    place = f.when(path != "", f.concat(f.lit("/"), f.regexp_replace(path, r"/\z", ""))).otherwise(host)
    found = ends.withColumn("place", place).join(listening, ["place"], "left")
    id_ = f.coalesce("at", f.concat(f.lit("uri:"), "uri"))
    return found.groupBy("uid").agg(*(f.max(f.when(f.col("role") == role, id_)).alias(role) for role in roles))
