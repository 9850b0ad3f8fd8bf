"""A resource that no file has any more: not served, and all of it stays until a person asks for its removal."""

from __future__ import annotations

from dataclasses import replace

from controller.plan.actions import CommitStart, CreateTopic, PublishChannel, PublishSubscription, World
from knative.resources.conditions import ConditionStatus
from tests.unit.controller.worlds import NOW, TOPIC, Kafka, broker, channel, condition, message, names_of, subscription


def from_files() -> Kafka:
    """A Kafka without anything, whose objects come from a directory."""
    return Kafka(world=World(now=NOW, missing_is_deleted=False))


def served() -> Kafka:
    """The same, with a channel and its subscription."""
    kafka = from_files()
    kafka.settle(channel(), subscription())
    return kafka


def test_nothing_is_deleted_and_what_comes_back_continues() -> None:
    kafka = served()
    before = kafka.world
    assert names_of(kafka.settle()) == ["PublishSubscription", "PublishChannel"]
    assert kafka.world.channels["c-orders"] == replace(before.channels["c-orders"], unlisted=True)
    assert kafka.world.subscriptions["s-billing"] == replace(before.subscriptions["s-billing"], unlisted=True)
    assert set(kafka.topics) == {TOPIC, f"{TOPIC}.dlq"}
    assert set(kafka.groups) == {"kafka.s-billing"}
    back = kafka.settle(channel(), subscription())
    assert names_of(back) == ["PublishChannel", "PublishSubscription"], "no start is committed again"
    assert (kafka.world.channels, kafka.world.subscriptions) == (before.channels, before.subscriptions)


def test_subscription_whose_channel_is_in_no_file_waits_for_it() -> None:
    kafka = served()
    kafka.settle(subscription())
    assert kafka.world.subscriptions["s-billing"].unlisted
    status = kafka.statuses(subscription())
    assert condition(status["billing"]) == (ConditionStatus.FALSE, "ChannelNotFound")
    assert condition(status["orders"]) == (ConditionStatus.FALSE, "NotInFiles")
    kafka.settle(channel(), subscription())
    assert not kafka.world.subscriptions["s-billing"].unlisted


def test_status_says_how_to_go_on() -> None:
    kafka = served()
    for _ in range(2):  # when it is noticed, and afterwards
        status = kafka.statuses()
        assert {name: condition(write_status) for name, write_status in status.items()} == dict.fromkeys(
            ("orders", "billing"), (ConditionStatus.FALSE, "NotInFiles")
        )
        assert "keeps its topics and events" in message(status["orders"])
        assert "`penstock remove Subscription/default/billing`" in message(status["billing"])
        kafka.settle()
    assert kafka.statuses(retained=frozenset({"c-orders", "s-billing"})) == {}, "while it is not known, all stays"


def test_request_removes_it_with_its_group_and_topics() -> None:
    kafka = served()
    kafka.settle()
    done = kafka.settle(asked=frozenset({"c-orders", "s-billing"}))
    assert names_of(done) == [
        *("Remember", "Remember", "Retract", "Retract"),
        *("DeleteGroup", "DeleteTopic", "DeleteTopic", "Forget", "Forget"),
    ]
    assert not kafka.topics
    assert not kafka.groups


def test_request_for_one_that_is_in_a_file_again_removes_nothing() -> None:
    kafka = served()
    kafka.settle()
    kafka.settle(channel(), subscription(), asked=frozenset({"c-orders", "s-billing"}))
    assert set(kafka.world.channels) == {"c-orders"}
    assert set(kafka.topics) == {TOPIC, f"{TOPIC}.dlq"}


def test_hosts_of_an_unlisted_channel_are_free_and_its_topic_is_not() -> None:
    kafka = from_files()
    kafka.settle(channel(hosts=("orders.example",)))
    other = channel("other", hosts=("orders.example",))
    kafka.settle(other)
    assert "orders.example" in kafka.world.channels["c-other"].hosts
    again = channel(uid="c-again")
    assert condition(kafka.statuses(other, again)["orders"])[1] == "TopicConflict"


def test_what_was_created_for_a_channel_whose_file_went_before_it_was_published_stays() -> None:
    kafka = from_files()
    kafka.record(channel())
    for action in kafka.decide(channel()):
        if isinstance(action, CreateTopic):
            kafka.act(action)
    assert kafka.settle(retained=frozenset({"c-orders"})) == []
    assert set(kafka.topics) == {TOPIC, f"{TOPIC}.dlq"}


def test_broker_and_its_topics_stay_too() -> None:
    kafka = from_files()
    kafka.settle(broker())
    topics = set(kafka.topics)
    done = kafka.settle()
    assert [type(action) for action in done] == [PublishChannel]
    assert set(kafka.topics) == topics
    assert not any(isinstance(action, CommitStart | PublishSubscription) for action in kafka.settle(broker()))
