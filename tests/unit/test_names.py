"""Names in Kafka: templates, Kafka's own rules, and what belongs to the installation."""

from __future__ import annotations

import pytest

from knative import names


def test_a_channel_has_the_topic_of_its_template() -> None:
    assert names.channel_topic(names.CHANNEL_TOPIC_TEMPLATE, "ns", "orders") == "knative-messaging-kafka.ns.orders"
    assert names.channel_topic("{namespace}.{name}", "ns", "orders") == "ns.orders"
    assert names.dlq_topic("ns.orders") == "ns.orders.dlq"


def test_internal_names_begin_with_the_instance() -> None:
    internal = (names.contract_topic("one"), names.status_topic("one"), names.controller_group("one"))
    assert internal == ("one.contract", "one.status", "one.controller")
    assert names.subscription_group("u-1") == "kafka.u-1"


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
def test_legality(topic: str, reason: str | None) -> None:
    problem = names.topic_problem(topic, "penstock")
    assert (problem[0] if problem else None) == reason


@pytest.mark.parametrize(
    ("template", "fine"),
    [
        (names.CHANNEL_TOPIC_TEMPLATE, True),
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
def test_templates(template: str, fine: bool) -> None:
    assert (names.template_problem(template) is None) is fine


@pytest.mark.parametrize(
    ("instance", "fine"), [("penstock", True), ("a", True), ("A", False), ("", False), ("a.b", False)]
)
def test_instances(instance: str, fine: bool) -> None:
    assert (names.instance_problem(instance) is None) is fine


def test_kafka_takes_dot_and_underscore_for_one() -> None:
    assert names.collision_key("a.b_c") == names.collision_key("a_b.c")
    assert names.collision_key("a-b") != names.collision_key("a.b")
