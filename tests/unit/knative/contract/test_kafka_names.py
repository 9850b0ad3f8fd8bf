"""Names in Kafka: templates, Kafka's own rules, and what belongs to the installation."""

from __future__ import annotations

import pytest

from knative.contract import kafka_names


def test_channel_has_the_topic_of_its_template() -> None:
    assert (
        kafka_names.channel_topic(kafka_names.CHANNEL_TOPIC_TEMPLATE, "ns", "orders")
        == "knative-messaging-kafka.ns.orders"
    )
    assert kafka_names.channel_topic("{namespace}.{name}", "ns", "orders") == "ns.orders"
    assert kafka_names.dlq_topic("ns.orders") == "ns.orders.dlq"


def test_internal_names_begin_with_the_instance() -> None:
    internal = (kafka_names.contract_topic("one"), kafka_names.status_topic("one"), kafka_names.controller_group("one"))
    assert internal == ("one.contract", "one.status", "one.controller")
    assert kafka_names.subscription_group("u-1") == "kafka.u-1"


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        ("a" * 245, None),
        ("a" * 246, "TopicNameTooLong"),
        ("ns.orders", None),
        ("ns/orders", "TopicNameInvalid"),
        ("ns.bestellungen-ä", "TopicNameInvalid"),
        ("..", "TopicNameInvalid"),
        ("", "TopicNameInvalid"),
        ("penstock.contract", "TopicNameReserved"),
        ("penstock_contract", "TopicNameReserved"),
        ("penstock-orders", None),
        ("__consumer_offsets", "TopicNameReserved"),
    ],
)
def test_topic_that_kafka_does_not_take_has_a_reason(topic: str, reason: str | None) -> None:
    problem = kafka_names.topic_problem(topic, "penstock")
    assert (problem[0] if problem else None) == reason


@pytest.mark.parametrize(
    ("template", "fine"),
    [
        (kafka_names.CHANNEL_TOPIC_TEMPLATE, True),
        ("{namespace}.{name}", True),
        ("{name}", False),
        ("fixed", False),
        ("{namespace}.{name}.{name}", False),
        ("{namespace}/{name}", False),
        ("{namespace}.{name}.{uid}", False),
        ("{namespace.x}.{name}", False),
        ("{namespace}.{name", False),
    ],
)
def test_template_that_is_not_valid_has_a_problem(template: str, fine: bool) -> None:
    assert (kafka_names.template_problem(template) is None) is fine


@pytest.mark.parametrize(
    ("instance", "fine"), [("penstock", True), ("a", True), ("A", False), ("", False), ("a.b", False)]
)
def test_instance_that_is_not_valid_has_a_problem(instance: str, fine: bool) -> None:
    assert (kafka_names.instance_problem(instance) is None) is fine


def test_kafka_takes_dot_and_underscore_for_one() -> None:
    assert kafka_names.collision_key("a.b_c") == kafka_names.collision_key("a_b.c")
    assert kafka_names.collision_key("a-b") != kafka_names.collision_key("a.b")
