"""Tables of reconcile: objects and a world in, actions and conditions out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.plan.actions import (
    AddPartitions,
    AlterTopicConfig,
    ClusterView,
    CommitStart,
    CreateTopic,
    GroupState,
    MakeRoom,
    ObservedTopic,
    PublishChannel,
    PublishSubscription,
)
from knative.delivery.policy import Addressable, DeliverySpec
from knative.resources.conditions import ConditionStatus
from knative.resources.destination import Destination, Ref
from knative.resources.values import DeliveryRules, Start, Subscriber
from tests.unit.controller.worlds import CONFIG, NOW, TOPIC, Kafka, channel, condition, message, names_of, serving
from tests.unit.controller.worlds import subscription as sub

REF = Destination(ref=Ref("serving.knative.dev/v1", "Service", "", "not-known-here"))


def test_new_channel_and_subscription_in_the_right_order() -> None:
    kafka = Kafka()
    done = kafka.settle(channel(partitions=2), sub())
    assert names_of(done) == ["CreateTopic", "CreateTopic", "PublishChannel", "CommitStart", "PublishSubscription"]
    assert [action.topic for action in done if isinstance(action, CreateTopic)] == [TOPIC, f"{TOPIC}.dlq"]
    assert CommitStart("kafka.s-billing", TOPIC, (0, 1), Start.LATEST) in done
    record = kafka.world.subscriptions["s-billing"]
    assert (record.partitions, record.dlq_topic, record.channel_uid) == (2, f"{TOPIC}.dlq", "c-orders")
    assert record.delivery == CONFIG.default_delivery


def test_limits_and_retention_of_topics() -> None:
    first, second = Kafka().decide(channel(retention_s=60.0))
    assert isinstance(first, CreateTopic)
    assert isinstance(second, CreateTopic)
    assert dict(first.configs)["max.message.bytes"] == str(1024 * 1024 + 256 * 1024)
    assert dict(first.configs)["retention.ms"] == "60000"
    assert dict(second.configs)["max.message.bytes"] == str(1024 * 1024 + 512 * 1024)
    assert dict(second.configs)["retention.ms"] == str(30 * 86_400_000)


def test_kafka_that_refuses_room_for_large_events_serves_the_topic_all_the_same() -> None:
    kafka = Kafka()
    kafka.settle(channel())
    small = {**kafka.topics[TOPIC].configs, "max.message.bytes": "1048588"}
    kafka.topics[TOPIC] = replace(kafka.topics[TOPIC], configs=small)
    room = MakeRoom(TOPIC, (("max.message.bytes", str(1024 * 1024 + 256 * 1024)),))
    assert kafka.decide(channel()) == [room]
    status = kafka.statuses(channel(), failures={f"room in topic {TOPIC}": "POLICY_VIOLATION"})["orders"]
    assert condition(status, "TopicReady") == (ConditionStatus.TRUE, "TopicDiffers")
    assert f"topic '{TOPIC}' has max.message.bytes 1048588" in message(status, "TopicReady")
    assert "POLICY_VIOLATION" in message(status, "TopicReady")
    assert condition(status) == (ConditionStatus.TRUE, "TopicDiffers")


def test_nothing_is_published_before_every_partition_has_its_start() -> None:
    kafka = Kafka()
    kafka.settle(channel(partitions=3))
    kafka.committed["kafka.s-billing"] = {0, 2}
    assert kafka.decide(channel(partitions=3), sub(start=Start.EARLIEST)) == [
        CommitStart("kafka.s-billing", TOPIC, (1,), Start.EARLIEST)
    ]
    status = kafka.statuses(channel(partitions=3), sub())["billing"]
    assert condition(status, "AddedToChannel") == (ConditionStatus.UNKNOWN, "StartBeingCommitted")
    failed = kafka.statuses(channel(partitions=3), sub(), failures={"group kafka.s-billing": "no right"})["billing"]
    assert condition(failed, "AddedToChannel") == (ConditionStatus.FALSE, "StartNotCommitted")
    kafka.committed["kafka.s-billing"] = {0, 1, 2}
    assert names_of(kafka.decide(channel(partitions=3), sub())) == ["PublishSubscription"]


def test_recreated_topic_is_reported_until_the_subscription_is_recreated() -> None:
    kafka = Kafka()
    kafka.settle(channel(), sub())
    began_with = kafka.world.subscriptions["s-billing"].topic_id
    assert began_with == kafka.topics[TOPIC].id != ""
    del kafka.topics[TOPIC]
    assert names_of(kafka.settle(channel(), sub())) == ["CreateTopic"]  # the record keeps the id that it began with
    status = kafka.statuses(channel(), sub())["billing"]
    assert condition(status, "AddedToChannel") == (ConditionStatus.FALSE, "TopicReplaced")
    assert kafka.topics[TOPIC].id != began_with
    kafka.settle(channel())
    kafka.settle(channel(), sub())
    assert kafka.world.subscriptions["s-billing"].topic_id == kafka.topics[TOPIC].id
    status = kafka.statuses(channel(), sub())["billing"]
    assert condition(status, "AddedToChannel") == (ConditionStatus.TRUE, "")


def test_subscription_published_without_a_topic_id_gets_it_later() -> None:
    kafka = Kafka()
    kafka.settle(channel(), sub())
    published = kafka.world.subscriptions["s-billing"]
    kafka.world = replace(kafka.world, subscriptions={published.uid: replace(published, topic_id="")})
    assert kafka.decide(channel(), sub()) == [PublishSubscription(published)]


def test_raised_partitions_are_added_to_both_topics_then_published() -> None:
    kafka = Kafka()
    kafka.settle(channel(partitions=2), sub())
    wish = channel(generation=2, partitions=5)
    assert kafka.decide(wish, sub()) == [AddPartitions(TOPIC, 5), AddPartitions(f"{TOPIC}.dlq", 5)]
    assert condition(kafka.statuses(wish, sub())["orders"], "TopicReady") == (
        ConditionStatus.UNKNOWN,
        "PartitionsBeingRaised",
    )
    done = kafka.settle(wish, sub())
    assert names_of(done) == ["AddPartitions", "AddPartitions", "PublishChannel", "PublishSubscription"]
    assert kafka.world.subscriptions["s-billing"].partitions == 5


def test_fewer_partitions_are_rejected_with_a_reason() -> None:
    kafka = Kafka()
    kafka.settle(channel(partitions=5))
    done = kafka.settle(channel(generation=2, partitions=2))
    assert names_of(done) == ["PublishChannel"]
    assert kafka.world.channels["c-orders"].partitions == 5
    status = kafka.statuses(channel(generation=2, partitions=2))["orders"]
    assert condition(status, "TopicReady") == (ConditionStatus.TRUE, "TopicDiffers")
    assert "cannot remove partitions" in message(status, "TopicReady")
    assert condition(status) == (ConditionStatus.TRUE, "TopicDiffers"), "said where people look"
    assert message(status) == message(status, "TopicReady")


def test_existing_topic_is_adopted_and_its_differences_reported() -> None:
    kafka = Kafka({TOPIC: ObservedTopic(7, 2, {"retention.ms": "1"})})
    done = kafka.settle(channel(partitions=3, replication=1))
    assert names_of(done) == ["AlterTopicConfig", "MakeRoom", "CreateTopic", "PublishChannel"]
    assert [action.partitions for action in done if isinstance(action, CreateTopic)] == [7]
    assert kafka.world.channels["c-orders"].partitions == 7
    reported = message(kafka.statuses(channel(partitions=3))["orders"], "TopicReady")
    assert "7 partitions" in reported
    assert "replication factor 2" in reported


def test_retention_is_kept_in_step() -> None:
    kafka = Kafka()
    kafka.settle(channel())
    assert kafka.decide(channel(retention_s=5.0))[0] == AlterTopicConfig(TOPIC, (("retention.ms", "5000"),))


def test_published_channel_keeps_its_recorded_topic() -> None:
    kafka = Kafka()
    kafka.settle(channel())
    record = replace(kafka.world.channels["c-orders"], topic="old.orders", dlq_topic="old.orders.dlq")
    kafka.act(PublishChannel(record))
    kafka.settle(channel())
    assert kafka.world.channels["c-orders"].topic == "old.orders"


@pytest.mark.parametrize(
    ("first", "second", "loser"),
    [
        ("orders", "orders.dlq", "orders.dlq"),
        ("a.dlq", "a", "a.dlq"),  # by name when neither is published
    ],
)
def test_two_channels_never_share_a_topic(first: str, second: str, loser: str) -> None:
    kafka = Kafka()
    both = channel(first), channel(second)
    kafka.settle(*both)
    assert {record.name for record in kafka.world.channels.values()} == {first, second} - {loser}
    status = kafka.statuses(*both)[loser]
    assert condition(status) == (ConditionStatus.FALSE, "TopicConflict")
    assert "belongs to KafkaChannel default/" in message(status)


def test_who_has_a_topic_keeps_it() -> None:
    kafka = Kafka()
    kafka.settle(channel("a.dlq"))
    kafka.settle(channel("a"), channel("a.dlq"))
    assert list(kafka.world.channels) == ["c-a.dlq"]


def test_name_that_is_too_long() -> None:
    long = channel("x" * 230)
    assert Kafka().decide(long) == []
    assert condition(Kafka().statuses(long)["x" * 230]) == (ConditionStatus.FALSE, "TopicNameTooLong")


def test_host_that_two_claim_belongs_to_neither_until_one_gives_it_up() -> None:
    kafka = Kafka()
    first, second = channel("one", hosts=("shop.example",)), channel("two", hosts=("shop.example", "two.example"))
    kafka.settle(first)
    assert "shop.example" in kafka.world.channels["c-one"].hosts
    kafka.settle(first, second)
    addresses = {name: hosts_of(kafka, name) for name in ("one", "two")}
    assert addresses == {"one": set(), "two": {"two.example"}}
    for name, other in (("one", "two"), ("two", "one")):
        status = kafka.statuses(first, second)[name]
        assert condition(status, "Addressable") == (ConditionStatus.FALSE, "HostTaken")
        assert f"'shop.example' is also claimed by KafkaChannel default/{other}" in message(status, "Addressable")
    kafka.settle(channel("one", generation=2), second)
    assert hosts_of(kafka, "two") == {"shop.example", "two.example"}
    assert condition(kafka.statuses(first, second)["one"], "Addressable") == (ConditionStatus.FALSE, "HostTaken")


def hosts_of(kafka: Kafka, name: str) -> set[str]:
    """The published hosts of a channel, without its own cluster host names."""
    own = f"{name}-kn-channel.default.svc"
    return set(kafka.world.channels[f"c-{name}"].hosts) - {own, f"{own}.cluster.local"}


@pytest.mark.parametrize("domain", ["", ".cluster.local", ".other.domain"])
def test_address_of_a_channel_is_that_channels_whoever_claims_it(domain: str) -> None:
    kafka = Kafka()
    thief = channel("one", hosts=(f"two-kn-channel.default.svc{domain}",))
    kafka.settle(thief)
    assert hosts_of(kafka, "one") == {f"two-kn-channel.default.svc{domain}"}
    kafka.settle(thief, channel("two"))
    assert hosts_of(kafka, "one") == set()
    assert "two-kn-channel.default.svc" in kafka.world.channels["c-two"].hosts
    statuses = kafka.statuses(thief, channel("two"))
    assert condition(statuses["two"], "Addressable") == (ConditionStatus.TRUE, "")
    assert condition(statuses["one"], "Addressable") == (ConditionStatus.FALSE, "HostTaken")
    assert "belongs to KafkaChannel default/two" in message(statuses["one"], "Addressable")


def test_in_a_cluster_a_service_name_belongs_to_its_namespace() -> None:
    claims = channel(hosts=("mine.default.svc.cluster.local", "theirs.shop.svc", "a.example"))
    kafka = Kafka()
    kafka.settle(claims, cluster=ClusterView())
    assert hosts_of(kafka, "orders") == {"mine.default.svc.cluster.local", "a.example"}
    status = kafka.statuses(claims, cluster=ClusterView())["orders"]
    assert condition(status, "Addressable") == (ConditionStatus.FALSE, "HostTaken")
    assert "'theirs.shop.svc' is the host name of a Service in the namespace 'shop'" in message(status, "Addressable")
    in_files = Kafka()
    in_files.settle(claims)
    assert hosts_of(in_files, "orders") == {"mine.default.svc.cluster.local", "theirs.shop.svc", "a.example"}


def test_without_its_channel_a_subscription_is_not_published() -> None:
    kafka = Kafka()
    assert kafka.settle(sub()) == []
    status = kafka.statuses(sub())["billing"]
    assert condition(status) == (ConditionStatus.FALSE, "ChannelNotFound")
    assert "default/orders" in message(status)


def test_edit_that_cannot_be_served_leaves_the_old_state() -> None:
    kafka = Kafka()
    kafka.settle(channel(), channel("stock"), sub())
    before = kafka.world.subscriptions["s-billing"]
    for edited in (sub(generation=2, subscriber=REF), sub(to="stock", generation=2)):
        assert kafka.settle(channel(), channel("stock"), edited) == []
        assert kafka.world.subscriptions["s-billing"] == before
    status = kafka.statuses(channel(), channel("stock"), sub(to="stock", generation=2))["billing"]
    assert condition(status) == (ConditionStatus.FALSE, "ChannelImmutable")


OWN = DeliveryRules(retry=1)
SINK = DeliveryRules(dead_letter_sink=Destination(uri="http://own-sink/"))
CHANNEL_SINK = Addressable("http://channel-sink/")
CHANNELS = DeliveryRules(retry=5, timeout_s=7.0, dead_letter_sink=Destination(uri="http://channel-sink/"))


@pytest.mark.parametrize(
    ("own", "channels", "expected"),
    [
        (None, None, CONFIG.default_delivery),
        (OWN, None, DeliverySpec(retry=1)),
        (None, CHANNELS, DeliverySpec(retry=5, timeout_s=7.0, dead_letter_sink=CHANNEL_SINK)),
        (OWN, CHANNELS, DeliverySpec(retry=1, dead_letter_sink=CHANNEL_SINK)),
        (SINK, CHANNELS, DeliverySpec(dead_letter_sink=Addressable("http://own-sink/"))),
    ],
)
def test_delivery_of_the_subscription_takes_precedence(
    own: DeliveryRules | None, channels: DeliveryRules | None, expected: DeliverySpec
) -> None:
    kafka = Kafka()
    kafka.settle(channel(delivery=channels), sub(delivery=own))
    record = kafka.world.subscriptions["s-billing"]
    assert record.delivery == expected
    assert ("deadLetterSink" in record.delivery_inherited) == (expected.dead_letter_sink == CHANNEL_SINK)
    body = kafka.statuses(channel(delivery=channels), sub(delivery=own))["billing"].body
    sink = expected.dead_letter_sink
    assert body["physicalSubscription"]["deadLetterSinkUri"] == (sink.uri if sink else "")


def test_entries_of_a_channel_are_served_with_the_identity_they_bring() -> None:
    entry = Subscriber("u1", "core", 3, Destination(uri="http://a/"))
    kafka = Kafka()
    kafka.settle(channel(subscribers=(entry,)))
    record = kafka.world.subscriptions["u1"]
    assert (record.group, record.generation, record.name) == ("kafka.u1", 3, "core")
    assert list(kafka.statuses(channel(subscribers=(entry,)))) == ["orders"]
    kafka.settle(channel(generation=2))
    assert not kafka.world.subscriptions


def test_ready_only_when_workers_own_every_partition() -> None:
    kafka = Kafka()
    objects = channel(partitions=2), sub()
    kafka.settle(*objects)
    record = kafka.world.subscriptions["s-billing"]
    served = kafka.statuses(*objects, workers=serving(record))
    assert condition(served["billing"]) == (ConditionStatus.TRUE, "")
    assert condition(served["orders"]) == (ConditionStatus.TRUE, "")
    assert served["orders"].body["subscribers"] == [{"uid": "s-billing", "observedGeneration": 1, "ready": "True"}]
    assert served["orders"].body["address"]["url"] == "http://orders-kn-channel.default.svc.cluster.local"
    for workers in ({}, serving(record, time=NOW - 60), serving(replace(record, partitions=1))):
        unserved = kafka.statuses(*objects, workers=workers)
        assert condition(unserved["billing"], "ChannelReady") == (ConditionStatus.UNKNOWN, "SubscriberNotServed")
        assert condition(unserved["orders"], "SubscribersReady") == (ConditionStatus.UNKNOWN, "SubscriberNotServed")


def test_dead_letter_sink_of_a_channel() -> None:
    uri = channel(delivery=CHANNELS)
    status = Kafka().statuses(uri)["orders"]
    assert status.body["deadLetterSinkUri"] == "http://channel-sink/"
    assert condition(Kafka().statuses(channel())["orders"], "DeadLetterSinkResolved") == (
        ConditionStatus.TRUE,
        "DeadLetterTopicUsed",
    )


def test_failures_are_reported_at_their_object() -> None:
    kafka = Kafka()
    refused = kafka.statuses(channel(), failures={f"topic {TOPIC}": "not allowed"})["orders"]
    assert (condition(refused), message(refused)) == ((ConditionStatus.FALSE, "KafkaRefused"), "not allowed")
    kafka.settle(channel())
    unwritten = kafka.statuses(channel(generation=2), failures={"contract c-orders": "away"})["orders"]
    assert condition(unwritten, "ContractPublished") == (ConditionStatus.FALSE, "ContractNotWritten")


def test_held_channel_keeps_its_subscriptions() -> None:
    kafka = Kafka()
    kafka.settle(channel(), sub())
    before = kafka.world
    assert kafka.settle(sub(generation=2), retained=frozenset({"c-orders"})) == []
    assert (kafka.world.channels, kafka.world.subscriptions) == (before.channels, before.subscriptions)
    status = kafka.statuses(sub(), retained=frozenset({"c-orders"}))["billing"]
    assert condition(status, "ReferencesResolved") == (ConditionStatus.UNKNOWN, "ChannelFileUnreadable")
    assert kafka.settle(retained=frozenset({"c-orders", "s-billing"})) == []


def test_settled_world_stays_as_it_is() -> None:
    kafka = Kafka()
    objects = channel(partitions=2, delivery=CHANNELS), channel("stock"), sub(), sub("audit", "stock", delivery=OWN)
    kafka.settle(*objects)
    assert kafka.decide(*objects) == []
    assert all(state is GroupState.EMPTY for state in kafka.groups.values())
    assert isinstance(kafka.done[-1], PublishSubscription)
