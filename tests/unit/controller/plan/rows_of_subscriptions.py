"""Rows for `test_conditions`: Subscriptions."""

from __future__ import annotations

from knative.contract.records import WorkerState
from knative.resources.destination import Destination, Ref
from tests.unit.controller.plan.condition_rows import (
    AWAY,
    MISSING_SINK,
    Row,
    begin_to_remove,
    fails,
    refers,
    reports,
    sees,
    served_long_ago,
    serves,
    sink,
    topic,
)
from tests.unit.controller.worlds import (
    NOWHERE,
    TOPIC,
    broker,
    channel,
    subscription,
    trigger,
)

LATE = refers("KafkaChannel", "late")
GROUP = "group kafka.s-billing"
TRIGGERS_GROUP = "group kafka.t-billing"
SERVICE = Ref("v1", "Service", "default", "billing")
BOTH = (subscription(), channel())
PAIR = (trigger(), broker())
OTHER_CLASS = broker(class_="MTChannelBasedBroker")

SUBSCRIPTIONS = [
    Row(
        "no channel",
        "False ChannelNotFound: Ready, ReferencesResolved; Unknown ChannelNotFound: AddedToChannel; "
        "Unknown NotAddedToChannel: ChannelReady",
        (subscription(),),
    ),
    Row(
        "new, with its channel",
        "Unknown ChannelNotReady: Ready, AddedToChannel; Unknown TopicBeingCreated: ChannelReady",
        BOTH,
    ),
    Row(
        "its channel has no topic",
        "False KafkaRefused: Ready, ChannelReady; Unknown ChannelNotReady: AddedToChannel",
        BOTH,
        more=fails(f"topic {TOPIC}"),
    ),
    Row(
        "its channel cannot have a topic",
        "False TopicNameInvalid: Ready, ChannelReady; Unknown ChannelNotReady: AddedToChannel",
        (subscription(), channel()),
        config={"topic_template": "a b.{name}"},
    ),
    Row(
        "start not committed",
        "Unknown StartBeingCommitted: Ready, AddedToChannel; Unknown NotAddedToChannel: ChannelReady",
        BOTH,
        (channel(),),
    ),
    Row(
        "start refused",
        "False StartNotCommitted: Ready, AddedToChannel; Unknown NotAddedToChannel: ChannelReady",
        BOTH,
        (channel(),),
        more=fails(GROUP),
    ),
    Row(
        "contract not written",
        "False ContractNotWritten: Ready, AddedToChannel; Unknown NotAddedToChannel: ChannelReady",
        BOTH,
        (channel(),),
        more=fails("contract s-billing"),
        change=lambda kafka: kafka.committed.update({"kafka.s-billing": {0}}),
    ),
    Row(
        "being published",
        "Unknown BeingPublished: Ready, AddedToChannel; Unknown NotAddedToChannel: ChannelReady",
        BOTH,
        (channel(),),
        change=lambda kafka: kafka.committed.update({"kafka.s-billing": {0}}),
    ),
    Row("served", "True: Ready", BOTH, None, workers=serves),
    Row("not served", "Unknown SubscriberNotServed: Ready, ChannelReady", BOTH, None),
    Row("served long ago", "Unknown SubscriberNotServed: Ready, ChannelReady", BOTH, None, workers=served_long_ago),
    Row(
        "served in an older generation",
        "Unknown SubscriberNotServed: Ready, ChannelReady",
        BOTH,
        None,
        workers=reports(WorkerState.RUNNING, generation=9),
    ),
    Row(
        "no worker owns these partitions",
        "Unknown SubscriberNotServed: Ready, ChannelReady",
        BOTH,
        None,
        workers=reports(WorkerState.STARTING),
    ),
    Row(
        "failed",
        "False SubscriberFailed: Ready, ChannelReady",
        BOTH,
        None,
        workers=reports(WorkerState.FAILED, "no right"),
    ),
    Row(
        "worker too old",
        "False WorkerTooOld: Ready, ChannelReady",
        BOTH,
        None,
        workers=reports(WorkerState.UNSUPPORTED, "needs x"),
    ),
    Row(
        "one worker of two too old",
        "True WorkerTooOld: Ready, ChannelReady",
        BOTH,
        None,
        workers=reports(WorkerState.UNSUPPORTED, "needs x", beside=True),
    ),
    Row(
        "worker waits for Kafka",
        "True WaitingForKafka: Ready, ChannelReady",
        BOTH,
        None,
        workers=reports(WorkerState.WAITING_FOR_KAFKA, beside=True),
    ),
    Row(
        "subscriber missing",
        "False SubscriberNotResolved: Ready, ReferencesResolved; "
        "Unknown SubscriberNotResolved: AddedToChannel; Unknown NotAddedToChannel: ChannelReady",
        (subscription(subscriber=LATE), channel()),
        (channel(),),
    ),
    Row(
        "subscriber of a kind that is not known",
        "False SubscriberNotResolved: Ready, ReferencesResolved; "
        "Unknown SubscriberNotResolved: AddedToChannel; Unknown NotAddedToChannel: ChannelReady",
        (subscription(subscriber=NOWHERE), channel()),
        (channel(),),
    ),
    Row(
        "subscriber not published",
        "Unknown SubscriberNotResolved: Ready, ReferencesResolved, AddedToChannel; "
        "Unknown NotAddedToChannel: ChannelReady",
        (subscription(subscriber=LATE), channel(), channel("late")),
        (channel(),),
    ),
    Row(
        "subscriber published",
        "True: Ready",
        (subscription(subscriber=LATE), channel(), channel("late")),
        None,
        workers=serves,
    ),
    Row(
        "subscriber's Service missing",
        "False SubscriberNotResolved: Ready, ReferencesResolved; "
        "Unknown SubscriberNotResolved: AddedToChannel; Unknown NotAddedToChannel: ChannelReady",
        (subscription(subscriber=refers()), channel()),
        (channel(),),
        more=sees(),
    ),
    Row(
        "subscriber's Service not listed",
        "Unknown SubscriberNotResolved: Ready, ReferencesResolved, AddedToChannel; "
        "Unknown NotAddedToChannel: ChannelReady",
        (subscription(subscriber=refers()), channel()),
        (channel(),),
        more=sees(loading=frozenset({("v1", "Service")})),
    ),
    Row(
        "subscriber's Service gone",
        "False SubscriberNotResolved: Ready, ReferencesResolved; Unknown SubscriberNotResolved: AddedToChannel",
        (subscription(subscriber=refers()), channel()),
        None,
        more=sees(),
        workers=serves,
    ),
    Row(
        "subscriber's Service there",
        "True: Ready",
        (subscription(subscriber=refers()), channel()),
        None,
        more=sees({SERVICE: None}),
        workers=serves,
    ),
    Row(
        "reply missing",
        "False ReplyNotResolved: Ready, ReferencesResolved; Unknown ReplyNotResolved: AddedToChannel; "
        "Unknown NotAddedToChannel: ChannelReady",
        (subscription(reply=LATE), channel()),
        (channel(),),
    ),
    Row(
        "reply not published",
        "Unknown ReplyNotResolved: Ready, ReferencesResolved, AddedToChannel; Unknown NotAddedToChannel: ChannelReady",
        (subscription(reply=LATE), channel(), channel("late")),
        (channel(),),
    ),
    Row(
        "sink missing",
        "False DeadLetterSinkNotResolved: Ready, ReferencesResolved; "
        "Unknown DeadLetterSinkNotResolved: AddedToChannel; Unknown NotAddedToChannel: ChannelReady",
        (subscription(delivery=MISSING_SINK), channel()),
        (channel(),),
    ),
    Row(
        "sink not published",
        "Unknown DeadLetterSinkNotResolved: Ready, ReferencesResolved, AddedToChannel; "
        "Unknown NotAddedToChannel: ChannelReady",
        (subscription(delivery=MISSING_SINK), channel(), channel("failed")),
        (channel(),),
    ),
    Row(
        "sink published",
        "True: Ready",
        (subscription(delivery=MISSING_SINK), channel(), channel("failed")),
        None,
        workers=serves,
    ),
    Row(
        "its channel's sink missing",
        "False DeadLetterSinkNotResolved: Ready, ReferencesResolved; "
        "Unknown DeadLetterSinkNotResolved: AddedToChannel; Unknown TopicBeingCreated: ChannelReady",
        (subscription(), channel(delivery=MISSING_SINK)),
    ),
    Row(
        "own sink instead of its channel's",
        "True: Ready",
        (subscription(delivery=sink(Destination(uri="http://d/"))), channel(delivery=MISSING_SINK)),
        None,
        workers=serves,
    ),
    Row(
        "another channel",
        "False ChannelImmutable: Ready, ReferencesResolved; Unknown ChannelImmutable: AddedToChannel; "
        "Unknown TopicBeingCreated: ChannelReady",
        (subscription(to="other", generation=2), channel(), channel("other")),
        BOTH,
        workers=serves,
    ),
    Row(
        "another channel, and the first one is gone",
        "False ChannelImmutable: Ready, ReferencesResolved; Unknown ChannelImmutable: AddedToChannel; "
        "Unknown NotAddedToChannel: ChannelReady",
        (subscription(to="other", generation=2), channel("other")),
        (*BOTH, channel("other")),
    ),
    Row(
        "its channel is gone",
        "False ChannelNotFound: Ready, ReferencesResolved; Unknown ChannelNotFound: AddedToChannel; "
        "Unknown NotAddedToChannel: ChannelReady",
        (subscription(),),
        BOTH,
    ),
    Row(
        "its channel's file cannot be read",
        "Unknown ChannelFileUnreadable: Ready, ReferencesResolved, AddedToChannel; "
        "Unknown SubscriberNotServed: ChannelReady",
        (subscription(),),
        BOTH,
        more={"retained": frozenset({"c-orders"})},
    ),
    Row(
        "its channel was replaced",
        "Unknown ChannelReplaced: Ready, ReferencesResolved, AddedToChannel; Unknown NotAddedToChannel: ChannelReady",
        (subscription(), channel(uid="c-next")),
        BOTH,
    ),
    Row(
        "its group is being removed",
        "Unknown BeingRemoved: Ready, ReferencesResolved, AddedToChannel; Unknown NotAddedToChannel: ChannelReady",
        BOTH,
        BOTH,
        change=begin_to_remove(channel()),
    ),
    Row(
        "changed into what cannot be resolved",
        "False SubscriberNotResolved: Ready, ReferencesResolved; Unknown SubscriberNotResolved: AddedToChannel",
        (subscription(generation=2, subscriber=LATE), channel()),
        BOTH,
        workers=serves,
    ),
    Row(
        "change not written",
        "False ContractNotWritten: Ready, AddedToChannel",
        (subscription(generation=2, concurrency=5), channel()),
        BOTH,
        more=fails("contract s-billing"),
        workers=serves,
    ),
    Row(
        "change being written",
        "Unknown BeingPublished: Ready, AddedToChannel",
        (subscription(generation=2, concurrency=5), channel()),
        BOTH,
        workers=serves,
    ),
    Row(
        "topic deleted and created again",
        "False TopicReplaced: Ready, AddedToChannel",
        BOTH,
        None,
        change=topic(TOPIC, id="other"),
        workers=serves,
    ),
    Row(
        "its channel's partitions are being raised",
        "Unknown PartitionsBeingRaised: Ready, ChannelReady",
        (subscription(), channel(generation=2, partitions=3)),
        BOTH,
        workers=serves,
    ),
    Row(
        "its channel's partitions cannot be raised",
        "False KafkaRefused: Ready, ChannelReady",
        (subscription(), channel(generation=2, partitions=3)),
        BOTH,
        more=fails(f"topic {TOPIC}"),
        workers=serves,
    ),
    Row(
        "its channel is not written",
        "False ContractNotWritten: Ready, ChannelReady",
        (subscription(), channel(generation=2, hosts=("a.test",))),
        BOTH,
        more=fails("contract c-orders"),
        workers=serves,
    ),
    Row(
        "Kafka unavailable, new",
        "Unknown KafkaUnavailable: Ready, AddedToChannel, ChannelReady",
        BOTH,
        (channel(),),
        more=AWAY,
    ),
    Row(
        "Kafka unavailable, and its channel is new",
        "Unknown ChannelNotReady: Ready, AddedToChannel; Unknown KafkaUnavailable: ChannelReady",
        BOTH,
        more=AWAY,
    ),
    Row(
        "Kafka unavailable, served",
        "Unknown KafkaUnavailable: Ready, ChannelReady",
        BOTH,
        None,
        more=AWAY,
        workers=served_long_ago,
    ),
    Row(
        "Kafka unavailable, changed",
        "Unknown KafkaUnavailable: Ready, AddedToChannel, ChannelReady",
        (subscription(generation=2, concurrency=5), channel()),
        BOTH,
        more=AWAY,
        workers=served_long_ago,
    ),
    Row(
        "Kafka unavailable, and its subscriber is missing",
        "False SubscriberNotResolved: Ready, ReferencesResolved; Unknown SubscriberNotResolved: AddedToChannel; "
        "Unknown KafkaUnavailable: ChannelReady",
        (subscription(subscriber=LATE), channel()),
        (channel(),),
        more=AWAY,
    ),
]
