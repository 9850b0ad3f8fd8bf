"""Broker, Trigger and ConfigMap: every field, its default, and every mistake with its path."""

from __future__ import annotations

from typing import Any

import pytest

from knative.delivery.policy import BackoffPolicy, DeliveryFormat, DeliveryOrder, OnRetriesExhausted
from knative.filters.dialects import ALL_EVENTS, All, Attributes, Exact, Prefix
from knative.resources import kinds
from knative.resources.brokers import BrokerConfig, broker_config
from knative.resources.destination import Destination, Ref
from knative.resources.kinds import Invalid, spec_hash
from knative.resources.values import Broker, ConfigMap, DeliveryRules, Start, StartTime, Trigger

CLASS = "eventing.knative.dev/broker.class"
EXTERNAL = "kafka.eventing.knative.dev/external.topic"
ORDER = "kafka.eventing.knative.dev/delivery.order"
DEPENDENCY = "knative.dev/dependency"
OURS = {CLASS: "Kafka"}
NOTES = "metadata.annotations."


def thing(kind: str, annotations: object = None, spec: object = None, **more: object) -> dict[str, Any]:
    metadata: dict[str, object] = {"name": "main", "namespace": "shop"}
    if annotations is not None:
        metadata["annotations"] = annotations
    value = {"apiVersion": "eventing.knative.dev/v1", "kind": kind, "metadata": metadata, **more}
    return value if spec is None else {**value, "spec": spec}


def broker(spec: object = None, annotations: object = OURS, **more: object) -> dict[str, Any]:
    return thing("Broker", annotations, spec, **more)


def ours(**annotations: object) -> dict[str, object]:
    return {**OURS, **annotations}


def trigger(annotations: object = None, **spec: object) -> dict[str, Any]:
    return thing("Trigger", annotations, {"broker": "main", "subscriber": {"uri": "http://h/"}, **spec})


def config_map(data: object, **more: object) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data, **more}


# -- Broker


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
@pytest.mark.parametrize("spec", [None, {}])
def test_broker_needs_a_name_and_its_class(version: str, spec: object) -> None:
    value = broker(spec, apiVersion=f"eventing.knative.dev/{version}", status={"x": 1})
    assert kinds.parse(value) == Broker("shop", "main", "Kafka")


def test_broker_with_everything() -> None:
    spec = {
        "config": {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "namespace": "other"},
        "delivery": {
            "retry": 2,
            "backoffPolicy": "linear",
            "backoffDelay": "PT1S",
            "timeout": "PT5S",
            "retryAfterMax": "PT9S",
            "format": "json",
            "deadLetterSink": {"uri": "http://dead/"},
        },
    }
    annotations = {
        **OURS,
        EXTERNAL: "Their_Topic-1.x",
        ORDER: "unordered",
        "penstock.dev/concurrency": "7",
        "penstock.dev/hosts": "Events.example",
        "penstock.dev/keep-topic": "true",
        "example.com/any": "x",
    }
    assert kinds.parse(broker(spec, annotations)) == Broker(
        namespace="shop",
        name="main",
        class_="Kafka",
        config=("other", "c"),
        external_topic="Their_Topic-1.x",
        delivery=DeliveryRules(
            2, BackoffPolicy.LINEAR, 1.0, 5.0, 9.0, DeliveryFormat.JSON, Destination(uri="http://dead/")
        ),
        order=DeliveryOrder.UNORDERED,
        concurrency=7,
        hosts=("events.example",),
        keep_topic=True,
    )


def test_config_ref_has_defaults() -> None:
    resource = kinds.parse(broker({"config": {"name": "c"}}))
    assert isinstance(resource, Broker)
    assert resource.config == ("shop", "c")


@pytest.mark.parametrize("class_", [None, "", "MTChannelBasedBroker", "kafka", "KafkaNamespaced"])
def test_broker_of_another_class_is_not_checked(class_: str | None) -> None:
    spec = {"config": {"kind": "RabbitmqCluster", "name": 3}, "delivery": {"retry": "many"}, "more": 1}
    annotations: dict[str, object] = {EXTERNAL: "no topic!", ORDER: "sorted", "penstock.dev/hosts": "a:80"}
    if class_ is not None:
        annotations[CLASS] = class_
    resource = kinds.parse(broker(spec, annotations))
    assert isinstance(resource, Broker)
    assert resource.class_ == (class_ or "")
    assert isinstance(kinds.parse(broker([], annotations)), Broker)


def test_broker_whose_class_was_changed_still_has_what_its_triggers_need() -> None:
    annotations = {CLASS: "Other", ORDER: "ordered", "penstock.dev/concurrency": "3"}
    resource = kinds.parse(broker({"config": {"name": "c"}, "delivery": {"retry": 4}}, annotations))
    assert isinstance(resource, Broker)
    assert resource.delivery is not None
    assert (resource.order, resource.concurrency, resource.delivery.retry) == (DeliveryOrder.ORDERED, 3, 4)


# -- Trigger


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_trigger_needs_a_broker_and_a_subscriber(version: str) -> None:
    value = kinds.parse({**trigger(), "apiVersion": f"eventing.knative.dev/{version}"})
    assert value == Trigger("shop", "main", "main", Destination(uri="http://h/"))
    assert (value.filter, value.start, value.order, value.concurrency) == (ALL_EVENTS, Start.LATEST, None, None)


def test_trigger_with_everything() -> None:
    annotations = {
        ORDER: "ordered",
        "penstock.dev/concurrency": "1",
        "penstock.dev/start": "2026-01-31T08:00:00.5+01:00",
        "penstock.dev/exhausted": "ignore",
        DEPENDENCY: '{"apiVersion":"sources.knative.dev/v1","kind":"PingSource","name":"tick","namespace":"shop"}',
    }
    spec = {
        "subscriber": {"ref": {"apiVersion": "v1", "kind": "Service", "name": "s"}, "uri": "/in"},
        "filter": {"attributes": {"type": "ignored"}},
        "filters": [{"exact": {"type": "a"}}, {"prefix": {"source": "/b"}}],
        "delivery": {"retry": 1},
    }
    assert kinds.parse(trigger(annotations, **spec)) == Trigger(
        namespace="shop",
        name="main",
        broker="main",
        subscriber=Destination("/in", Ref("v1", "Service", "", "s")),
        filter=All((Exact((("type", "a"),)), Prefix((("source", "/b"),)))),
        delivery=DeliveryRules(retry=1),
        order=DeliveryOrder.ORDERED,
        concurrency=1,
        start=StartTime(1_769_842_800_500, "2026-01-31T08:00:00.5+01:00"),
        exhausted=OnRetriesExhausted.IGNORE,
        dependency="PingSource shop/tick",
    )


def test_filter_of_attributes_counts_without_filters() -> None:
    resource = kinds.parse(trigger(filter={"attributes": {"type": ""}}))
    assert isinstance(resource, Trigger)
    assert resource.filter == Attributes((("type", ""),))


@pytest.mark.parametrize(
    ("text", "unix_ms"),
    [
        ("2026-01-31T08:00:00Z", 1_769_846_400_000),
        ("2026-01-31t08:00:00z", 1_769_846_400_000),
        ("2026-01-31T08:00:00.123Z", 1_769_846_400_123),
        ("2026-01-31T10:00:00+02:00", 1_769_846_400_000),
        ("1970-01-01T00:00:00Z", 0),
        ("1969-12-31T23:59:59.999Z", 0),
        ("0001-01-01T00:00:00+23:59", 0),
    ],
)
def test_start_by_time_is_read_to_the_millisecond(text: str, unix_ms: int) -> None:
    resource = kinds.parse(trigger({"penstock.dev/start": text}))
    assert isinstance(resource, Trigger)
    assert resource.start == StartTime(unix_ms, text)


# -- ConfigMap


def test_config_map_of_any_use_is_read() -> None:
    value = config_map({"a": "", "b": "x"}, binaryData={"c": "AA=="}, immutable=True)
    assert kinds.parse(value) == ConfigMap("default", "c", {"a": "", "b": "x"})
    assert kinds.parse({**value, "data": None}) == ConfigMap("default", "c", {})


@pytest.mark.parametrize(
    ("data", "config"),
    [
        ({}, BrokerConfig(10, 1)),
        ({"other": "x", "default.topic.partitions": ""}, BrokerConfig(10, 1)),
        ({"default.topic.partitions": "3", "default.topic.replication.factor": " 2 "}, BrokerConfig(3, 2)),
        ({"bootstrap.servers": "k:9092"}, BrokerConfig(bootstrap_servers="k:9092")),
        ({"auth.secret.ref.name": " s "}, BrokerConfig(secret="default/s")),
        (
            {"default.topic.config.retention.ms": "5", "default.topic.config.cleanup.policy": "delete"},
            BrokerConfig(topic_configs=(("cleanup.policy", "delete"), ("retention.ms", "5"))),
        ),
    ],
)
def test_topic_that_a_config_map_asks_for(data: dict[str, str], config: BrokerConfig) -> None:
    assert broker_config(ConfigMap("default", "c", data)) == config


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"default.topic.partitions": "0"}, r'default.topic.partitions is \'0\'; write a number from "1" to "10000"'),
        ({"default.topic.partitions": "10001"}, "from"),
        ({"default.topic.partitions": "-1"}, "from"),
        ({"default.topic.partitions": "3.0"}, "from"),
        ({"default.topic.partitions": "٣"}, "from"),
        ({"default.topic.partitions": "9" * 5000}, "from"),
        ({"default.topic.replication.factor": "40000"}, "default.topic.replication.factor"),
        ({"default.topic.config.cleanup.policy": "compact"}, "loses events; write delete"),
        ({"default.topic.config.cleanup.policy": "compact,delete"}, "loses events"),
    ],
)
def test_config_map_that_cannot_be_used(data: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        broker_config(ConfigMap("default", "c", data))


# -- mistakes


@pytest.mark.parametrize(
    ("value", "field", "words"),
    [
        (broker(apiVersion="eventing.knative.dev/v2"), "apiVersion", "eventing.knative.dev/v1"),
        (broker({"confg": {}}), "spec.confg", "did you mean `config`"),
        (broker({"config": {}}), "spec.config.name", "missing"),
        (broker({"config": "c"}), "spec.config", "not a mapping"),
        (broker({"config": {"name": "c", "key": "x"}}), "spec.config.key", "not a known field"),
        (broker({"config": {"kind": "Secret", "name": "c"}}), "spec.config.kind", "kind: ConfigMap of v1"),
        (broker({"config": {"apiVersion": "v2", "name": "c"}}), "spec.config.kind", "kind: ConfigMap of v1"),
        (broker({"delivery": {"retry": -1}}), "spec.delivery.retry", "from 0"),
        (broker({"delivery": {"format": "avro"}}), "spec.delivery.format", "not a valid value"),
        (broker([]), "spec", "not a mapping"),
        (broker(annotations=ours(**{EXTERNAL: "a topic"})), NOTES + EXTERNAL, "is not a valid topic"),
        (broker(annotations=ours(**{EXTERNAL: "t" * 250})), NOTES + EXTERNAL, "is not a valid topic"),
        (broker(annotations=ours(**{ORDER: "sorted"})), NOTES + ORDER, "key-ordered"),
        (broker(annotations=ours(**{"penstock.dev/concurrency": "0"})), NOTES + "penstock.dev/concurrency", '"1"'),
        (broker(annotations=ours(**{"penstock.dev/hosts": "a:80"})), NOTES + "penstock.dev/hosts", "without port"),
        (
            broker(annotations=ours(**{"penstock.dev/hosts": "a-kn-channel.others.svc"})),
            NOTES + "penstock.dev/hosts",
            "only objects in the namespace 'others'",
        ),
        (broker(annotations=ours(**{"penstock.dev/start": "latest"})), NOTES + "penstock.dev/start", "not a known"),
        (broker(annotations=ours(**{"penstock.dev/host": "a"})), NOTES + "penstock.dev/host", "did you mean"),
        (broker(annotations={CLASS: 1}), NOTES + CLASS, "not text"),
        (trigger(broker=None), "spec.broker", "missing"),
        (trigger(broker=""), "spec.broker", "missing"),
        (trigger(broker={"name": "main"}), "spec.broker", "not text"),
        (trigger(brokerRef={"name": "main"}), "spec.brokerRef", "other namespaces are not supported"),
        (trigger(subscriber=None), "spec.subscriber", "missing"),
        (trigger(subscriber={}), "spec.subscriber", "neither"),
        (trigger(reply={"uri": "http://h/"}), "spec.reply", "not a known field"),
        (trigger(filter={"type": "a"}), "spec.filter.type", "not a known field"),
        (trigger(filters=[{"exact": {}}]), "spec.filters[0].exact", "is empty"),
        (trigger(filters=[{}, {"cesql": "("}]), "spec.filters[1].cesql", "not a valid expression"),
        (trigger(delivery={"timeout": "PT0S"}), "spec.delivery.timeout", "too short"),
        (trigger({ORDER: "sorted"}), NOTES + ORDER, "key-ordered"),
        (trigger({"penstock.dev/concurrency": "10001"}), NOTES + "penstock.dev/concurrency", '"10000"'),
        (trigger({"penstock.dev/start": "yesterday"}), NOTES + "penstock.dev/start", "earliest, latest or a time"),
        (trigger({"penstock.dev/start": "2026-01-31T08:00:00"}), NOTES + "penstock.dev/start", "such as"),
        (trigger({"penstock.dev/start": "2026-01-31"}), NOTES + "penstock.dev/start", "such as"),
        (trigger({"penstock.dev/exhausted": "drop"}), NOTES + "penstock.dev/exhausted", "ignore"),
        (trigger({"penstock.dev/hosts": "a"}), NOTES + "penstock.dev/hosts", "not a known field"),
        (trigger({DEPENDENCY: "tick"}), NOTES + DEPENDENCY, "is not a JSON object"),
        (trigger({DEPENDENCY: "[]"}), NOTES + DEPENDENCY, "is not a JSON object"),
        (
            trigger({DEPENDENCY: '{"apiVersion":"v1","kind":"Service"}'}),
            NOTES + DEPENDENCY,
            "apiVersion, kind and name",
        ),
        (trigger({DEPENDENCY: '{"apiVersion":"v1","kind":"S","name":1}'}), NOTES + DEPENDENCY, "is not a JSON object"),
        (thing("Trigger"), "spec", "missing"),
        (config_map(["a"]), "data", "not a mapping"),
        (config_map({"default.topic.partitions": 3}), "data.default.topic.partitions", "quotes"),
        (config_map({}, dat={}), "dat", "did you mean `data`"),
    ],
)
def test_mistake_is_reported_with_its_field_and_a_hint(value: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(Invalid, match=words) as caught:
        kinds.parse(value)
    assert field in [problem.field for problem in caught.value.problems]
    assert all(problem.what and problem.hint for problem in caught.value.problems)


@pytest.mark.parametrize("annotation", [CLASS, EXTERNAL, ORDER, "penstock.dev/concurrency"])
def test_change_of_these_annotations_is_a_new_generation(annotation: str) -> None:
    assert spec_hash(broker(annotations={annotation: "a"})) != spec_hash(broker(annotations={annotation: "b"}))
