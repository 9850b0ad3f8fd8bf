"""Brokers beside channels: equal names, and refs to brokers."""

from __future__ import annotations

import pytest

from controller.plan.actions import AnyObject, ClusterView
from knative.delivery.policy import Addressable
from knative.resources.conditions import ConditionStatus
from knative.resources.destination import Destination, Ref
from knative.resources.values import DeliveryRules, Subscriber
from tests.unit.controller.worlds import (
    FALSE,
    INGRESS,
    TRUE,
    UNKNOWN,
    Kafka,
    broker,
    channel,
    condition,
    kafka_with_ingress,
    message,
    serving,
    settled_kafka,
    subscription,
    trigger,
)

# -- a broker and a channel of one name


def test_broker_and_a_channel_of_one_name_do_not_mix() -> None:
    kafka = kafka_with_ingress()
    objects = (
        *(broker("orders", hosts=("b.example",)), channel("orders", hosts=("c.example",))),
        *(trigger("billing", "orders"), subscription("billing", "orders")),
    )
    kafka.settle(*objects)
    assert kafka.world.channels["b-orders"].topic == "knative-broker.default.orders"
    assert kafka.world.channels["c-orders"].topic == "knative-messaging-kafka.default.orders"
    of_broker, of_channel = kafka.world.subscriptions["t-billing"], kafka.world.subscriptions["s-billing"]
    assert (of_broker.channel_uid, of_channel.channel_uid) == ("b-orders", "c-orders")
    assert (of_broker.label, of_channel.label) == ("default/trigger:billing", "default/billing")
    workers = serving(of_channel)
    broker_status, channel_status = (
        kafka.status(object_, *_without(objects, object_), workers=workers) for object_ in objects[:2]
    )
    assert broker_status.body["address"]["url"] == f"{INGRESS}/default/orders"
    assert channel_status.body["address"]["url"] == f"{INGRESS}/channels/default/orders"
    assert [row["uid"] for row in channel_status.body["subscribers"]] == ["s-billing"]
    assert "subscribers" not in broker_status.body
    assert condition(channel_status) == (TRUE, "")
    kafka.settle(*(object_ for object_ in objects if object_.uid[0] in "cs"))
    assert set(kafka.world.channels) == {"c-orders"}
    assert set(kafka.world.subscriptions) == {"s-billing"}
    assert set(kafka.topics) == {f"knative-messaging-kafka.default.orders{end}" for end in ("", ".dlq")}


def test_trigger_does_not_read_a_channel_nor_a_subscription_a_broker() -> None:
    kafka = kafka_with_ingress()
    kafka.settle(channel("orders"), broker("main"), trigger("t", "orders"), subscription("s", "main"))
    assert not kafka.world.subscriptions
    statuses = kafka.statuses(channel("orders"), broker("main"), trigger("t", "orders"), subscription("s", "main"))
    assert condition(statuses["t"]) == (FALSE, "BrokerNotFound")
    assert condition(statuses["s"]) == (FALSE, "ChannelNotFound")


def test_trigger_with_the_uid_of_an_entry_of_a_channel_is_served_once() -> None:
    entry = Subscriber("t-billing", "core", 3, Destination(uri="http://a/"))
    kafka = settled_kafka(channel(subscribers=(entry,)), broker(), trigger())
    assert kafka.world.subscriptions["t-billing"].kind == "Trigger"


def _without(objects: tuple[AnyObject, ...], left_out: AnyObject) -> tuple[AnyObject, ...]:
    return tuple(each for each in objects if each is not left_out)


# -- refs to brokers


MAIN = Ref("eventing.knative.dev/v1", "Broker", "", "main")


@pytest.mark.parametrize("uri", ["", "/x"])
def test_ref_to_a_broker_stands_for_its_address(uri: str) -> None:
    target = Destination(uri, MAIN)
    sink = DeliveryRules(dead_letter_sink=target)
    kafka = settled_kafka(
        broker(), broker("other"), trigger(to="other", subscriber=target, delivery=sink), channel(delivery=sink)
    )
    billing = kafka.world.subscriptions["t-billing"]
    address = f"{INGRESS}/default/main" if not uri else f"{INGRESS}/x"
    assert billing.subscriber.uri == address
    assert billing.delivery.dead_letter_sink == Addressable(address)
    assert kafka.status(channel(delivery=sink), broker(), broker("other")).body["deadLetterSinkUri"] == address


@pytest.mark.parametrize(
    ("others", "expected", "words"),
    [
        ((), (FALSE, "SubscriberNotResolved"), "there is no Broker default/main|there is no"),
        ((broker(class_="Other"),), (FALSE, "SubscriberNotResolved"), "is not of class Kafka"),
        ((broker(external_topic="missing"),), (UNKNOWN, "SubscriberNotResolved"), "waiting until"),
        ((channel("main"),), (FALSE, "SubscriberNotResolved"), "there is no"),
    ],
)
def test_ref_to_a_broker_that_has_no_address(
    others: tuple[AnyObject, ...], expected: tuple[ConditionStatus, str], words: str
) -> None:
    kafka = kafka_with_ingress()
    referring = subscription(subscriber=Destination(ref=MAIN))
    kafka.settle(channel(), referring, *others)
    status = kafka.status(referring, channel(), *others)
    assert condition(status, "ReferencesResolved") == expected
    assert any(each in message(status, "ReferencesResolved") for each in words.split("|"))


@pytest.mark.parametrize(("uri", "address"), [("", "http://theirs/ns/main"), ("/x", "http://theirs/x")])
def test_ref_to_a_broker_of_another_class_is_the_address_in_its_status(uri: str, address: str) -> None:
    theirs = broker(class_="Other", address=Addressable("http://theirs/ns/main", "pem"))
    referring = subscription(subscriber=Destination(uri, MAIN), reply=Destination(uri, MAIN))
    kafka = kafka_with_ingress()
    kafka.settle(channel(), referring, theirs, cluster=ClusterView())
    record = kafka.world.subscriptions["s-billing"]
    assert record.subscriber == record.reply == Addressable(address, "pem")
    assert condition(kafka.status(referring, channel(), theirs, cluster=ClusterView()), "ReferencesResolved") == (
        TRUE,
        "",
    )


def test_ref_waits_for_the_address_of_a_broker_of_another_class() -> None:
    objects = channel(), broker(class_="Other")
    referring = subscription(subscriber=Destination(ref=MAIN))
    status = kafka_with_ingress().status(referring, *objects, cluster=ClusterView())
    assert condition(status, "ReferencesResolved") == (UNKNOWN, "SubscriberNotResolved")
    assert "waiting until Broker default/main has an address" in message(status, "ReferencesResolved")


def test_without_an_ingress_url_a_broker_has_no_address() -> None:
    """The host names that channels have in a cluster are not enough: brokers differ by path."""
    kafka = Kafka()
    ref = subscription(subscriber=Destination(ref=MAIN))
    kafka.settle(broker(), channel(), ref)
    status = kafka.status(broker())
    assert condition(status) == condition(status, "Addressable") == (FALSE, "NoAddress")
    assert "PENSTOCK_INGRESS_URL" in message(status)
    assert "address" not in status.body
    assert "b-main" in kafka.world.channels, "it is served all the same"
    assert condition(kafka.status(ref, broker(), channel())) == (FALSE, "SubscriberNotResolved")
    named = broker(generation=2, hosts=("events.example",))
    kafka.settle(named)
    assert condition(kafka.status(named)) == (TRUE, "")
    assert kafka.status(named).body["address"]["url"] == "http://events.example"
