"""Tables of reconcile for Triggers, and the conditions of Triggers and Brokers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.plan.actions import (
    AnyObject,
    CommitStart,
    ObservedTopic,
    PublishChannel,
    PublishSubscription,
)
from knative.contract.records import WorkerState, WorkerStatus, WorkerSubscription
from knative.delivery.policy import Addressable, DeliveryOrder, DeliverySpec
from knative.filters.dialects import Cesql
from knative.resources.conditions import ConditionStatus
from knative.resources.destination import Destination, Ref
from knative.resources.values import DeliveryRules, Start, StartTime
from tests.unit.controller.worlds import (
    BROKER_DLQ,
    BROKER_TOPIC,
    CONFIG,
    CONFIG_REF,
    FALSE,
    NOW,
    NOWHERE,
    TRUE,
    UNKNOWN,
    broker,
    condition,
    config_map,
    kafka_with_ingress,
    message,
    names_of,
    serving,
    settled_kafka,
    trigger,
)

# -- triggers and their broker


def test_trigger_before_its_broker() -> None:
    kafka = kafka_with_ingress()
    assert kafka.settle(trigger()) == []
    status = kafka.status(trigger())
    assert condition(status) == condition(status, "BrokerReady") == (FALSE, "BrokerNotFound")
    assert message(status) == "there is no Broker default/main; create it, or correct spec.broker"
    assert condition(status, "Subscribed") == (UNKNOWN, "BrokerNotFound")
    kafka.settle(trigger(), broker())
    record = kafka.world.subscriptions["t-billing"]
    ready = kafka.status(trigger(), broker(), workers=serving(record))
    assert condition(ready) == (TRUE, "")


def test_triggers_of_a_deleted_broker_are_removed_with_their_groups_before_its_topics() -> None:
    kafka = settled_kafka()
    done = kafka.settle(trigger())
    assert names_of(done) == [
        *("Remember", "Remember", "Retract", "Retract"),
        *("DeleteGroup", "DeleteTopic", "DeleteTopic", "Forget", "Forget"),
    ]
    assert not kafka.topics
    assert not kafka.groups
    assert condition(kafka.status(trigger()), "BrokerReady") == (FALSE, "BrokerNotFound")
    again = kafka.settle(trigger(), broker(uid="b-again"))
    assert names_of(again)[-2:] == ["CommitStart", "PublishSubscription"]


def test_broker_that_was_replaced_gets_its_triggers_again() -> None:
    kafka = settled_kafka()
    other = broker(uid="b-again")
    replaced = kafka.status(trigger(), other)
    assert condition(replaced, "BrokerReady") == (UNKNOWN, "BrokerReplaced")
    kafka.settle(other, trigger())
    assert kafka.world.subscriptions["t-billing"].channel_uid == "b-again"


def test_broker_of_a_published_trigger_cannot_be_changed() -> None:
    kafka = settled_kafka(broker(), broker("other"), trigger())
    before = kafka.world.subscriptions["t-billing"]
    moved = trigger(to="other", generation=2)
    assert kafka.settle(broker(), broker("other"), moved) == []
    assert kafka.world.subscriptions["t-billing"] == before
    status = kafka.status(moved, broker(), broker("other"))
    assert condition(status, "BrokerReady") == (FALSE, "BrokerImmutable")
    assert "spec.broker cannot be changed from 'main' to 'other'" in message(status)


def test_retained_broker_keeps_its_triggers() -> None:
    kafka = settled_kafka()
    before = kafka.world
    assert kafka.settle(trigger(generation=2), retained=frozenset({"b-main"})) == []
    assert (kafka.world.channels, kafka.world.subscriptions) == (before.channels, before.subscriptions)
    status = kafka.status(trigger(), retained=frozenset({"b-main"}))
    assert condition(status, "BrokerReady") == (UNKNOWN, "BrokerFileUnreadable")


@pytest.mark.parametrize("start", [Start.LATEST, Start.EARLIEST, StartTime(5, "1970-01-01T00:00:00.005Z")])
def test_start_of_a_trigger(start: Start | StartTime) -> None:
    kafka = kafka_with_ingress()
    settings = config_map(partitions="2")
    done = kafka.settle(broker(config=CONFIG_REF), settings, trigger(start=start))
    assert CommitStart("kafka.t-billing", BROKER_TOPIC, (0, 1), start) in done


def test_changed_filter_is_published_and_nothing_else_happens() -> None:
    kafka = settled_kafka()
    changed = trigger(generation=2, filter=Cesql("a = 'b'"))
    (done,) = kafka.settle(broker(), changed)
    assert isinstance(done, PublishSubscription)
    assert (done.subscription.generation, done.subscription.filter) == (2, Cesql("a = 'b'"))


# -- what a trigger takes from its broker


ORDERED, KEYS, ANY = DeliveryOrder.ORDERED, DeliveryOrder.KEY_ORDERED, DeliveryOrder.UNORDERED


@pytest.mark.parametrize(
    ("own", "brokers", "order"),
    [(None, None, KEYS), (None, ORDERED, ORDERED), (ANY, ORDERED, ANY), (ANY, None, ANY), (KEYS, ORDERED, KEYS)],
)
def test_order_of_the_trigger_then_of_the_broker(
    own: DeliveryOrder | None, brokers: DeliveryOrder | None, order: DeliveryOrder
) -> None:
    kafka = settled_kafka(broker(order=brokers), trigger(order=own))
    assert kafka.world.subscriptions["t-billing"].order is order


@pytest.mark.parametrize(("own", "brokers", "most"), [(None, None, 100), (None, 7, 7), (3, 7, 3), (3, None, 3)])
def test_concurrency_of_the_trigger_then_of_the_broker(own: int | None, brokers: int | None, most: int) -> None:
    kafka = settled_kafka(broker(concurrency=brokers), trigger(concurrency=own))
    assert kafka.world.subscriptions["t-billing"].concurrency == most


def test_change_of_the_broker_reaches_its_triggers() -> None:
    kafka = settled_kafka()
    done = kafka.settle(broker(generation=2, order=ORDERED), trigger())
    assert names_of(done) == ["PublishChannel", "PublishSubscription"]
    assert kafka.world.subscriptions["t-billing"].order is ORDERED


OWN = DeliveryRules(retry=1)
SINK = DeliveryRules(retry=2, dead_letter_sink=Destination(uri="http://own-sink/"))
SLOW = DeliveryRules(timeout_s=30.0)
ONCE = DeliveryRules(retry=0)
BROKER_SINK = Addressable("http://broker-sink/")
BROKERS = DeliveryRules(retry=5, timeout_s=7.0, dead_letter_sink=Destination(uri="http://broker-sink/"))


@pytest.mark.parametrize(
    ("own", "brokers", "expected"),
    [
        (None, None, CONFIG.default_delivery),
        (OWN, None, DeliverySpec(retry=1)),
        (None, BROKERS, DeliverySpec(retry=5, timeout_s=7.0, dead_letter_sink=BROKER_SINK)),
        (OWN, BROKERS, DeliverySpec(retry=1, timeout_s=7.0, dead_letter_sink=BROKER_SINK)),
        (SINK, BROKERS, DeliverySpec(retry=2, timeout_s=7.0, dead_letter_sink=Addressable("http://own-sink/"))),
        (SLOW, BROKERS, DeliverySpec(retry=5, timeout_s=30.0, dead_letter_sink=BROKER_SINK)),
        (ONCE, BROKERS, DeliverySpec(retry=0, timeout_s=7.0, dead_letter_sink=BROKER_SINK)),
    ],
)
def test_delivery_of_a_trigger_comes_before_that_of_its_broker_field_by_field(
    own: DeliveryRules | None, brokers: DeliveryRules | None, expected: DeliverySpec
) -> None:
    kafka = settled_kafka(broker(delivery=brokers), trigger(delivery=own))
    assert kafka.world.subscriptions["t-billing"].delivery == expected
    body = kafka.status(trigger(delivery=own), broker(delivery=brokers)).body
    sink = expected.dead_letter_sink
    assert body["deadLetterSinkUri"] == (sink.uri if sink else "")


def test_contract_says_where_each_field_comes_from() -> None:
    kafka = settled_kafka(broker(delivery=BROKERS), trigger(delivery=OWN))
    record = kafka.world.subscriptions["t-billing"]
    assert (record.delivery_own, record.delivery_inherited) == (("retry",), ("timeout", "deadLetterSink"))
    kafka = settled_kafka(broker(order=ORDERED, concurrency=7), trigger(concurrency=3))
    record = kafka.world.subscriptions["t-billing"]
    assert (record.delivery_own, record.delivery_inherited) == (("concurrency",), ("order",))


def test_trigger_with_a_sink_of_its_own_does_not_need_that_of_its_broker() -> None:
    lost = DeliveryRules(dead_letter_sink=NOWHERE)
    kafka = settled_kafka(broker(delivery=lost), trigger(delivery=SINK))
    assert kafka.world.subscriptions["t-billing"].delivery.dead_letter_sink == Addressable("http://own-sink/")
    own = trigger(delivery=OWN)
    kafka = settled_kafka(broker(delivery=lost), own)
    assert not kafka.world.subscriptions
    status = kafka.status(own, broker(delivery=lost))
    assert condition(status, "DeadLetterSinkResolved") == (FALSE, "DeadLetterSinkNotResolved")
    assert "the broker's spec.delivery.deadLetterSink" in message(status, "DeadLetterSinkResolved")


# -- statuses


def test_conditions_of_a_broker() -> None:
    kafka = settled_kafka()
    status = kafka.status(broker(), trigger())
    parts = ["Ready", "TopicReady", "ContractPublished", "Addressable", "DeadLetterSinkResolved"]
    assert [entry.type for entry in status.conditions] == parts
    assert condition(status) == (TRUE, ""), "its triggers do not count"
    assert status.body["annotations"] == {
        "penstock.dev/topic": BROKER_TOPIC,
        "penstock.dev/dead-letter-topic": BROKER_DLQ,
        "penstock.dev/path": "/default/main",
    }
    assert condition(status, "DeadLetterSinkResolved") == (TRUE, "DeadLetterTopicUsed")
    lost = broker(delivery=DeliveryRules(dead_letter_sink=NOWHERE))
    assert condition(kafka.status(lost)) == (FALSE, "DeadLetterSinkNotResolved")
    unborn = kafka_with_ingress().status(broker())
    assert condition(unborn, "TopicReady") == (UNKNOWN, "TopicBeingCreated")
    assert condition(unborn, "ContractPublished") == (UNKNOWN, "TopicBeingCreated")
    assert condition(unborn, "Addressable") == (UNKNOWN, "TopicBeingCreated")
    unwritten = kafka.status(broker(generation=2), failures={"contract b-main": "away"})
    assert condition(unwritten, "ContractPublished") == (FALSE, "ContractNotWritten")
    refused = kafka_with_ingress().status(broker(), failures={f"topic {BROKER_TOPIC}": "not allowed"})
    assert condition(refused, "TopicReady") == (FALSE, "KafkaRefused")
    both = broker("a", hosts=("h.example",)), broker("b", hosts=("h.example",))
    taken = settled_kafka(*both).status(both[1], both[0])
    assert condition(taken, "Addressable") == (FALSE, "HostTaken")


def test_trigger_that_is_ready_says_where_its_events_go() -> None:
    kafka = settled_kafka()
    status = kafka.status(trigger(), broker(), workers=serving(kafka.world.subscriptions["t-billing"]))
    parts = ["Ready", "BrokerReady", "SubscriberResolved", "DeadLetterSinkResolved", "Subscribed", "DependencyReady"]
    assert [(entry.type, entry.status) for entry in status.conditions] == [(part, TRUE) for part in parts]
    assert status.body == {
        "subscriberUri": "http://billing/",
        "deadLetterSinkUri": "",
        "annotations": {"penstock.dev/group": "kafka.t-billing"},
    }


WAITS = Destination(ref=Ref("eventing.knative.dev/v1", "Broker", "", "later"))
LATER = broker("later", external_topic="missing")


@pytest.mark.parametrize(
    ("resource", "part", "expected"),
    [
        (trigger(to="nowhere"), "BrokerReady", (FALSE, "BrokerNotFound")),
        (trigger(to="later"), "BrokerReady", (FALSE, "TopicNotFound")),
        (trigger(subscriber=NOWHERE), "SubscriberResolved", (FALSE, "SubscriberNotResolved")),
        (trigger(subscriber=WAITS), "SubscriberResolved", (UNKNOWN, "SubscriberNotResolved")),
        (
            trigger(delivery=DeliveryRules(dead_letter_sink=NOWHERE)),
            "DeadLetterSinkResolved",
            (FALSE, "DeadLetterSinkNotResolved"),
        ),
        (
            trigger(delivery=DeliveryRules(dead_letter_sink=WAITS)),
            "DeadLetterSinkResolved",
            (UNKNOWN, "DeadLetterSinkNotResolved"),
        ),
    ],
)
def test_what_keeps_a_trigger_from_being_served(
    resource: AnyObject, part: str, expected: tuple[ConditionStatus, str]
) -> None:
    kafka = settled_kafka(broker(), LATER, resource)
    assert not kafka.world.subscriptions
    status = kafka.status(resource, broker(), LATER)
    assert condition(status) == condition(status, part) == expected
    good = {"BrokerReady", "SubscriberResolved", "DeadLetterSinkResolved", "DependencyReady"} - {part}
    assert {condition(status, each) for each in good} == {(TRUE, "")}
    assert condition(status, "Subscribed")[0] is UNKNOWN
    assert "subscriberUri" not in status.body


def test_edit_that_cannot_be_served_leaves_the_old_state() -> None:
    kafka = settled_kafka()
    before = kafka.world.subscriptions["t-billing"]
    edited = trigger(generation=2, subscriber=NOWHERE)
    assert kafka.settle(broker(), edited) == []
    assert kafka.world.subscriptions["t-billing"] == before
    status = kafka.status(edited, broker(), workers=serving(before))
    assert condition(status, "SubscriberResolved") == (FALSE, "SubscriberNotResolved")
    assert condition(status, "Subscribed") == (UNKNOWN, "SubscriberNotResolved")
    assert "generation 1 is still served" in message(status, "Subscribed")


def test_broker_that_is_not_published_yet() -> None:
    kafka = kafka_with_ingress()
    kafka.topics.update({BROKER_TOPIC: ObservedTopic(10, 1), BROKER_DLQ: ObservedTopic(10, 1)})
    status = kafka.status(trigger(), broker())
    assert condition(status, "BrokerReady") == (UNKNOWN, "BeingPublished")


def test_subscribed_is_what_workers_say() -> None:
    kafka = settled_kafka()
    record = kafka.world.subscriptions["t-billing"]
    for workers in ({}, serving(record, time=NOW - 60), serving(replace(record, partitions=1))):
        status = kafka.status(trigger(), broker(), workers=workers)
        assert condition(status) == condition(status, "Subscribed") == (UNKNOWN, "SubscriberNotServed")
    failed = WorkerSubscription(1, tuple(range(10)), WorkerState.FAILED, "no right to read")
    status = kafka.status(trigger(), broker(), workers={"w": WorkerStatus("w", NOW, "all", {"t-billing": failed})})
    assert condition(status, "Subscribed")[0] is FALSE
    unwritten = kafka.status(trigger(generation=2), broker(), failures={"contract t-billing": "away"})
    assert condition(unwritten, "Subscribed") == (FALSE, "ContractNotWritten")


def test_start_of_a_trigger_is_committed_before_it_is_published() -> None:
    kafka = settled_kafka(broker())
    assert condition(kafka.status(trigger(), broker()), "Subscribed") == (UNKNOWN, "StartBeingCommitted")
    failed = kafka.status(trigger(), broker(), failures={"group kafka.t-billing": "no right"})
    assert condition(failed, "Subscribed") == (FALSE, "StartNotCommitted")


def test_topic_that_was_deleted_and_created_again_is_reported() -> None:
    kafka = settled_kafka()
    del kafka.topics[BROKER_TOPIC]
    kafka.settle(broker(), trigger())
    status = kafka.status(trigger(), broker())
    assert condition(status, "Subscribed") == (FALSE, "TopicReplaced")
    assert "delete the Trigger and add it again" in message(status, "Subscribed")


def test_dependency_is_not_known_without_a_cluster_and_events_are_delivered_all_the_same() -> None:
    dependent = trigger(dependency="PingSource shop/tick")
    kafka = settled_kafka(broker(), dependent)
    record = kafka.world.subscriptions["t-billing"]
    status = kafka.status(dependent, broker(), workers=serving(record))
    assert condition(status) == condition(status, "DependencyReady") == (UNKNOWN, "DependencyNotChecked")
    assert "PingSource shop/tick" in message(status)
    assert condition(status, "Subscribed") == (TRUE, "")


def test_published_brokers_keep_their_recorded_topic_when_the_template_changes() -> None:
    kafka = settled_kafka()
    kafka.config = replace(kafka.config, broker_template="new.{namespace}.{name}")
    assert kafka.settle(broker(), trigger()) == []
    assert not [
        action for action in kafka.done if isinstance(action, PublishChannel) and action.channel.topic != BROKER_TOPIC
    ]
