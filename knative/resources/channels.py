"""KafkaChannels and Subscriptions: their shapes, and their values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from knative.delivery.policy import OnRetriesExhausted
from knative.resources.destination import (
    NO_OIDC,
    Destination,
    bare_uri,
    destination,
    destination_of,
    namespace_text,
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
            meaning="UID of the Subscription.",
            required=True,
            pattern="[a-zA-Z0-9._-]{1,200}",
            characters_max=200,
            what="is not a valid uid",
            hint="use letters, digits, '.', '_' and '-'",
        ),
        "name": Text(meaning="Name of the Subscription; by default the uid."),
        "generation": Integer(meaning="Generation of the Subscription.", default=1, least=0),
        "subscriberUri": bare_uri(meaning="Where events are sent with POST.", required=True),
        "subscriberCACerts": Text(meaning="PEM bundle of the CA certificates to trust for this address."),
        "subscriberAudience": NO_OIDC,
        "replyUri": bare_uri(meaning="Where events in the answers are sent with POST."),
        "replyCACerts": Text(meaning="PEM bundle of the CA certificates to trust for this address."),
        "replyAudience": NO_OIDC,
        "delivery": delivery(
            "Delivery of the subscription; by default that of the channel. The dead letter sink of the channel is "
            "used if there is none."
        ),
        "auth": Unsupported(
            meaning="Identity of OIDC tokens; not supported.", what=NO_OIDC.what, hint=NO_OIDC.hint, type="object"
        ),
    },
)

CHANNEL_SPEC = Object(
    meaning="Settings of the channel.",
    fields={
        "numPartitions": Integer(
            meaning="Number of partitions of the topic. It can be raised, but not lowered.",
            default=1,
            least=1,
            most=COUNT_MAX,
            stored=True,
            rises_only=True,
        ),
        "replicationFactor": Integer(
            meaning="Number of replicas of each partition.",
            default=1,
            least=1,
            most=REPLICATION_MAX,
            hint="write at most the number of brokers",
            stored=True,
            immutable=True,
        ),
        "retentionDuration": Duration(
            meaning="How long events are kept, as an ISO-8601 duration.", default="PT168H", positive=True, stored=True
        ),
        "delivery": delivery(
            "Delivery of subscriptions without a `delivery`, and dead letter sink of subscriptions without a sink."
        ),
        "subscribers": Items(
            meaning="Subscriptions that another controller has resolved. Use objects of kind Subscription instead.",
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
    meaning="A topic with an address. Events that are sent to it are delivered to each of its subscriptions.",
    spec=CHANNEL_SPEC,
    annotations=_CHANNEL_ANNOTATIONS,
    status={**ADDRESSABLE, **SUBSCRIBERS},
    short_names=("kch", "kc"),
    categories=("all", "knative", "messaging", "channel"),
    labels={"messaging.knative.dev/subscribable": "true", "duck.knative.dev/addressable": "true"},
    columns=(URL, READY, REASON, AGE),
)


def read_channel(reader: ObjectReader, namespace: str, name: str, annotations: ObjectReader) -> KafkaChannel:
    """Returns a KafkaChannel. `spec` may be absent: all its fields have defaults."""
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
    meaning="A KafkaChannel in the same namespace.",
    required=True,
    immutable=True,
    fields={
        "apiVersion": Text(meaning="Group and version of the channel.", default=f"{MESSAGING}/v1beta1"),
        "kind": Text(meaning="Its kind.", default="KafkaChannel"),
        "namespace": namespace_text("Namespace of the channel: that of the Subscription, or absent."),
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
    meaning="Which events the subscription delivers, and where to.",
    required=True,
    fields={
        "channel": _CHANNEL_REF,
        "subscriber": destination("Where events are sent with POST.", required=True),
        "reply": destination("Where events in the subscriber's answers are sent with POST."),
        "delivery": delivery(
            "Retries, waits, time limit and dead letter sink. Without it, those of the channel apply; without a sink, "
            "the sink of the channel."
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
    meaning="Delivers the events of a channel, and says where to and how.",
    spec=SUBSCRIPTION_SPEC,
    annotations=_SUBSCRIPTION_ANNOTATIONS,
    status={**CONDITIONS, **PHYSICAL_SUBSCRIPTION},
    short_names=("sub",),
    categories=("all", "knative", "messaging"),
    columns=(Column(name="Channel", path=".spec.channel.name"), READY, REASON, AGE),
)


def read_subscription(reader: ObjectReader, namespace: str, name: str, annotations: ObjectReader) -> Subscription:
    """Returns a Subscription whose order is `ordered` unless it says otherwise."""
    spec = read_fields(reader.mapping("spec", required=True) or ObjectReader({}, ("spec",), []), SUBSCRIPTION_SPEC)
    notes = read_fields(annotations, _SUBSCRIPTION_ANNOTATIONS, "penstock.dev/")
    ref: Mapping[str, Any] = spec["channel"] or {"name": "", "namespace": ""}
    if ref["namespace"] not in ("", namespace):
        what = f"{ref['namespace']!r} is another namespace"
        hint = "a Subscription and its channel must be in the same namespace; remove the field"
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
