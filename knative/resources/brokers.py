"""Reads Brokers, Triggers, and the ConfigMaps that Brokers name."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from knative.resources.channels import PARTITIONS_MAX, REPLICATION_MAX
from knative.resources.destination import Destination, read_destination
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
from knative.resources.trigger_filters import read_filter
from knative.resources.values import Broker, ConfigMap, Trigger

BROKER_CLASS = "eventing.knative.dev/broker.class"
DEPENDENCY = "knative.dev/dependency"
EXTERNAL_TOPIC = "kafka.eventing.knative.dev/external.topic"
NOT_OUR_CLASS = "NotOurClass"  #: reason of Brokers of other classes and of their Triggers, which are left alone
KAFKA_CLASS = "Kafka"

PARTITIONS = 10  #: of a broker whose configuration names no number
REPLICATION = 1

PARTITIONS_KEY = "default.topic.partitions"
REPLICATION_KEY = "default.topic.replication.factor"
_TOPIC_CONFIG = "default.topic.config."
_REF = ("apiVersion", "kind", "name")
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)
_DIGITS = re.compile(r"[0-9]{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """What a ConfigMap says about the topic of its brokers."""

    partitions: int = PARTITIONS
    replication: int = REPLICATION
    topic_configs: tuple[tuple[str, str], ...] = ()
    bootstrap_servers: str = ""


def read_broker(reader: ObjectReader, namespace: str, name: str, annotations: ObjectReader) -> Broker:
    """A Broker of any class: `status` says which ones are left alone. `spec` may be absent."""
    class_ = annotations.text(BROKER_CLASS)
    if class_ != KAFKA_CLASS:  # another implementation's, and not ours to check
        # Its fields are needed all the same if it had our class before: it is served as it was, so its Triggers must
        # not lose what they have from it.
        reader, annotations = reader.unreported(), annotations.unreported()
    spec = reader.mapping("spec") or ObjectReader({}, ("spec",), reader.problems)
    topic = annotations.text(EXTERNAL_TOPIC)
    if topic and not _TOPIC.fullmatch(topic):
        annotations.problem(EXTERNAL_TOPIC, f"{topic[:64]!r} is not a valid topic", "write the name of a Kafka topic")
    broker = Broker(
        namespace=namespace,
        name=name,
        class_=class_,
        config=_config_ref(spec, namespace),
        external_topic=topic,
        delivery=read_delivery(spec),
        order=read_order(annotations),
        concurrency=read_concurrency(annotations),
        hosts=read_hosts(annotations),
        keep_topic=read_keep_topic(annotations),
    )
    spec.finish()
    return broker


def read_trigger(reader: ObjectReader, namespace: str, name: str, annotations: ObjectReader) -> Trigger:
    """A Trigger. Its broker may come later."""
    spec = reader.mapping("spec", required=True) or ObjectReader({}, ("spec",), [])
    trigger = Trigger(
        namespace=namespace,
        name=name,
        broker=spec.text("broker", required=True),
        subscriber=read_destination(spec, "subscriber", required=True) or Destination(),
        filter=read_filter(spec),
        delivery=read_delivery(spec),
        order=read_order(annotations),
        concurrency=read_concurrency(annotations),
        start=read_start(annotations),
        exhausted=read_exhausted(annotations),
        dependency=_dependency(annotations),
    )
    if spec.read("brokerRef") is not None:
        spec.problem("brokerRef", "brokers in other namespaces are not supported", "write the name into `broker:`")
    spec.finish()
    return trigger


def _dependency(annotations: ObjectReader) -> str:
    """The object in the annotation, `kind namespace/name`; "" = none."""
    text = annotations.text(DEPENDENCY)
    if not text:
        return ""
    try:
        ref = json.loads(text)
    except ValueError:
        ref = None
    if not isinstance(ref, dict) or not all(isinstance(ref.get(key), str) and ref[key] for key in _REF):
        hint = 'write one such as {"apiVersion": "v1", "kind": "Service", "name": "orders"}'
        annotations.problem(DEPENDENCY, "is not a JSON object with apiVersion, kind and name", hint)
        return ""
    return f"{ref['kind']} {ref['namespace']}/{ref['name']}" if ref.get("namespace") else f"{ref['kind']} {ref['name']}"


def read_config_map(reader: ObjectReader, namespace: str, name: str, annotations: ObjectReader) -> ConfigMap:
    """A ConfigMap of any use; a broker that names it checks what it holds."""
    data = reader.texts("data")
    for key in ("binaryData", "immutable"):
        reader.read(key)
    return ConfigMap(namespace, name, data)


def broker_config(config_map: ConfigMap) -> BrokerConfig:
    """What a ConfigMap says about a broker's topic. Raises ValueError with a sentence that names the key."""
    data = config_map.data
    cleanup = data.get(f"{_TOPIC_CONFIG}cleanup.policy", "delete")
    if cleanup.strip() != "delete":
        raise ValueError(
            f"{_TOPIC_CONFIG}cleanup.policy is {cleanup[:64]!r}, and a compacted topic loses events; write delete"
        )
    return BrokerConfig(
        partitions=_number(data, PARTITIONS_KEY, PARTITIONS, PARTITIONS_MAX),
        replication=_number(data, REPLICATION_KEY, REPLICATION, REPLICATION_MAX),
        topic_configs=tuple(
            sorted(
                (key.removeprefix(_TOPIC_CONFIG), text) for key, text in data.items() if key.startswith(_TOPIC_CONFIG)
            )
        ),
        bootstrap_servers=data.get("bootstrap.servers", ""),
    )


def _number(data: Mapping[str, str], key: str, default: int, most: int) -> int:
    text = data.get(key, "").strip()
    if not text:
        return default
    if _DIGITS.fullmatch(text) and 1 <= int(text) <= most:
        return int(text)
    raise ValueError(f'{key} is {text[:64]!r}; write a number from "1" to "{most}"')


def _config_ref(spec: ObjectReader, namespace: str) -> tuple[str, str] | None:
    ref = spec.mapping("config")
    if ref is None:
        return None
    kind, api_version = ref.text("kind", "ConfigMap"), ref.text("apiVersion", "v1")
    if (api_version, kind) != ("v1", "ConfigMap"):
        ref.problem("kind", f"{kind} of {api_version} cannot configure a Broker", "write kind: ConfigMap of v1")
    found = ref.text("namespace", namespace), ref.text("name", required=True)
    ref.finish()
    return found
