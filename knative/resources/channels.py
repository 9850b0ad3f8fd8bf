"""KafkaChannels and Subscriptions: their shapes, and their values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from knative.delivery.policy import OnRetriesExhausted
from knative.resources.destination import (
    LABEL_PATTERN,
    NO_NAME,
    NO_OIDC,
    Destination,
    bare_uri,
    destination,
    destination_of,
)
from knative.resources.fields import (
    CONCURRENCY as CONCURRENCY_KEY,
)
from knative.resources.fields import (
    COUNT_MAX,
    EXHAUSTED,
    EXHAUSTED_ANNOTATION,
    HOSTS,
    HOSTS_ANNOTATION,
    KEEP_TOPIC,
    KEEP_TOPIC_ANNOTATION,
    ORDER,
    START,
    START_ANNOTATION,
    claimed_hosts,
    concurrency_annotation,
    concurrency_of,
    delivery,
    delivery_of,
    order_annotation,
    order_of,
    start_of,
)
from knative.resources.fields_reader import read_fields
from knative.resources.object_reader import ObjectReader
from knative.resources.schema import (
    AGE,
    READY,
    REASON,
    Column,
    Duration,
    Integer,
    Items,
    Kind,
    Object,
    Rule,
    Text,
    Unsupported,
)
from knative.resources.statuses import ADDRESSABLE, CONDITIONS, PHYSICAL_SUBSCRIPTION, SUBSCRIBERS
from knative.resources.values import CONCURRENCY, MESSAGING, KafkaChannel, Subscriber, Subscription

REPLICATION_MAX = 32_767

URL = Column(name="URL", path=".status.address.url")

_SUBSCRIBER = Object(
    fields={
        "uid": Text(
            meaning="The uid of the Subscription.",
            required=True,
            pattern="[a-zA-Z0-9._-]{1,200}",
            characters_max=200,
            what="is not a valid uid",
            hint="use letters, digits, '.', '_' and '-'",
        ),
        "name": Text(meaning="The name of the Subscription; without it, the uid."),
        "generation": Integer(meaning="The generation of the Subscription.", default=1, least=0),
        "subscriberUri": bare_uri(meaning="Where events are POSTed.", required=True),
        "subscriberCACerts": Text(meaning="A PEM bundle to trust for it."),
        "subscriberAudience": NO_OIDC,
        "replyUri": bare_uri(meaning="Where events in the answers are POSTed."),
        "replyCACerts": Text(meaning="A PEM bundle to trust for it."),
        "replyAudience": NO_OIDC,
        "delivery": delivery("Its delivery; without it, that of the channel. Without a sink, the channel's."),
        "auth": Unsupported(
            meaning="The identity of OIDC tokens; not supported.", what=NO_OIDC.what, hint=NO_OIDC.hint, type="object"
        ),
    },
)

CHANNEL_SPEC = Object(
    meaning="What the channel should be.",
    fields={
        "numPartitions": Integer(
            meaning="Partitions of its topic. They may be raised, and never lowered.",
            default=1,
            least=1,
            most=COUNT_MAX,
            stored=True,
            rises_only=True,
        ),
        "replicationFactor": Integer(
            meaning="Replicas of each partition.",
            default=1,
            least=1,
            most=REPLICATION_MAX,
            hint="write at most the number of brokers",
            stored=True,
            immutable=True,
        ),
        "retentionDuration": Duration(
            meaning="How long events are kept, an ISO-8601 duration.", default="PT168H", positive=True, stored=True
        ),
        "delivery": delivery(
            "Delivery of subscriptions that have none themselves, and the dead letter sink of those without one."
        ),
        "subscribers": Items(
            meaning="Subscriptions that another controller resolved; Subscriptions are the usual way.",
            of=_SUBSCRIBER,
            most=COUNT_MAX,
            key="uid",
        ),
    },
)

_CHANNEL_ANNOTATIONS = Object(
    fields={
        HOSTS: HOSTS_ANNOTATION,
        KEEP_TOPIC: KEEP_TOPIC_ANNOTATION,
    }
)

KAFKA_CHANNEL = Kind(
    group=MESSAGING,
    versions=("v1beta1", "v1"),
    name="KafkaChannel",
    meaning="A topic with an address: events that are POSTed to it go to each of its subscriptions.",
    spec=CHANNEL_SPEC,
    annotations=_CHANNEL_ANNOTATIONS,
    status={**ADDRESSABLE, **SUBSCRIBERS},
    short_names=("kch", "kc"),
    categories=("all", "knative", "messaging", "channel"),
    labels={"messaging.knative.dev/subscribable": "true", "duck.knative.dev/addressable": "true"},
    columns=(URL, READY, REASON, AGE),
)


def read_channel(reader: ObjectReader, namespace: str, name: str, annotations: ObjectReader) -> KafkaChannel:
    """`spec` may be absent: all its fields have defaults."""
    spec = read_fields(reader.mapping("spec") or ObjectReader({}, ("spec",), reader.problems), CHANNEL_SPEC)
    notes = read_fields(annotations, _CHANNEL_ANNOTATIONS, "penstock.dev/")
    return KafkaChannel(
        namespace=namespace,
        name=name,
        partitions=spec["numPartitions"],
        replication=spec["replicationFactor"],
        retention_s=spec["retentionDuration"],
        delivery=delivery_of(spec["delivery"]),
        subscribers=tuple(_subscriber(entry) for entry in spec["subscribers"]),
        hosts=claimed_hosts(notes[HOSTS], namespace, annotations),
        keep_topic=notes[KEEP_TOPIC] == "true",
    )


def _subscriber(entry: Mapping[str, Any]) -> Subscriber:
    reply = Destination(uri=entry["replyUri"], ca_certs=entry["replyCACerts"])
    return Subscriber(
        uid=entry["uid"],
        name=entry["name"] or entry["uid"],
        generation=entry["generation"],
        subscriber=Destination(uri=entry["subscriberUri"], ca_certs=entry["subscriberCACerts"]),
        reply=reply if reply.uri else None,
        delivery=delivery_of(entry["delivery"]),
    )


_CHANNEL_REF = Object(
    meaning="A KafkaChannel of the same namespace.",
    required=True,
    immutable=True,
    fields={
        "apiVersion": Text(meaning="Group and version of the channel.", default=f"{MESSAGING}/v1beta1"),
        "kind": Text(meaning="Its kind.", default="KafkaChannel"),
        "namespace": Text(
            meaning="Its namespace: that of the Subscription, or nothing.",
            pattern=LABEL_PATTERN,
            what=NO_NAME,
            hint="use lower-case letters, digits and '-'",
        ),
        "name": Text(meaning="Its name.", required=True),
    },
    rules=(
        Rule(
            "kind",
            "(!has(self.kind) || self.kind in ['', 'KafkaChannel']) && (!has(self.apiVersion) || self.apiVersion == ''"
            f" || self.apiVersion == '{MESSAGING}' || self.apiVersion.startsWith('{MESSAGING}/'))",
            "only a KafkaChannel can have subscriptions",
            f"write kind: KafkaChannel of {MESSAGING}/v1beta1",
            holds=lambda ref: (ref["apiVersion"].partition("/")[0], ref["kind"]) == (MESSAGING, "KafkaChannel"),
        ),
    ),
)

SUBSCRIPTION_SPEC = Object(
    meaning="What the subscription wants.",
    required=True,
    fields={
        "channel": _CHANNEL_REF,
        "subscriber": destination("Where events are POSTed.", required=True),
        "reply": destination("Where events in the subscriber's answers are POSTed."),
        "delivery": delivery(
            "Retries, waits, time limit and dead letter sink; without it, those of the channel. Without a sink, "
            "that of the channel."
        ),
    },
)

_SUBSCRIPTION_ANNOTATIONS = Object(
    fields={
        ORDER: order_annotation("`ordered`"),
        CONCURRENCY_KEY: concurrency_annotation(f'`"{CONCURRENCY}"`'),
        START: START_ANNOTATION,
        EXHAUSTED: EXHAUSTED_ANNOTATION,
    }
)

SUBSCRIPTION = Kind(
    group=MESSAGING,
    versions=("v1", "v1beta1"),
    name="Subscription",
    meaning="Wants the events of one channel, and says where they go and how.",
    spec=SUBSCRIPTION_SPEC,
    annotations=_SUBSCRIPTION_ANNOTATIONS,
    status={**CONDITIONS, **PHYSICAL_SUBSCRIPTION},
    short_names=("sub",),
    categories=("all", "knative", "messaging"),
    columns=(Column(name="Channel", path=".spec.channel.name"), READY, REASON, AGE),
)


def read_subscription(reader: ObjectReader, namespace: str, name: str, annotations: ObjectReader) -> Subscription:
    """A Subscription whose order is `ordered` unless it says otherwise."""
    spec = read_fields(reader.mapping("spec", required=True) or ObjectReader({}, ("spec",), []), SUBSCRIPTION_SPEC)
    notes = read_fields(annotations, _SUBSCRIPTION_ANNOTATIONS, "penstock.dev/")
    ref: Mapping[str, Any] = spec["channel"] or {"name": "", "namespace": ""}
    if ref["namespace"] not in ("", namespace):
        what = f"{ref['namespace']!r} is another namespace"
        hint = "a Subscription and its channel must share one; leave it out"
        ObjectReader({}, ("spec", "channel"), reader.problems).problem("namespace", what, hint)
    return Subscription(
        namespace=namespace,
        name=name,
        channel=ref["name"],
        subscriber=destination_of(spec["subscriber"]) or Destination(),
        reply=destination_of(spec["reply"]),
        delivery=delivery_of(spec["delivery"]),
        order=order_of(notes[ORDER]),
        concurrency=concurrency_of(notes[CONCURRENCY_KEY]),
        start=start_of(notes[START]),
        exhausted=OnRetriesExhausted(notes[EXHAUSTED]),
    )
