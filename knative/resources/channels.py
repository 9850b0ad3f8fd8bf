"""Reads KafkaChannels and Subscriptions."""

from __future__ import annotations

import re

from knative.delivery.policy import DeliveryOrder
from knative.resources.destination import Destination, read_destination, uri_problem
from knative.resources.fields import (
    read_concurrency,
    read_delivery,
    read_exhausted,
    read_hosts,
    read_keep_topic,
    read_order,
    read_start,
)
from knative.resources.object_reader import ObjectReader
from knative.resources.values import CONCURRENCY, MESSAGING, RETENTION_S, KafkaChannel, Subscriber, Subscription

PARTITIONS_MAX = 10_000
REPLICATION_MAX = 32_767

_UID = re.compile(r"[a-zA-Z0-9._-]{1,200}", re.ASCII)


def read_channel(reader: ObjectReader, namespace: str, name: str, annotations: ObjectReader) -> KafkaChannel:
    """`spec` may be absent: all its fields have defaults."""
    spec = reader.mapping("spec") or ObjectReader({}, ("spec",), reader.problems)
    partitions = spec.integer("numPartitions", 1, 1)
    if partitions > PARTITIONS_MAX:
        spec.problem("numPartitions", f"is {partitions}", f"write at most {PARTITIONS_MAX}")
    replication = spec.integer("replicationFactor", 1, 1)
    if replication > REPLICATION_MAX:
        spec.problem("replicationFactor", f"is {replication}", "write at most the number of brokers")
    channel = KafkaChannel(
        namespace=namespace,
        name=name,
        partitions=partitions,
        replication=replication,
        retention_s=spec.duration_s("retentionDuration", RETENTION_S, positive=True),
        delivery=read_delivery(spec),
        subscribers=tuple(_subscriber(entry) for entry in spec.mappings("subscribers")),
        hosts=read_hosts(annotations),
        keep_topic=read_keep_topic(annotations),
    )
    uids = [entry.uid for entry in channel.subscribers]
    if len(uids) != len(set(uids)):
        spec.problem("subscribers", "two entries have the same uid", "give each its own uid")
    spec.finish()
    return channel


def _subscriber(entry: ObjectReader) -> Subscriber:
    uid = entry.text("uid", required=True)
    if uid and not _UID.fullmatch(uid):
        entry.problem("uid", f"{uid[:64]!r} is not a valid uid", "use letters, digits, '.', '_' and '-'")
    certs, reply_certs = entry.text("subscriberCACerts"), entry.text("replyCACerts")
    reply = _bare_uri(entry, "replyUri", reply_certs, required=False)
    subscriber = Subscriber(
        uid=uid,
        name=entry.text("name", uid),
        generation=entry.integer("generation", 1, 0),
        subscriber=_bare_uri(entry, "subscriberUri", certs, required=True),
        reply=reply if reply.uri else None,
        delivery=read_delivery(entry),
    )
    for key in ("subscriberAudience", "replyAudience", "auth"):
        if entry.read(key) is not None:
            entry.problem(key, "sender identity (OIDC) is not supported yet", "remove the field")
    entry.finish()
    return subscriber


def _bare_uri(entry: ObjectReader, key: str, ca_certs: str, *, required: bool) -> Destination:
    uri = entry.text(key, required=required)
    wrong = uri_problem(uri) if uri else None
    if wrong:
        entry.problem(key, *wrong)
    return Destination(uri=uri, ca_certs=ca_certs)


def read_subscription(reader: ObjectReader, namespace: str, name: str, annotations: ObjectReader) -> Subscription:
    """A Subscription whose order is `ordered` unless it says otherwise."""
    spec = reader.mapping("spec", required=True) or ObjectReader({}, ("spec",), [])
    subscription = Subscription(
        namespace=namespace,
        name=name,
        channel=_channel_ref(spec, namespace),
        subscriber=read_destination(spec, "subscriber", required=True) or Destination(),
        reply=read_destination(spec, "reply"),
        delivery=read_delivery(spec),
        order=read_order(annotations) or DeliveryOrder.ORDERED,
        concurrency=read_concurrency(annotations) or CONCURRENCY,
        start=read_start(annotations),
        exhausted=read_exhausted(annotations),
    )
    spec.finish()
    return subscription


def _channel_ref(spec: ObjectReader, namespace: str) -> str:
    ref = spec.mapping("channel", required=True)
    if ref is None:
        return ""
    group = ref.text("apiVersion", f"{MESSAGING}/v1beta1").partition("/")[0]
    kind = ref.text("kind", "KafkaChannel")
    if (group, kind) != (MESSAGING, "KafkaChannel"):
        ref.problem(
            "kind",
            f"{kind} of {group} cannot have subscriptions",
            f"write kind: KafkaChannel of {MESSAGING}/v1beta1",
        )
    other = ref.text("namespace", namespace)
    if other != namespace:
        ref.problem(
            "namespace",
            f"{other!r} is another namespace",
            "a Subscription and its channel must share one; leave it out",
        )
    name = ref.text("name", required=True)
    ref.finish()
    return name
