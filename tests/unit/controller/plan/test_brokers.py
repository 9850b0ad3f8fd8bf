"""Tables of reconcile for Brokers with their ConfigMaps: objects and a world in, actions and conditions out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controller.plan.actions import (
    AddPartitions,
    AlterTopicConfig,
    CreateTopic,
    DeleteTopic,
    Object,
    ObservedTopic,
)
from knative.delivery.policy import DeliveryOrder
from knative.filters.dialects import Exact
from knative.resources.values import ConfigMap, DeliveryRules
from tests.unit.controller.worlds import (
    BAD,
    BROKER_DLQ,
    BROKER_TOPIC,
    CONFIG,
    CONFIG_REF,
    FALSE,
    THEIRS,
    TRUE,
    UNKNOWN,
    Kafka,
    broker,
    channel,
    condition,
    config_map,
    kafka_with_ingress,
    message,
    names_of,
    settled_kafka,
    trigger,
)

# -- topics


def test_new_broker_and_trigger_in_the_right_order() -> None:
    kafka = kafka_with_ingress()
    done = kafka.settle(broker(), trigger(filter=Exact((("type", "a"),))))
    assert names_of(done) == ["CreateTopic", "CreateTopic", "PublishChannel", "CommitStart", "PublishSubscription"]
    assert [
        (action.topic, action.partitions, action.replication) for action in done if isinstance(action, CreateTopic)
    ] == [
        (BROKER_TOPIC, 10, 1),
        (BROKER_DLQ, 10, 1),
    ]
    record = kafka.world.channels["b-main"]
    assert (record.kind, record.path, record.hosts, record.external) == ("Broker", "/default/main", (), False)
    subscription = kafka.world.subscriptions["t-billing"]
    assert (subscription.kind, subscription.channel_uid, subscription.topic, subscription.group) == (
        "Trigger",
        "b-main",
        BROKER_TOPIC,
        "kafka.t-billing",
    )
    assert (subscription.filter, subscription.delivery) == (Exact((("type", "a"),)), CONFIG.default_delivery)
    assert kafka.decide(broker(), trigger(filter=Exact((("type", "a"),)))) == []


def test_config_map_says_how_the_topic_is() -> None:
    kafka = kafka_with_ingress()
    settings = config_map(
        partitions="3", replication__factor="2", config__retention__ms="60000", config__segment__ms="1000"
    )
    first, second = (
        action for action in kafka.decide(broker(config=CONFIG_REF), settings) if isinstance(action, CreateTopic)
    )
    assert (first.topic, first.partitions, first.replication) == (BROKER_TOPIC, 3, 2)
    assert dict(first.configs) == {
        "cleanup.policy": "delete",
        "max.message.bytes": str(1280 * 1024),
        "retention.ms": "60000",
        "segment.ms": "1000",
    }
    assert (second.topic, second.partitions, second.replication) == (BROKER_DLQ, 3, 2)
    assert dict(second.configs)["retention.ms"] == str(30 * 86_400_000)
    kafka.settle(broker(config=CONFIG_REF), settings)
    assert kafka.world.channels["b-main"].config_map == "default/config"


def test_changed_config_map_is_applied_to_the_topic() -> None:
    kafka = kafka_with_ingress()
    configured = broker(config=CONFIG_REF)
    kafka.settle(configured, config_map(partitions="2", config__retention__ms="5"), trigger())
    changed = config_map(partitions="4", config__retention__ms="6")
    assert kafka.decide(configured, changed, trigger()) == [
        AlterTopicConfig(BROKER_TOPIC, (("retention.ms", "6"),)),
        AddPartitions(BROKER_TOPIC, 4),
        AddPartitions(BROKER_DLQ, 4),
    ]
    kafka.settle(configured, changed, trigger())
    assert kafka.world.subscriptions["t-billing"].partitions == 4
    kafka.settle(configured, config_map(partitions="1"), trigger())
    status = kafka.status(configured, config_map(partitions="1"), trigger())
    assert condition(status, "TopicReady") == (TRUE, "TopicDiffers")
    assert message(status, "TopicReady").startswith(
        "the topic has 4 partitions, but default.topic.partitions of ConfigMap default/config is 1, and Kafka cannot "
        "remove partitions; write 4, or create another Broker"
    )


def test_difference_names_the_field_that_people_write() -> None:
    kafka = kafka_with_ingress()
    kafka.settle(broker(), channel())
    for name, topic in list(kafka.topics.items()):
        kafka.topics[name] = replace(topic, partitions=20, replication=3)
    kafka.settle(broker(), channel())
    of_broker = message(kafka.status(broker(), channel()), "TopicReady")
    assert "default.topic.partitions of a Broker without ConfigMap is 10" in of_broker
    assert "default.topic.replication.factor of a Broker without ConfigMap is 1" in of_broker
    of_channel = message(kafka.status(channel(), broker()), "TopicReady")
    assert "spec.numPartitions is" in of_channel
    assert "spec.replicationFactor is" in of_channel
    assert "create another KafkaChannel" in of_channel


def _config_keys(kafka: Kafka) -> list[str]:
    return list(kafka.world.channels["b-main"].config_keys)


def test_what_is_removed_from_the_config_map_has_its_default_again() -> None:
    kafka = kafka_with_ingress()
    configured = broker(config=CONFIG_REF)
    kafka.settle(
        configured, config_map(config__segment__ms="1000", config__segment__bytes="2000", config__retention__ms="5")
    )
    assert _config_keys(kafka) == ["retention.ms", "segment.bytes", "segment.ms"]
    by_hand = kafka.topics[BROKER_TOPIC]
    kafka.topics[BROKER_TOPIC] = replace(by_hand, configs={**by_hand.configs, "compression.type": "zstd"})
    less = config_map(config__segment__bytes="2000")
    week_ms = str(7 * 86_400_000)
    assert kafka.decide(configured, less)[0] == AlterTopicConfig(
        BROKER_TOPIC, (("retention.ms", week_ms),), ("segment.ms",)
    )
    kafka.settle(configured, less)
    assert _config_keys(kafka) == ["segment.bytes"]
    assert dict(kafka.topics[BROKER_TOPIC].configs) == {
        "cleanup.policy": "delete",
        "max.message.bytes": str(1280 * 1024),
        "retention.ms": week_ms,
        "segment.bytes": "2000",
        "compression.type": "zstd",
    }
    assert kafka.decide(configured, less) == []


def test_config_that_could_not_be_reset_is_tried_again() -> None:
    """The record names it until Kafka has reset it, so the next leader knows it too."""
    kafka = kafka_with_ingress()
    configured = broker(config=CONFIG_REF)
    kafka.settle(configured, config_map(config__segment__ms="1000"))
    alter, *others = kafka.decide(configured, config_map())
    assert alter == AlterTopicConfig(BROKER_TOPIC, (), ("segment.ms",))
    for action in others:
        kafka.act(action)
    assert _config_keys(kafka) == ["segment.ms"]
    assert alter in kafka.decide(configured, config_map())


@pytest.mark.parametrize(
    ("wish", "spelling", "same"),
    [("0.50", "0.5", True), (" 100 ", "100", True), ("TRUE", "true", True), ("lz4", "gzip", False), ("1", "2", False)],
)
def test_config_that_kafka_spells_otherwise_is_not_set_again_and_again(wish: str, spelling: str, same: bool) -> None:
    kafka = kafka_with_ingress()
    objects = broker(config=CONFIG_REF), config_map(config__any=wish)
    kafka.settle(*objects)
    seen = kafka.topics[BROKER_TOPIC]
    kafka.topics[BROKER_TOPIC] = replace(seen, configs={**seen.configs, "any": spelling})
    assert names_of(kafka.decide(*objects)) == ([] if same else ["AlterTopicConfig"])


@pytest.mark.parametrize(
    ("others", "reason", "words"),
    [
        ((), "ConfigMapNotFound", "there is no ConfigMap default/config; create it"),
        ((config_map("other"),), "ConfigMapNotFound", "correct spec.config"),
        ((BAD,), "ConfigMapInvalid", "ConfigMap default/config: default.topic.partitions is 'many'"),
        ((config_map(config__cleanup__policy="compact"),), "ConfigMapInvalid", "loses events"),
    ],
)
def test_without_its_config_map_a_broker_gets_no_topic(
    others: tuple[Object[ConfigMap], ...], reason: str, words: str
) -> None:
    kafka = kafka_with_ingress()
    configured = broker(config=CONFIG_REF)
    assert kafka.settle(configured, *others, trigger()) == []
    status = kafka.status(configured, *others, trigger())
    assert condition(status) == condition(status, "TopicReady") == (FALSE, reason)
    assert words in message(status)
    assert condition(status, "ContractPublished") == (UNKNOWN, reason)
    waiting = kafka.status(trigger(), configured, *others)
    assert condition(waiting, "BrokerReady") == (FALSE, reason)
    assert condition(waiting, "Subscribed") == (UNKNOWN, "BrokerNotReady")
    done = kafka.settle(configured, config_map(partitions="2"), trigger())
    assert names_of(done)[-1] == "PublishSubscription"


@pytest.mark.parametrize(("others", "reason"), [((), "ConfigMapNotFound"), ((BAD,), "ConfigMapInvalid")])
def test_published_broker_that_loses_its_config_map_is_still_served(
    others: tuple[Object[ConfigMap], ...], reason: str
) -> None:
    kafka = kafka_with_ingress()
    configured = broker(config=CONFIG_REF)
    kafka.settle(configured, config_map(partitions="2"), trigger())
    before = kafka.world
    assert kafka.settle(configured, *others, trigger()) == []
    assert (kafka.world.channels, kafka.world.subscriptions) == (before.channels, before.subscriptions)
    assert condition(kafka.status(configured, *others, trigger()), "TopicReady") == (FALSE, reason)
    assert names_of(kafka.settle(configured, *others, trigger(), trigger("second"))) == [
        "CommitStart",
        "PublishSubscription",
    ]


def test_another_kafka_in_the_config_map_is_reported() -> None:
    kafka = kafka_with_ingress()
    servers = Object("m", 1, "h", ConfigMap("default", "config", {"bootstrap.servers": "other:9092"}))
    objects = broker(config=CONFIG_REF), servers
    kafka.settle(*objects)
    status = kafka.status(*objects)
    assert condition(status) == (TRUE, "TopicDiffers")
    assert "bootstrap.servers in its ConfigMap has no effect" in message(status)
    same = Object("m", 1, "h", ConfigMap("default", "config", {"bootstrap.servers": "k:9092"}))
    assert condition(kafka.status(objects[0], same)) == (TRUE, "")


# -- external topics


def test_external_topic_is_used_as_it_is_and_stays() -> None:
    theirs = ObservedTopic(5, 3, {"retention.ms": "1", "cleanup.policy": "compact"}, "their-id")
    kafka = kafka_with_ingress(**{THEIRS: theirs})
    external = broker(external_topic=THEIRS, config=CONFIG_REF)
    settings = config_map(partitions="9", replication__factor="2", config__retention__ms="7")
    done = kafka.settle(external, settings, trigger())
    created = [(each.topic, each.partitions, each.replication) for each in done if isinstance(each, CreateTopic)]
    assert created == [(f"{THEIRS}.dlq", 5, 2)]
    assert names_of(done) == ["CreateTopic", "PublishChannel", "CommitStart", "PublishSubscription"]
    record = kafka.world.channels["b-main"]
    assert (record.topic, record.dlq_topic, record.partitions, record.external) == (THEIRS, f"{THEIRS}.dlq", 5, True)
    assert condition(kafka.status(external, settings), "TopicReady") == (TRUE, "")
    gone = kafka.settle()
    assert [each.topic for each in gone if isinstance(each, DeleteTopic)] == [f"{THEIRS}.dlq"]
    assert kafka.topics == {THEIRS: theirs}


def test_external_topic_with_more_partitions_is_followed() -> None:
    kafka = kafka_with_ingress(**{THEIRS: ObservedTopic(2, 1)})
    external = broker(external_topic=THEIRS)
    kafka.settle(external, trigger())
    kafka.topics[THEIRS] = ObservedTopic(3, 1)
    done = kafka.settle(external, trigger())
    assert AddPartitions(f"{THEIRS}.dlq", 3) in done
    assert not [each for each in done if isinstance(each, AddPartitions) and each.topic == THEIRS]
    assert kafka.world.subscriptions["t-billing"].partitions == 3


def test_external_topic_that_is_missing_is_not_created() -> None:
    kafka = kafka_with_ingress()
    external = broker(external_topic=THEIRS)
    assert kafka.settle(external, trigger()) == []
    status = kafka.status(external, trigger())
    assert condition(status) == (FALSE, "TopicNotFound")
    assert THEIRS in message(status)
    kafka.topics[THEIRS] = ObservedTopic(2, 1)
    assert names_of(kafka.settle(external, trigger()))[-1] == "PublishSubscription"
    del kafka.topics[THEIRS]
    assert kafka.settle(external, trigger()) == []
    assert condition(kafka.status(external, trigger())) == (FALSE, "TopicNotFound")
    assert "b-main" in kafka.world.channels


def test_two_brokers_never_share_an_external_topic() -> None:
    kafka = kafka_with_ingress(**{THEIRS: ObservedTopic(2, 1)})
    both = broker("a", external_topic=THEIRS), broker("b", external_topic=THEIRS)
    kafka.settle(*both)
    assert list(kafka.world.channels) == ["b-a"]
    status = kafka.status(both[1], both[0])
    assert condition(status) == (FALSE, "TopicConflict")
    assert "belongs to Broker default/a" in message(status)


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        ("knative-messaging-kafka.default.orders", "TopicConflict"),
        ("knative-messaging-kafka.default.orders.dlq", "TopicConflict"),
        ("penstock.contract", "TopicNameReserved"),
        ("__consumer_offsets", "TopicNameReserved"),
    ],
)
def test_external_topic_cannot_be_one_of_ours(topic: str, reason: str) -> None:
    kafka = kafka_with_ingress()
    kafka.settle(channel())
    external = broker(external_topic=topic)
    kafka.settle(channel(), external)
    assert "b-main" not in kafka.world.channels
    assert condition(kafka.status(external, channel())) == (FALSE, reason)


@pytest.mark.parametrize("external", ["", THEIRS])
def test_keep_topic_keeps_the_topics(external: str) -> None:
    kafka = kafka_with_ingress(**{THEIRS: ObservedTopic(2, 1)})
    kafka.settle(broker(external_topic=external, keep_topic=True))
    before = set(kafka.topics)
    kafka.settle()
    assert set(kafka.topics) == before
    assert not kafka.world.channels


# -- what cannot be changed


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ({}, {"class_": "Other"}, "broker.class (was Kafka, is Other)"),
        ({}, {"class_": ""}, "broker.class (was Kafka, is missing)"),
        ({}, {"config": CONFIG_REF}, "spec.config (was missing)"),
        ({"config": CONFIG_REF}, {"config": ("default", "other")}, "spec.config (was default/config)"),
        ({"config": CONFIG_REF}, {}, "spec.config (was default/config)"),
        ({}, {"external_topic": THEIRS}, f"external.topic (the topic is {BROKER_TOPIC})"),
        ({"external_topic": THEIRS}, {}, f"external.topic (the topic is {THEIRS})"),
        ({"external_topic": THEIRS}, {"external_topic": "another"}, f"external.topic (the topic is {THEIRS})"),
    ],
)
def test_what_a_published_broker_cannot_change(first: dict[str, Any], second: dict[str, Any], words: str) -> None:
    kafka = kafka_with_ingress(**{THEIRS: ObservedTopic(2, 1), "another": ObservedTopic(2, 1)})
    rest = config_map(partitions="2"), config_map("other", partitions="3"), trigger()
    shared: dict[str, Any] = {"order": DeliveryOrder.ORDERED, "delivery": DeliveryRules(retry=4)}
    kafka.settle(broker(**first, **shared), *rest)
    before, topics = kafka.world, dict(kafka.topics)
    changed = broker(generation=2, **second, **shared)
    assert kafka.settle(changed, *rest) == []
    assert (kafka.world.channels, kafka.world.subscriptions) == (before.channels, before.subscriptions)
    assert kafka.topics == topics
    status = kafka.status(changed, *rest)
    assert condition(status) == condition(status, "TopicReady") == (FALSE, "Immutable")
    assert words in message(status)
    assert "cannot be changed" in message(status)
    assert condition(status, "ContractPublished") == (UNKNOWN, "OlderGenerationServed")
    served = kafka.status(rest[-1], changed, *rest[:-1])
    assert condition(served, "BrokerReady") == (FALSE, "Immutable")
    undone = broker(generation=3, **first, **shared)
    assert names_of(kafka.settle(undone, *rest)) == ["PublishChannel"]


# -- other classes


@pytest.mark.parametrize(
    ("class_", "words"),
    [("Other", "has the class 'Other', not 'Kafka'"), ("", "has no annotation eventing.knative.dev/broker.class")],
)
def test_brokers_of_other_classes_and_their_triggers_are_left_alone(class_: str, words: str) -> None:
    kafka = kafka_with_ingress()
    objects = broker(class_=class_), trigger()
    assert kafka.settle(*objects) == []
    statuses = kafka.statuses(*objects)
    assert list(statuses) == ["main", "billing"]
    for name, who in (("main", "it"), ("billing", "its broker 'main'")):
        assert condition(statuses[name]) == (UNKNOWN, "NotOurClass")
        assert message(statuses[name]) == f"{who} {words}, so Penstock does not serve it"
        assert statuses[name].body == {}


def test_broker_that_gets_our_class_is_served_with_its_triggers() -> None:
    kafka = kafka_with_ingress()
    kafka.settle(broker(class_="Other"), trigger())
    kafka.settle(broker(generation=2), trigger())
    assert (set(kafka.world.channels), set(kafka.world.subscriptions)) == ({"b-main"}, {"t-billing"})


def test_triggers_go_with_a_broker_that_is_replaced_by_one_of_another_class() -> None:
    kafka = settled_kafka()
    done = kafka.settle(broker(uid="b-other", class_="Other"), trigger())
    assert names_of(done)[-5:] == ["DeleteGroup", "DeleteTopic", "DeleteTopic", "Forget", "Forget"]
    assert not kafka.world.channels
    assert not kafka.world.subscriptions
    assert not kafka.topics
