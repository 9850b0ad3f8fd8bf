"""Rows for `test_conditions`: Triggers."""

from __future__ import annotations

from knative.contract.records import WorkerState
from knative.delivery.policy import Addressable
from knative.resources.destination import Ref
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
    serves_in_part,
    topic,
)
from tests.unit.controller.worlds import (
    BAD,
    BROKER_TOPIC,
    CONFIG_REF,
    NOWHERE,
    broker,
    channel,
    config_map,
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

TRIGGERS = [
    Row("no broker", "False BrokerNotFound: Ready, BrokerReady; Unknown BrokerNotFound: Subscribed", (trigger(),)),
    Row(
        "new, with its broker",
        "Unknown TopicBeingCreated: Ready, BrokerReady; Unknown BrokerNotReady: Subscribed",
        PAIR,
    ),
    Row(
        "its broker has no topic",
        "False KafkaRefused: Ready, BrokerReady; Unknown BrokerNotReady: Subscribed",
        PAIR,
        more=fails(f"topic {BROKER_TOPIC}"),
    ),
    Row(
        "its broker has no ConfigMap",
        "False ConfigMapNotFound: Ready, BrokerReady; Unknown BrokerNotReady: Subscribed",
        (trigger(), broker(config=CONFIG_REF)),
    ),
    Row(
        "its broker's ConfigMap is not valid",
        "False ConfigMapInvalid: Ready, BrokerReady; Unknown BrokerNotReady: Subscribed",
        (trigger(), broker(config=CONFIG_REF), BAD),
    ),
    Row(
        "its broker's topic is missing",
        "False TopicNotFound: Ready, BrokerReady; Unknown BrokerNotReady: Subscribed",
        (trigger(), broker(external_topic="theirs")),
    ),
    Row("its broker is not of our class", "Unknown NotOurClass: Ready", (trigger(), OTHER_CLASS)),
    Row(
        "its broker has no address",
        "False NoAddress: Ready, BrokerReady",
        PAIR,
        None,
        config={"ingress_url": ""},
        workers=serves,
    ),
    Row("start not committed", "Unknown StartBeingCommitted: Ready, Subscribed", PAIR, (broker(),)),
    Row("start refused", "False StartNotCommitted: Ready, Subscribed", PAIR, (broker(),), more=fails(TRIGGERS_GROUP)),
    Row(
        "contract not written",
        "False ContractNotWritten: Ready, Subscribed",
        PAIR,
        (broker(),),
        more=fails("contract t-billing"),
        change=lambda kafka: kafka.committed.update({"kafka.t-billing": set(range(10))}),
    ),
    Row(
        "being published",
        "Unknown BeingPublished: Ready, Subscribed",
        PAIR,
        (broker(),),
        change=lambda kafka: kafka.committed.update({"kafka.t-billing": set(range(10))}),
    ),
    Row("served", "True: Ready", PAIR, None, workers=serves),
    Row("not served", "Unknown SubscriberNotServed: Ready, Subscribed", PAIR, None),
    Row("served long ago", "Unknown SubscriberNotServed: Ready, Subscribed", PAIR, None, workers=served_long_ago),
    Row(
        "no worker owns these partitions",
        "Unknown SubscriberNotServed: Ready, Subscribed",
        PAIR,
        None,
        workers=reports(WorkerState.STARTING),
    ),
    Row(
        "failed",
        "False SubscriberFailed: Ready, Subscribed",
        PAIR,
        None,
        workers=reports(WorkerState.FAILED, "no right"),
    ),
    Row(
        "worker too old",
        "False WorkerTooOld: Ready, Subscribed",
        PAIR,
        None,
        workers=reports(WorkerState.UNSUPPORTED, "needs x"),
    ),
    Row(
        "one worker of two too old",
        "True WorkerTooOld: Ready, Subscribed",
        PAIR,
        None,
        workers=reports(WorkerState.UNSUPPORTED, "needs x", beside=True),
    ),
    Row(
        "no worker has the Secret of its broker",
        "False KafkaSecretNotFound: Ready, Subscribed",
        (trigger(), broker()),
        None,
        workers=reports(WorkerState.SECRET_NOT_FOUND, "there is no folder"),
    ),
    Row(
        "no worker can use the Secret of its broker",
        "False KafkaSecretInvalid: Ready, Subscribed",
        (trigger(), broker()),
        None,
        workers=reports(WorkerState.SECRET_INVALID, "wrong password"),
    ),
    Row(
        "one worker has not the Secret of its broker",
        "True KafkaSecretNotFound: Ready, Subscribed",
        (trigger(), broker()),
        None,
        workers=reports(WorkerState.SECRET_NOT_FOUND, "there is no folder", beside=True),
    ),
    Row(
        "filter exceeds its limits",
        "True FilterLimitExceeded: Ready, Subscribed",
        PAIR,
        None,
        workers=serves_in_part,
    ),
    Row(
        "worker waits for Kafka",
        "True WaitingForKafka: Ready, Subscribed",
        PAIR,
        None,
        workers=reports(WorkerState.WAITING_FOR_KAFKA, beside=True),
    ),
    Row(
        "subscriber missing",
        "False SubscriberNotResolved: Ready, SubscriberResolved; Unknown SubscriberNotResolved: Subscribed",
        (trigger(subscriber=LATE), broker()),
        (broker(),),
    ),
    Row(
        "subscriber not published",
        "Unknown SubscriberNotResolved: Ready, SubscriberResolved, Subscribed",
        (trigger(subscriber=LATE), broker(), channel("late")),
        (broker(),),
    ),
    Row(
        "subscriber's Service missing",
        "False SubscriberNotResolved: Ready, SubscriberResolved; Unknown SubscriberNotResolved: Subscribed",
        (trigger(subscriber=refers()), broker()),
        (broker(),),
        more=sees(),
    ),
    Row(
        "subscriber's Service gone",
        "False SubscriberNotResolved: Ready, SubscriberResolved; Unknown SubscriberNotResolved: Subscribed",
        (trigger(subscriber=refers()), broker()),
        None,
        more=sees(),
        workers=serves,
    ),
    Row(
        "subscriber is any Addressable",
        "Unknown StartBeingCommitted: Ready, Subscribed",
        (trigger(subscriber=NOWHERE), broker()),
        (broker(),),
        more=sees({Ref("serving.knative.dev/v1", "Service", "default", "not-known-here"): Addressable("http://it/")}),
    ),
    Row(
        "sink missing",
        "False DeadLetterSinkNotResolved: Ready, DeadLetterSinkResolved; Unknown DeadLetterSinkNotResolved: Subscribed",
        (trigger(delivery=MISSING_SINK), broker()),
        (broker(),),
    ),
    Row(
        "sink not published",
        "Unknown DeadLetterSinkNotResolved: Ready, DeadLetterSinkResolved, Subscribed",
        (trigger(delivery=MISSING_SINK), broker(), channel("failed")),
        (broker(),),
    ),
    Row(
        "sink published",
        "True: Ready",
        (trigger(delivery=MISSING_SINK), broker(), channel("failed")),
        None,
        workers=serves,
    ),
    Row(
        "its broker's sink missing",
        "False DeadLetterSinkNotResolved: Ready, DeadLetterSinkResolved; "
        "Unknown TopicBeingCreated: BrokerReady; Unknown DeadLetterSinkNotResolved: Subscribed",
        (trigger(), broker(delivery=MISSING_SINK)),
    ),
    Row(
        "nothing of it is there",
        "False BrokerNotFound: Ready, BrokerReady; False SubscriberNotResolved: SubscriberResolved; "
        "False DeadLetterSinkNotResolved: DeadLetterSinkResolved; Unknown BrokerNotFound: Subscribed",
        (trigger(subscriber=LATE, delivery=MISSING_SINK),),
    ),
    Row(
        "subscriber and sink missing, and its broker has no topic",
        "False KafkaRefused: Ready, BrokerReady; False SubscriberNotResolved: SubscriberResolved; "
        "False DeadLetterSinkNotResolved: DeadLetterSinkResolved; Unknown SubscriberNotResolved: Subscribed",
        (trigger(subscriber=LATE, delivery=MISSING_SINK), broker()),
        more=fails(f"topic {BROKER_TOPIC}"),
    ),
    Row(
        "another broker",
        "False BrokerImmutable: Ready, BrokerReady; Unknown BrokerImmutable: Subscribed",
        (trigger(to="other", generation=2), broker(), broker("other")),
        PAIR,
        workers=serves,
    ),
    Row(
        "its broker is gone",
        "False BrokerNotFound: Ready, BrokerReady; Unknown BrokerNotFound: Subscribed",
        (trigger(),),
        PAIR,
    ),
    Row(
        "its broker's file cannot be read",
        "Unknown BrokerFileUnreadable: Ready, BrokerReady, Subscribed",
        (trigger(),),
        PAIR,
        more={"retained": frozenset({"b-main"})},
    ),
    Row(
        "its broker was replaced",
        "Unknown BrokerReplaced: Ready, BrokerReady, Subscribed",
        (trigger(), broker(uid="b-next")),
        PAIR,
    ),
    Row(
        "its group is being removed",
        "Unknown BeingRemoved: Ready, BrokerReady, Subscribed",
        PAIR,
        PAIR,
        change=begin_to_remove(broker()),
    ),
    Row(
        "its broker got another class",
        "False Immutable: Ready, BrokerReady",
        (trigger(), broker(generation=2, class_="Other")),
        PAIR,
        workers=serves,
    ),
    Row(
        "change not written",
        "False ContractNotWritten: Ready, Subscribed",
        (trigger(generation=2, concurrency=5), broker()),
        PAIR,
        more=fails("contract t-billing"),
        workers=serves,
    ),
    Row(
        "change being written",
        "Unknown BeingPublished: Ready, Subscribed",
        (trigger(generation=2, concurrency=5), broker()),
        PAIR,
        workers=serves,
    ),
    Row(
        "changed into what cannot be resolved",
        "False SubscriberNotResolved: Ready, SubscriberResolved; Unknown SubscriberNotResolved: Subscribed",
        (trigger(generation=2, subscriber=LATE), broker()),
        PAIR,
        workers=serves,
    ),
    Row(
        "topic deleted and created again",
        "False TopicReplaced: Ready, Subscribed",
        PAIR,
        None,
        change=topic(BROKER_TOPIC, id="other"),
        workers=serves,
    ),
    Row(
        "its broker's partitions are being raised",
        "Unknown PartitionsBeingRaised: Ready, BrokerReady",
        (trigger(), broker(config=CONFIG_REF), config_map(partitions="5")),
        (trigger(), broker(config=CONFIG_REF), config_map(partitions="3")),
        workers=serves,
    ),
    Row(
        "names a dependency",
        "Unknown DependencyNotChecked: Ready, DependencyReady",
        (trigger(dependency="Thing default/a"), broker()),
        None,
        workers=serves,
    ),
    Row(
        "Kafka unavailable, new",
        "Unknown KafkaUnavailable: Ready, BrokerReady, Subscribed",
        PAIR,
        (broker(),),
        more=AWAY,
    ),
    Row(
        "Kafka unavailable, served",
        "Unknown KafkaUnavailable: Ready, BrokerReady; Unknown SubscriberNotServed: Subscribed",
        PAIR,
        None,
        more=AWAY,
        workers=served_long_ago,
    ),
    Row(
        "Kafka unavailable, changed",
        "Unknown KafkaUnavailable: Ready, BrokerReady, Subscribed",
        (trigger(generation=2, concurrency=5), broker()),
        PAIR,
        more=AWAY,
        workers=served_long_ago,
    ),
]
