"""The contract as DataFrames: channels, and consumers whose destinations are vertex ids.

    latest record of each key --from_json--> channels, subscriptions
    destinations --distinct--> host or path --join--> the channel that listens there, else `uri:...`

The rules are those of `model/addresses` and `facts.structure_of`. Only what the graph needs is decoded here; the driver
decodes the rest from the same records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from operator import or_
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from analytics.topology.model.facts import CHECKSUM_CHARS
from knative.contract.codec import KINDS
from knative.contract.records import BROKER, TRIGGER, Channel, Subscription
from knative.delivery.policy import Addressable, DeliverySpec
from knative.hosts import ADDRESS_PATTERN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: What the graph needs of the contract's records; the types of these fields are those of the dataclasses.
_NEEDED: Mapping[type, Sequence[str]] = {
    Channel: ("uid", "namespace", "name", "kind", "topic", "hosts"),
    Subscription: (
        *("uid", "namespace", "name", "kind", "channel_uid", "channel", "dlq_topic", "exhausted", "generation"),
        *("partitions", "subscriber", "reply", "delivery", "filter"),
    ),
    DeliverySpec: ("dead_letter_sink",),
    Addressable: ("uri",),
}
#: A field that the contract has as text; only whether it is there matters here.
_TEXT = {"filter"}
#: Of a record that is valid. The driver, which decodes all of it, names the others.
_HAS_NAME = "uid is not null and namespace is not null and name is not null"
_SCALARS = {str: "string", bool: "boolean", int: "bigint", float: "double"}


def _schema(needed: Mapping[type, Sequence[str]], **more: str) -> str:
    """The schema of a contract record, as Spark writes it, with these fields of its dataclasses."""
    types = {**more, **{what: _struct(kind, needed) for what, kind in KINDS.items()}}
    return ", ".join(f"{name} {type_}" for name, type_ in types.items())


def _struct(kind: type, needed: Mapping[type, Sequence[str]]) -> str:
    hints = get_type_hints(kind)
    types = ((name, "string" if name in _TEXT else _type(hints[name], needed)) for name in needed[kind])
    return f"struct<{', '.join(f'{name}: {type_}' for name, type_ in types)}>"


def _type(hint: Any, needed: Mapping[type, Sequence[str]]) -> str:
    parts = [one for one in get_args(hint) if one not in (NoneType, ...)]
    if parts:  # `tuple[str, ...]` or `Addressable | None`
        inner = _type(parts[0], needed)
        return f"array<{inner}>" if get_origin(hint) is tuple else inner
    if hint in needed:
        return _struct(hint, needed)
    return "string" if issubclass(hint, StrEnum) else _SCALARS[hint]


SCHEMA = _schema(_NEEDED, what="string")
_NAMESPACES = _schema(dict.fromkeys(KINDS.values(), ("namespace",)))
_UIDS = _schema(dict.fromkeys(KINDS.values(), ("uid",)))


@dataclass(frozen=True, slots=True)
class ContractFrames:
    """channels: id, uid, namespace, name, unique_name, own (it is selected). consumers: id, uid, namespace, name and
    channel (unique names), channel_id, target, reply, dead ("" = none), ignores, filtered, generation, partitions.
    """

    channels: DataFrame
    consumers: DataFrame


def contract_frames(records: DataFrame, namespace: str = "") -> ContractFrames:
    """`records`: one column `value`, JSON text, one row for each resource. `namespace`: the filter, "" = all."""
    from pyspark.sql import functions as f

    rows = records.select(f.from_json("value", SCHEMA).alias("row"))
    prefix = f.when(f.col("kind") == BROKER, "broker:").otherwise("channel:")
    channels = rows.where("row.what = 'channel'").select("row.channel.*").where(_HAS_NAME)
    channels = channels.withColumn("id", _named(prefix))
    channels = channels.withColumn("unique_name", _unique(BROKER, "name"))
    subscriptions = rows.where("row.what = 'subscription'").select("row.subscription.*").where(_HAS_NAME)
    consumers = _consumers(subscriptions, channels)
    if not namespace:
        return ContractFrames(channels.withColumn("own", f.lit(True)), consumers)
    channels = channels.withColumn("own", f.col("namespace") == namespace)
    ids = (f"channel:{namespace}/", f"broker:{namespace}/")  # an end has such an id only if the channel exists
    ends = [f.col(end).startswith(beginning) for end in ("target", "reply", "dead") for beginning in ids]
    kept = consumers.where(reduce(or_, ends, f.col("namespace") == namespace))
    joined = kept.select(f.explode(f.array("channel_id", "target", "reply", "dead")).alias("id")).distinct()
    marked = channels.join(joined.withColumn("joined", f.lit(True)), ["id"], "left")
    return ContractFrames(marked.where("own or joined").drop("joined"), kept)


def namespaces(records: DataFrame) -> set[str]:
    """The namespaces that have a resource."""
    from pyspark.sql import functions as f

    row = f.from_json("value", _NAMESPACES)
    name = f.coalesce("row.channel.namespace", "row.subscription.namespace").alias("name")
    names = records.select(row.alias("row")).select(name).where("name is not null")
    return {row["name"] for row in names.distinct().collect()}


def with_uid(records: DataFrame) -> DataFrame:
    """The same records with a column `uid`, the uid of their resource."""
    from pyspark.sql import functions as f

    row = f.from_json("value", _UIDS)
    return records.select(row.alias("row"), "value").select(
        f.coalesce("row.channel.uid", "row.subscription.uid").alias("uid"), "value"
    )


def _named(prefix: Column) -> Column:
    from pyspark.sql import functions as f

    return f.concat(prefix, "namespace", f.lit("/"), "name")


def _unique(kind: str, name: str) -> Column:
    """The rule of `knative/contract/records.unique_name`; `kind`: the one with a prefix."""
    from pyspark.sql import functions as f

    prefix = f.when(f.col("kind") == kind, f"{kind.lower()}:").otherwise("")
    return f.concat(prefix, name)


def _consumers(subscriptions: DataFrame, channels: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    ignores = f.col("exhausted") == "ignore"
    prefix = f.when(f.col("kind") == TRIGGER, "trigger:").otherwise("subscription:")
    rows = subscriptions.select(
        _named(prefix).alias("id"),
        "uid",
        "namespace",
        "channel",
        _unique(TRIGGER, "name").alias("unique_name"),
        f.when(f.col("kind") == TRIGGER, f.concat(f.lit("broker:"), "channel"))
        .otherwise(f.col("channel"))
        .alias("unique_channel"),
        "channel_uid",
        "dlq_topic",
        "generation",
        "partitions",
        ignores.alias("ignores"),
        f.coalesce(f.col("filter") != "", f.lit(False)).alias("filtered"),
        f.col("subscriber.uri").alias("target_uri"),
        f.col("reply.uri").alias("reply_uri"),
        f.when(~ignores, f.col("delivery.dead_letter_sink.uri")).alias("dead_uri"),
    )
    rows = rows.join(_resolved(rows, _places(channels)), ["uid"], "left").na.fill("", ["target", "reply", "dead"])
    own_name = f.concat("namespace", f.lit("/"), "channel")
    dead = f.when(f.col("ignores"), "").when(f.col("dead") != "", f.col("dead"))
    dead = dead.otherwise(f.coalesce("of_topic", f.concat(f.lit("dlq:"), "namespace", f.lit("/"), "unique_channel")))
    return rows.select(
        "id",
        "uid",
        "namespace",
        f.col("unique_name").alias("name"),
        f.col("unique_channel").alias("channel"),
        f.coalesce("channel_id", f.concat(f.lit("channel:"), own_name)).alias("channel_id"),
        "target",
        "reply",
        dead.alias("dead"),
        "ignores",
        "filtered",
        "generation",
        "partitions",
    )


def _places(channels: DataFrame) -> DataFrame:
    """(place, at): every path, host, topic and uid, and its owner. If several channels claim one, it is the first by
    name; a host has no owner then (`knative/contract/host_table`)."""
    from pyspark.sql import functions as f

    path = f.concat(
        f.lit("/"), f.when(f.col("kind") == BROKER, "").otherwise("channels/"), "namespace", f.lit("/"), "name"
    )
    longer = f.when(f.col("kind") == BROKER, f.array(f.concat(f.lit("/brokers"), path))).otherwise(f.array())
    hosts = f.array_distinct(f.transform(f.coalesce("hosts", f.array().cast("array<string>")), _plain_host))
    hosts = f.filter(hosts, lambda host: _may_have(host, f.col("namespace")))
    order = f.struct("namespace", "name", "uid").alias("order")
    every = f.concat(f.array(path, _of("topic", "topic"), _of("uid", "uid")), longer.cast("array<string>"), hosts)
    places = channels.select(f.explode(every).alias("place"), "id", order)
    owners = places.groupBy("place").agg(f.min_by("id", "order").alias("at"), f.count("*").alias("claims"))
    is_host = ~f.col("place").rlike("^/| ")
    return owners.where(~is_host | (f.col("claims") == 1)).drop("claims")


def _may_have(host: Column, namespace: Column) -> Column:
    """Whether a plain host is not the address of a channel of another namespace (`knative/hosts`)."""
    from pyspark.sql import functions as f

    owners = f.regexp_extract_all(host, f.lit(ADDRESS_PATTERN), 1)
    return f.forall(owners, lambda owner: owner == namespace)


def _of(kind: str, column: str) -> Column:
    """A place that no URI can name, as URIs contain no blanks."""
    from pyspark.sql import functions as f

    return f.concat(f.lit(f"{kind} "), column)


def _plain_host(host: Column) -> Column:
    """Lower case, without port and trailing dot; a path begins with `/`, a host never does."""
    from pyspark.sql import functions as f

    return f.regexp_replace(f.substring_index(f.lower(host), ":", 1), r"\.+\z", "")


def _resolved(rows: DataFrame, places: DataFrame) -> DataFrame:
    """uid -> vertex ids of its destinations (target, reply, dead), its channel (channel_id) and its dead letter topic
    (of_topic); null if there is none. A single join resolves all of them.
    """
    from pyspark.sql import functions as f

    rest = f.substring_index(f.regexp_replace("uri", r"\A[^:]*://", ""), "?", 1)
    path = f.when(f.instr(rest, "/") > 0, f.regexp_replace(rest, r"\A[^/]*/", "")).otherwise("")
    host = _plain_host(f.substring_index(rest, "/", 1))
    asked = f.when(path != "", f.concat(f.lit("/"), f.regexp_replace(path, r"/\z", ""))).otherwise(host)
    nothing = f.lit(None).cast("string")
    entries = [
        *((role, f.col(f"{role}_uri"), nothing) for role in ("target", "reply", "dead")),
        ("of_topic", nothing, _of("topic", "dlq_topic")),
        ("channel_id", nothing, _of("uid", "channel_uid")),
    ]
    ends = f.array(
        *(f.struct(f.lit(role).alias("role"), uri.alias("uri"), at.alias("known")) for role, uri, at in entries)
    )
    found = rows.select("uid", f.inline(ends)).where("uri is not null or known is not null")
    found = found.withColumn("place", f.coalesce("known", asked)).join(places, ["place"], "left")
    id_ = f.coalesce("at", f.concat(f.lit("uri:"), _outside(f.col("uri"))))
    return found.groupBy("uid").agg(*(f.max(f.when(f.col("role") == role, id_)).alias(role) for role, _, _ in entries))


def _outside(uri: Column) -> Column:
    """As `facts.outside`, without its prefix."""
    from pyspark.sql import functions as f

    shown = f.regexp_replace(f.regexp_replace(uri, r"(?<=//)[^/?#]*@", ""), r"(?s)[?#].*", "")
    checksum = f.substring(f.sha2(uri, 256), 1, CHECKSUM_CHARS)
    return f.when(shown == uri, uri).otherwise(f.concat(shown, f.lit("#"), checksum))
