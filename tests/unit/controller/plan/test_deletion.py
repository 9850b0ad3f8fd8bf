"""What happens when an object is gone: noted, retracted, its group, then its topics; and what must stay."""

from __future__ import annotations

from dataclasses import replace

from controller.plan.actions import (
    Action,
    CancelRemoval,
    CommitStart,
    CreateTopic,
    DeleteTopic,
    Forget,
    GroupState,
    ObservedTopic,
    PublishChannel,
    RecordCreations,
    Remember,
    Retract,
)
from controller.plan.deletion import removable
from controller.plan.reconcile import reconcile
from knative.contract.records import Channel, Subscription
from knative.delivery.policy import Addressable
from knative.resources.conditions import ConditionStatus
from tests.unit.controller.worlds import (
    BROKER_DLQ,
    BROKER_TOPIC,
    CONFIG,
    NOW,
    TOPIC,
    Kafka,
    broker,
    channel,
    condition,
    kafka_with_ingress,
    message,
    names_of,
    serving,
    subscription,
)


def settled(*, keep: bool = False) -> Kafka:
    kafka = Kafka()
    kafka.settle(channel(keep_topic=keep), subscription())
    return kafka


def test_order_of_a_removal() -> None:
    kafka = settled()
    assert names_of(kafka.decide()) == ["Remember", "Remember"], "noted before anything is gone"
    done = kafka.settle()
    assert names_of(done) == [
        *("Remember", "Remember", "Retract", "Retract"),
        *("DeleteGroup", "DeleteTopic", "DeleteTopic", "Forget", "Forget"),
    ]
    assert not kafka.topics
    assert not kafka.groups


def test_removed_subscription_leaves_its_channel_alone() -> None:
    kafka = settled()
    done = kafka.settle(channel())
    assert names_of(done) == ["Remember", "Retract", "DeleteGroup", "Forget"]
    assert set(kafka.topics) == {TOPIC, f"{TOPIC}.dlq"}


def test_topic_is_not_deleted_while_a_worker_reads_it() -> None:
    kafka = settled()
    served = serving(*kafka.world.subscriptions.values())
    assert names_of(kafka.settle(workers=served)) == ["Remember", "Remember", "Retract", "Retract"]
    assert TOPIC in kafka.topics
    later = NOW + CONFIG.group_wait_s + 1
    assert [action for action in kafka.decide(now=later, workers=served) if isinstance(action, DeleteTopic)], (
        "but not for ever"
    )
    kafka.settle(workers={})
    assert not kafka.world.removals
    assert not kafka.topics


def test_group_with_members_is_waited_for() -> None:
    """Of another program: workers do not join it."""
    kafka = settled()
    kafka.groups["kafka.s-billing"] = GroupState.LIVE
    assert names_of(kafka.settle(channel())) == ["Remember", "Retract"]
    kafka.groups["kafka.s-billing"] = GroupState.EMPTY
    kafka.settle(channel())
    assert not kafka.world.removals


def test_removal_whose_group_cannot_be_observed_waits_and_others_do_not() -> None:
    kafka = settled()
    kafka.unknown["kafka.s-billing"] = "away"
    kafka.settle(channel("other"))
    assert list(kafka.world.removals) == ["s-billing"], "its group may be there"
    assert list(kafka.world.channels) == ["c-other"]
    kafka.unknown.clear()
    kafka.settle(channel("other"))
    assert not kafka.world.removals
    assert not kafka.groups


def test_start_is_not_committed_while_the_group_cannot_be_observed() -> None:
    kafka = Kafka(unknown={"kafka.s-billing": "away"})
    assert names_of(kafka.settle(channel(), subscription())) == ["CreateTopic", "CreateTopic", "PublishChannel"]
    status = kafka.statuses(channel(), subscription())["billing"]
    assert (condition(status), message(status)) == ((ConditionStatus.FALSE, "StartNotCommitted"), "away")
    kafka.unknown.clear()
    assert names_of(kafka.settle(channel(), subscription())) == ["CommitStart", "PublishSubscription"]


def test_group_is_not_deleted_while_a_worker_serves_the_subscription() -> None:
    """It may be one without members, which the worker's last commit would create again."""
    kafka = settled()
    served = serving(*kafka.world.subscriptions.values())
    assert names_of(kafka.settle(channel(), workers=served)) == ["Remember", "Retract"]
    left = kafka.settle(channel(), workers={})
    assert names_of(left) == ["DeleteGroup", "Forget"]


def test_kept_topic_outlives_its_channel() -> None:
    kafka = settled(keep=True)
    kafka.settle()
    assert set(kafka.topics) == {TOPIC, f"{TOPIC}.dlq"}
    assert not kafka.world.channels


def test_subscription_of_a_deleted_channel_is_removed_and_starts_again_with_the_next() -> None:
    kafka = settled()
    kafka.settle(subscription())
    assert not kafka.world.subscriptions
    assert not kafka.groups
    assert condition(kafka.statuses(subscription())["billing"]) == (ConditionStatus.FALSE, "ChannelNotFound")
    done = kafka.settle(channel(uid="c-other"), subscription())
    assert names_of(done)[-2:] == ["CommitStart", "PublishSubscription"]


def test_channel_that_comes_back_waits_for_its_old_topic_to_go() -> None:
    kafka = settled()
    kafka.world = replace(kafka.world, workers=serving(*kafka.world.subscriptions.values()))
    again = channel(uid="c-again")
    for action in kafka.decide():
        kafka.act(action)
    noted = kafka.statuses(again)["orders"]
    assert condition(noted) == (ConditionStatus.UNKNOWN, "TopicBeingRemoved"), "noted, but still in the contract"
    kafka.settle()
    assert kafka.settle(again) == []
    status = kafka.statuses(again)["orders"]
    assert condition(status) == (ConditionStatus.UNKNOWN, "TopicBeingRemoved"), "it passes without any action"
    assert "rename" not in message(status)
    kafka.settle(again, workers={})
    assert list(kafka.world.channels) == ["c-again"]


class Returning(Kafka):
    """Some client has topics created again, this many times each."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self._left = {TOPIC: times, f"{TOPIC}.dlq": times}

    def act(self, action: Action) -> None:
        super().act(action)
        if isinstance(action, DeleteTopic) and self._left[action.topic]:
            self._left[action.topic] -= 1
            self.topics[action.topic] = ObservedTopic(1, 1)


def test_topic_that_comes_back_while_it_is_removed_is_deleted_again() -> None:
    kafka = Returning(2)
    kafka.settle(channel())
    done = kafka.settle()
    assert names_of(done).count("DeleteTopic") == 6
    assert not kafka.topics
    assert not kafka.world.removals


def test_after_a_crash_between_note_and_retraction() -> None:
    kafka = settled()
    for action in kafka.decide(channel()):
        assert isinstance(action, Remember)
        kafka.act(action)
    assert kafka.decide(channel()) == [Retract("s-billing")]


def test_removal_that_is_recorded_only_is_cancelled_when_the_resource_is_in_a_file_again() -> None:
    kafka = settled()
    for action in kafka.decide():
        kafka.act(action)
    assert len(kafka.world.removals) == 2
    assert kafka.decide(channel(), subscription()) == [CancelRemoval("s-billing"), CancelRemoval("c-orders")]
    kafka.settle(channel(), subscription())
    assert not kafka.world.removals
    assert set(kafka.world.channels) == {"c-orders"}
    assert set(kafka.world.subscriptions) == {"s-billing"}


def test_removal_that_is_recorded_only_waits_while_its_file_cannot_be_read() -> None:
    kafka = settled()
    for action in kafka.decide(channel()):
        kafka.act(action)
    assert kafka.decide(channel(), retained=frozenset({"s-billing"})) == []
    assert kafka.decide(channel()) == [Retract("s-billing")], "when it is known that no file has it"


def test_after_the_retraction_nothing_is_cancelled() -> None:
    kafka = settled()
    kafka.groups["kafka.s-billing"] = GroupState.LIVE
    kafka.settle(channel())
    assert list(kafka.world.removals) == ["s-billing"]
    assert kafka.decide(channel(), subscription()) == [], "its group is removed first"


def test_two_records_of_one_topic_never_take_it_from_the_living() -> None:
    kafka = settled()
    old = replace(kafka.world.channels["c-orders"], uid="c-old", generation=9)
    kafka.world = replace(kafka.world, channels={**kafka.world.channels, "c-old": old})
    kafka.settle(channel(), subscription())
    assert set(kafka.topics) == {TOPIC, f"{TOPIC}.dlq"}
    assert list(kafka.world.channels) == ["c-orders"]


def test_removal_that_never_succeeds_is_given_up_loudly() -> None:
    kafka = settled()
    kafka.groups["kafka.s-billing"] = GroupState.LIVE
    kafka.settle(channel())
    (given_up,) = kafka.decide(channel(), now=NOW + CONFIG.removal_limit_s + 1)
    assert isinstance(given_up, Forget)
    assert "kafka.s-billing" in given_up.why


def created(*actions: type[Action]) -> Kafka:
    """A new channel, and a subscription if its start is committed, of which only these kinds of action were carried
    out."""
    kafka = Kafka()
    objects = (channel(), subscription()) if CommitStart in actions else (channel(),)
    for _ in range(5):
        kafka.record(*objects)
        for action in kafka.decide(*objects):
            if isinstance(action, actions):
                kafka.act(action)
    return kafka


def test_topics_of_a_channel_that_goes_before_it_is_published() -> None:
    kafka = created(CreateTopic)
    assert set(kafka.topics) == {TOPIC, f"{TOPIC}.dlq"}
    assert not kafka.world.channels
    assert names_of(kafka.settle()) == ["Remember", "DeleteTopic", "DeleteTopic", "Forget"]
    assert not kafka.topics
    assert kafka.world.creations == {}


def test_group_of_a_subscription_that_goes_before_it_is_published() -> None:
    kafka = created(CreateTopic, PublishChannel, CommitStart)
    assert kafka.groups == {"kafka.s-billing": GroupState.EMPTY}
    assert names_of(kafka.settle(channel())) == ["Remember", "DeleteGroup", "Forget"]
    assert not kafka.groups
    assert set(kafka.topics) == {TOPIC, f"{TOPIC}.dlq"}


def test_creation_is_recorded_before_it_begins_and_forgotten_once_it_is_published() -> None:
    kafka = Kafka()
    first = reconcile(kafka.look(channel()), CONFIG)[0]
    assert isinstance(first, RecordCreations)
    assert [(creation.uid, creation.topics) for creation in first.creations] == [("c-orders", (TOPIC, f"{TOPIC}.dlq"))]
    kafka.settle(channel(), subscription())
    assert kafka.world.creations == {}


def test_what_was_there_before_a_channel_that_is_never_published_stays() -> None:
    kafka = Kafka({TOPIC: ObservedTopic(1, 1)})
    kafka.record(channel())
    for action in kafka.decide(channel()):
        if isinstance(action, CreateTopic):
            kafka.act(action)
    kafka.settle()
    assert set(kafka.topics) == {TOPIC}


def test_topic_that_is_to_be_kept_stays_although_its_channel_was_never_published() -> None:
    kafka = Kafka()
    kept = channel(keep_topic=True)
    kafka.record(kept)
    for action in kafka.decide(kept):
        kafka.act(action)
    kafka.settle()
    assert set(kafka.topics) == {TOPIC, f"{TOPIC}.dlq"}


def test_topics_stay_that_are_to_be_kept_since_they_were_created() -> None:
    kafka = created(CreateTopic)
    kafka.record(channel(keep_topic=True))
    assert kafka.world.creations == {}
    kafka.settle()
    assert set(kafka.topics) == {TOPIC, f"{TOPIC}.dlq"}


def test_topic_that_is_external_since_it_was_created_stays_and_its_dlq_topic_goes() -> None:
    kafka = kafka_with_ingress()
    kafka.record(broker())
    for action in kafka.decide(broker()):
        if isinstance(action, CreateTopic):
            kafka.act(action)
    assert set(kafka.topics) == {BROKER_TOPIC, BROKER_DLQ}
    kafka.record(broker(external_topic=BROKER_TOPIC))
    kafka.settle()
    assert set(kafka.topics) == {BROKER_TOPIC}


def test_creation_is_continued_by_the_next_leader() -> None:
    kafka = created(CreateTopic)
    assert names_of(kafka.settle(channel(), subscription())) == ["PublishChannel", "CommitStart", "PublishSubscription"]


def test_creation_whose_file_cannot_be_read_waits() -> None:
    kafka = created(CreateTopic)
    assert kafka.decide(retained=frozenset({"c-orders"})) == []
    assert list(kafka.world.creations) == ["c-orders"]


def test_creation_of_an_object_that_has_vanished_is_given_up_and_its_topics_stay() -> None:
    """However old the creation is."""
    kafka = created(CreateTopic)
    (removal,) = kafka.world.creations.values()
    assert removal.since == kafka.world.now
    since = kafka.world.now + 10 * CONFIG.removal_limit_s
    gone = {"c-orders": since}
    for age_s in (0.0, CONFIG.removal_limit_s - 1, CONFIG.removal_limit_s):
        kafka.record(now=since + age_s, retained=frozenset(gone), vanished=gone)
        assert list(kafka.world.creations) == (["c-orders"] if age_s < CONFIG.removal_limit_s else [])
    assert kafka.settle(vanished=gone) == []
    assert set(kafka.topics) == {TOPIC, f"{TOPIC}.dlq"}


def test_creation_is_as_old_as_its_first_record() -> None:
    kafka = created(CreateTopic)
    (before,) = kafka.world.creations.values()
    del kafka.topics[f"{TOPIC}.dlq"]
    kafka.record(channel(), now=kafka.world.now + 10.0)
    assert list(kafka.world.creations.values()) == [before]


def test_next_channel_of_the_name_gets_the_topic_of_one_that_was_never_published() -> None:
    kafka = created(CreateTopic)
    kafka.settle(channel(uid="c-next"))
    assert list(kafka.world.channels) == ["c-next"]
    assert set(kafka.topics) == {TOPIC, f"{TOPIC}.dlq"}
    assert not kafka.world.removals
    assert not kafka.world.creations


def test_channel_goes_only_with_all_that_read_it() -> None:
    reader = Subscription("us", 1, "default", "s", "ua", "a", "t", "t.dlq", 1, "g", Addressable("http://h/"))
    channels = [Channel(uid, 1, "default", name, "t", "t.dlq", 1) for uid, name in (("ua", "a"), ("ub", "b"))]
    served: list[Channel | Subscription] = [*channels, reader]
    assert removable({"ua", "ub"}, served) == {"ub"}
    assert removable({"ua", "us"}, served) == {"ua", "us"}
    assert removable({"us"}, served) == {"us"}
