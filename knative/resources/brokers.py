"""Brokers and Triggers: their shapes, and their values; and the ConfigMaps that Brokers name."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from knative.delivery.policy import OnRetriesExhausted
from knative.resources.channels import REPLICATION_MAX, URL
from knative.resources.destination import Destination, destination, destination_of, namespace_text
from knative.resources.fields import (
    CONCURRENCY,
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
from knative.resources.schema import AGE, READY, REASON, Column, Complaint, Kind, Object, Text, Unsupported
from knative.resources.statuses import ADDRESSABLE, CONDITIONS, TRIGGER_URIS
from knative.resources.trigger_filters import FILTER, FILTERS, read_filter
from knative.resources.values import EVENTING, Broker, ConfigMap, Trigger

BROKER_CLASS = "eventing.knative.dev/broker.class"
DEPENDENCY = "knative.dev/dependency"
EXTERNAL_TOPIC = "kafka.eventing.knative.dev/external.topic"
NAMESPACED_CLASS = "KafkaNamespaced"
CLASS_NOT_SERVED = "ClassNotServed"  #: reason of Brokers of that class
NOT_OUR_CLASS = "NotOurClass"  #: reason of Brokers of other classes and of their Triggers, which are left alone
KAFKA_CLASS = "Kafka"

PARTITIONS = 10  #: of a broker whose configuration names no number
REPLICATION = 1

PARTITIONS_KEY = "default.topic.partitions"
REPLICATION_KEY = "default.topic.replication.factor"
SERVERS_KEY = "bootstrap.servers"
SECRET_KEY = "auth.secret.ref.name"
_TOPIC_CONFIG = "default.topic.config."
_REF = ("apiVersion", "kind", "name")
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)
_NO_OBJECT = "is not a JSON object with apiVersion, kind and name"
_OBJECT_HINT = 'write one such as {"apiVersion": "v1", "kind": "Service", "name": "orders"}'
_DIGITS = re.compile(r"[0-9]{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """What a ConfigMap says about the topic of its brokers."""

    partitions: int = PARTITIONS
    replication: int = REPLICATION
    topic_configs: tuple[tuple[str, str], ...] = ()
    bootstrap_servers: str = ""
    secret: str = ""  #: NAMESPACE/NAME of a Secret in the namespace of the ConfigMap


_BROKER_SPEC = Object(
    meaning="Settings of the broker.",
    fields={
        "config": Object(
            meaning="A ConfigMap with the settings of the broker's topic.",
            immutable=True,
            fields={
                "apiVersion": Text(meaning="`v1`.", default="v1"),
                "kind": Text(meaning="`ConfigMap`.", default="ConfigMap"),
                "namespace": namespace_text("Namespace of the ConfigMap; by default that of the Broker."),
                "name": Text(meaning="Its name.", required=True),
            },
        ),
        "delivery": delivery("Delivery of triggers. A field of the trigger takes precedence."),
    },
)

_BROKER_ANNOTATIONS = Object(
    fields={
        EXTERNAL_TOPIC: Text(
            meaning="Name of an existing topic to use. Penstock never creates, changes or deletes this topic.",
            pattern="[a-zA-Z0-9._-]{1,249}",
            characters_max=249,
            what="is not a valid topic",
            hint="write the name of a Kafka topic",
            check=lambda text: _topic_complaint(text),
            immutable=True,
        ),
        ORDER: order_annotation("`key-ordered`; the annotation of a trigger takes precedence"),
        CONCURRENCY: concurrency_annotation('`"100"`; the annotation of a trigger takes precedence'),
        HOSTS: HOSTS_ANNOTATION,
        KEEP_TOPIC: KEEP_TOPIC_ANNOTATION,
    }
)

BROKER = Kind(
    group=EVENTING,
    versions=("v1", "v1beta1"),
    name="Broker",
    meaning="A topic with an address. Triggers choose events of it by filters; replies of their subscribers come "
    "back into it.",
    spec=_BROKER_SPEC,
    annotations=_BROKER_ANNOTATIONS,
    status=ADDRESSABLE,
    categories=("all", "knative", "eventing"),
    labels={"duck.knative.dev/addressable": "true"},
    columns=(URL, READY, REASON, AGE),
    ours=(BROKER_CLASS, KAFKA_CLASS),
)


def _topic_complaint(text: str) -> Complaint | None:
    if _TOPIC.fullmatch(text):
        return None
    return f"{text[:64]!r} is not a valid topic", "write the name of a Kafka topic"


def read_broker(reader: ObjectReader, namespace: str, name: str, annotations: ObjectReader) -> Broker:
    """Returns a Broker of any class: `status` says which ones are left alone. `spec` may be absent."""
    class_ = annotations.text(BROKER_CLASS)
    if class_ != KAFKA_CLASS:  # another implementation's, and not ours to check
        # Its fields are needed all the same if it had our class before: it is served as it was, so its Triggers must
        # not lose what they have from it.
        reader, annotations = reader.unreported(), annotations.unreported()
    spec = read_fields(reader.mapping("spec") or ObjectReader({}, ("spec",), reader.problems), _BROKER_SPEC)
    notes = read_fields(annotations, _BROKER_ANNOTATIONS, "penstock.dev/")
    config = spec["config"]
    if config is not None and (config["apiVersion"], config["kind"]) != ("v1", "ConfigMap"):
        what = f"a {config['kind']} of {config['apiVersion']} cannot configure a Broker"
        place = ObjectReader({}, ("spec", "config"), reader.problems)
        place.problem("kind", what, "write kind: ConfigMap of v1")
    return Broker(
        namespace=namespace,
        name=name,
        class_=class_,
        config=(config["namespace"] or namespace, config["name"]) if config is not None else None,
        external_topic=notes[EXTERNAL_TOPIC],
        delivery=delivery_of(spec["delivery"]),
        order=order_of(notes[ORDER]),
        concurrency=concurrency_of(notes[CONCURRENCY]),
        hosts=claimed_hosts(notes[HOSTS], namespace, annotations),
        keep_topic=notes[KEEP_TOPIC] == "true",
    )


_TRIGGER_SPEC = Object(
    meaning="Which events the trigger delivers, and where to.",
    required=True,
    fields={
        "broker": Text(meaning="Name of a Broker in the same namespace.", required=True, immutable=True),
        "brokerRef": Unsupported(
            meaning="A Broker of another namespace; not supported.",
            what="brokers in other namespaces are not supported",
            hint="write the name into `broker:`",
            type="object",
        ),
        "filter": FILTER,
        "filters": FILTERS,
        "subscriber": destination(
            "Where events are sent with POST. An event in the answer is stored in the broker.", required=True
        ),
        "delivery": delivery(
            "Retries, waits, time limit and dead letter sink; the broker's value is used for a field that is missing."
        ),
    },
)

_TRIGGER_ANNOTATIONS = Object(
    fields={
        ORDER: order_annotation("that of the broker, else `key-ordered`"),
        CONCURRENCY: concurrency_annotation("that of the broker, else 100"),
        START: START_ANNOTATION,
        EXHAUSTED: EXHAUSTED_ANNOTATION,
        DEPENDENCY: Text(
            meaning="An object that the trigger depends on, as a JSON object with apiVersion, kind and name.",
            what=_NO_OBJECT,
            hint=_OBJECT_HINT,
            check=lambda text: None if _ref(text) else (_NO_OBJECT, _OBJECT_HINT),
        ),
    }
)

TRIGGER = Kind(
    group=EVENTING,
    versions=("v1", "v1beta1"),
    name="Trigger",
    meaning="Delivers the events of a broker that pass its filters.",
    spec=_TRIGGER_SPEC,
    annotations=_TRIGGER_ANNOTATIONS,
    status={**CONDITIONS, **TRIGGER_URIS},
    categories=("all", "knative", "eventing"),
    columns=(
        Column(name="Broker", path=".spec.broker"),
        Column(name="Subscriber_URI", path=".status.subscriberUri"),
        READY,
        REASON,
        AGE,
    ),
)


def read_trigger(reader: ObjectReader, namespace: str, name: str, annotations: ObjectReader) -> Trigger:
    """Returns a Trigger. Its broker may come later."""
    spec_reader = reader.mapping("spec", required=True) or ObjectReader({}, ("spec",), [])
    spec = read_fields(spec_reader, _TRIGGER_SPEC)
    notes = read_fields(annotations, _TRIGGER_ANNOTATIONS, "penstock.dev/")
    return Trigger(
        namespace=namespace,
        name=name,
        broker=spec["broker"],
        subscriber=destination_of(spec["subscriber"]) or Destination(),
        filter=read_filter(spec_reader),
        delivery=delivery_of(spec["delivery"]),
        order=order_of(notes[ORDER]),
        concurrency=concurrency_of(notes[CONCURRENCY]),
        start=start_of(notes[START]),
        exhausted=OnRetriesExhausted(notes[EXHAUSTED]),
        dependency=_dependency(notes[DEPENDENCY]),
    )


def _ref(text: str) -> dict[str, str]:
    """Returns the object in a text; {} = it has none."""
    try:
        ref = json.loads(text)
    except ValueError:
        return {}
    if not isinstance(ref, dict) or not all(isinstance(ref.get(key), str) and ref[key] for key in _REF):
        return {}
    return ref


def _dependency(text: str) -> str:
    """Returns the object in the annotation, `kind namespace/name`; "" = none."""
    if not text:
        return ""
    ref = _ref(text)
    return f"{ref['kind']} {ref['namespace']}/{ref['name']}" if ref.get("namespace") else f"{ref['kind']} {ref['name']}"


def read_config_map(reader: ObjectReader, namespace: str, name: str, annotations: ObjectReader) -> ConfigMap:
    """Returns a ConfigMap of any use; a broker that names it checks what it holds."""
    data = reader.texts("data")
    for key in ("binaryData", "immutable"):
        reader.read(key)
    read_fields(annotations, Object(fields={}), "penstock.dev/")
    return ConfigMap(namespace, name, data)


def broker_config(config_map: ConfigMap) -> BrokerConfig:
    """Returns what a ConfigMap says about a broker's topic. Raises ValueError with a sentence that names the key."""
    data = config_map.data
    cleanup = data.get(f"{_TOPIC_CONFIG}cleanup.policy", "delete")
    if cleanup.strip() != "delete":
        raise ValueError(
            f"{_TOPIC_CONFIG}cleanup.policy is {cleanup[:64]!r}, but a compacted topic loses events; write delete"
        )
    return BrokerConfig(
        partitions=_number(data, PARTITIONS_KEY, PARTITIONS, COUNT_MAX),
        replication=_number(data, REPLICATION_KEY, REPLICATION, REPLICATION_MAX),
        topic_configs=tuple(
            sorted(
                (key.removeprefix(_TOPIC_CONFIG), text) for key, text in data.items() if key.startswith(_TOPIC_CONFIG)
            )
        ),
        bootstrap_servers=data.get(SERVERS_KEY, ""),
        secret=secret_of(config_map),
    )


def secret_of(config_map: ConfigMap) -> str:
    """Returns NAMESPACE/NAME of the Secret that it names; "" = none."""
    name = config_map.data.get(SECRET_KEY, "").strip()
    return name and f"{config_map.namespace}/{name}"


def is_of_a_broker(key: str) -> bool:
    """Returns whether a key of a ConfigMap says something about a broker's topic."""
    return key in (PARTITIONS_KEY, REPLICATION_KEY, SECRET_KEY, SERVERS_KEY) or key.startswith(_TOPIC_CONFIG)


def _number(data: Mapping[str, str], key: str, default: int, most: int) -> int:
    text = data.get(key, "").strip()
    if not text:
        return default
    if _DIGITS.fullmatch(text) and 1 <= int(text) <= most:
        return int(text)
    raise ValueError(f'{key} is {text[:64]!r}; write a number from "1" to "{most}"')
