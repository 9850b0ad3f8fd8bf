"""Rows for `test_conditions`: KafkaChannels."""

from __future__ import annotations

from controller.plan.actions import ObservedTopic
from knative.contract.records import WorkerState
from knative.resources.destination import Destination, Ref
from knative.resources.values import Subscriber
from tests.unit.controller.plan.condition_rows import (
    AWAY,
    CREATED,
    LONG,
    MISSING_SINK,
    NO_INGRESS,
    Row,
    begin_to_remove,
    fails,
    note_removal,
    refers,
    reports,
    sees,
    served_long_ago,
    serves,
    sink,
)
from tests.unit.controller.worlds import (
    TOPIC,
    channel,
    subscription,
)

ENTRY = Subscriber("e-1", "entry", 1, Destination(uri="http://entry/"))
GHOST = Subscriber("e-2", "ghost", 1, Destination(uri="http://ghost/"))

CHANNELS = [
    Row("new", "Unknown TopicBeingCreated: Ready, TopicReady, ContractPublished, Addressable", (channel(),)),
    Row(
        "its topics are there",
        "Unknown BeingPublished: Ready, ContractPublished, Addressable",
        (channel(),),
        topics=CREATED,
    ),
    Row(
        "only its topic is there",
        "Unknown TopicBeingCreated: Ready, TopicReady, ContractPublished, Addressable",
        (channel(),),
        topics={TOPIC: ObservedTopic(1, 1)},
    ),
    Row(
        "its topic has too few partitions",
        "Unknown PartitionsBeingRaised: Ready, TopicReady, ContractPublished, Addressable",
        (channel(partitions=3),),
        topics=CREATED,
    ),
    Row(
        "its Subscriptions shall share a consumer, and have had their own",
        "False Immutable: Ready, TopicReady; Unknown OlderGenerationServed: ContractPublished",
        (channel(generation=2, shared_consumer=True),),
        (channel(),),
    ),
    Row(
        "its Subscriptions shall have consumers of their own, and share one",
        "False Immutable: Ready, TopicReady; Unknown OlderGenerationServed: ContractPublished",
        (channel(generation=2),),
        (channel(shared_consumer=True),),
    ),
    Row(
        "topic refused",
        "False KafkaRefused: Ready, TopicReady; Unknown KafkaRefused: ContractPublished, Addressable",
        (channel(),),
        more=fails(f"topic {TOPIC}"),
    ),
    Row(
        "DLQ topic refused",
        "False KafkaRefused: Ready, TopicReady; Unknown KafkaRefused: ContractPublished, Addressable",
        (channel(),),
        more=fails(f"topic {TOPIC}.dlq"),
    ),
    Row(
        "contract not written",
        "False ContractNotWritten: Ready, ContractPublished; Unknown BeingPublished: Addressable",
        (channel(),),
        topics=CREATED,
        more=fails("contract c-orders"),
    ),
    Row("published", "True: Ready", (channel(),), None),
    Row("published without ingress", "True: Ready", (channel(),), None, config=NO_INGRESS),
    Row(
        "name too long",
        "False TopicNameTooLong: Ready, TopicReady; Unknown TopicNameTooLong: ContractPublished, Addressable",
        (channel(LONG),),
    ),
    Row(
        "name not valid",
        "False TopicNameInvalid: Ready, TopicReady; Unknown TopicNameInvalid: ContractPublished, Addressable",
        (channel(),),
        config={"topic_template": "a b.{namespace}.{name}"},
    ),
    Row(
        "name reserved",
        "False TopicNameReserved: Ready, TopicReady; Unknown TopicNameReserved: ContractPublished, Addressable",
        (channel(),),
        config={"topic_template": "penstock.{namespace}.{name}"},
    ),
    Row(
        "topic of another",
        "False TopicConflict: Ready, TopicReady; Unknown TopicConflict: ContractPublished, Addressable",
        (channel("a.dlq"), channel("a")),
        (channel("a"),),
    ),
    Row(
        "topic of one that is being removed",
        "Unknown TopicBeingRemoved: Ready, TopicReady, ContractPublished, Addressable",
        (channel(uid="c-next"), subscription()),
        (channel(), subscription()),
        change=begin_to_remove(),
    ),
    Row(
        "topic of one whose removal is recorded",
        "Unknown TopicBeingRemoved: Ready, TopicReady, ContractPublished, Addressable",
        (channel(uid="c-next"),),
        (channel(),),
        change=note_removal(),
    ),
    Row(
        "partitions raised",
        "Unknown PartitionsBeingRaised: Ready, TopicReady; Unknown OlderGenerationServed: ContractPublished",
        (channel(generation=2, partitions=3),),
        (channel(),),
    ),
    Row(
        "partitions not raised",
        "False KafkaRefused: Ready, TopicReady; Unknown OlderGenerationServed: ContractPublished",
        (channel(generation=2, partitions=3),),
        (channel(),),
        more=fails(f"topic {TOPIC}"),
    ),
    Row(
        "partitions lowered",
        "Unknown BeingPublished: Ready, ContractPublished; True TopicDiffers: TopicReady",
        (channel(generation=2),),
        (channel(partitions=3),),
    ),
    Row(
        "replicas differ",
        "Unknown BeingPublished: Ready, ContractPublished, Addressable; True TopicDiffers: TopicReady",
        (channel(replication=3),),
        topics=CREATED,
    ),
    Row(
        "change not written",
        "False ContractNotWritten: Ready, ContractPublished",
        (channel(generation=2, hosts=("a.test",)),),
        (channel(),),
        more=fails("contract c-orders"),
    ),
    Row(
        "host of another",
        "False HostTaken: Ready, Addressable",
        (channel(hosts=("one.test",)), channel("a", hosts=("one.test",))),
        None,
    ),
    Row(
        "topic deleted by others",
        "Unknown TopicBeingCreated: Ready, TopicReady",
        (channel(),),
        None,
        change=lambda kafka: kafka.topics.pop(TOPIC),
    ),
    Row("subscribers served", "True: Ready", (channel(), subscription()), None, workers=serves),
    Row(
        "subscribers not served",
        "Unknown SubscriberNotServed: Ready, SubscribersReady",
        (channel(), subscription()),
        None,
    ),
    Row(
        "subscribers served long ago",
        "Unknown SubscriberNotServed: Ready, SubscribersReady",
        (channel(), subscription()),
        None,
        workers=served_long_ago,
    ),
    Row(
        "subscriber failed",
        "False SubscriberFailed: Ready, SubscribersReady",
        (channel(), subscription()),
        None,
        workers=reports(WorkerState.FAILED, "no right"),
    ),
    Row(
        "worker too old",
        "False WorkerTooOld: Ready, SubscribersReady",
        (channel(), subscription()),
        None,
        workers=reports(WorkerState.UNSUPPORTED, "needs x"),
    ),
    Row(
        "one worker of two too old",
        "True WorkerTooOld: Ready, SubscribersReady",
        (channel(), subscription()),
        None,
        workers=reports(WorkerState.UNSUPPORTED, "needs x", beside=True),
    ),
    Row(
        "worker waits for Kafka",
        "True WaitingForKafka: Ready, SubscribersReady",
        (channel(), subscription()),
        None,
        workers=reports(WorkerState.WAITING_FOR_KAFKA, beside=True),
    ),
    Row("entries served", "True: Ready", (channel(subscribers=(ENTRY,)),), None, workers=serves),
    Row(
        "entries not served",
        "Unknown SubscriberNotServed: Ready, SubscribersReady",
        (channel(subscribers=(ENTRY,)),),
        None,
    ),
    Row(
        "new, with entries",
        "Unknown TopicBeingCreated: Ready, TopicReady, ContractPublished, Addressable; "
        "Unknown ChannelNotReady: SubscribersReady",
        (channel(subscribers=(ENTRY,)),),
    ),
    Row(
        "start of an entry not committed",
        "Unknown StartBeingCommitted: Ready, SubscribersReady",
        (channel(subscribers=(ENTRY,)),),
        (channel(),),
    ),
    Row(
        "start of an entry refused",
        "False StartNotCommitted: Ready, SubscribersReady",
        (channel(subscribers=(ENTRY,)),),
        (channel(),),
        more=fails("group kafka.e-1"),
    ),
    Row(
        "entries of Subscriptions that are gone",
        "True GhostSubscribers: Ready, SubscribersReady",
        (channel(subscribers=(ENTRY,), ghosts=(GHOST,)),),
        None,
        workers=serves,
    ),
    Row("sink is a URI", "True: Ready", (channel(delivery=sink(Destination(uri="http://dead/"))),), None),
    Row(
        "sink is missing",
        "False DeadLetterSinkNotResolved: Ready, DeadLetterSinkResolved",
        (channel(delivery=MISSING_SINK),),
        None,
    ),
    Row(
        "sink is not published",
        "Unknown TopicBeingCreated: Ready, TopicReady, ContractPublished, Addressable; "
        "Unknown DeadLetterSinkNotResolved: DeadLetterSinkResolved",
        (channel(delivery=MISSING_SINK), channel("failed")),
    ),
    Row("sink is published", "True: Ready", (channel(delivery=MISSING_SINK), channel("failed")), None),
    Row("sink is a Service, without a cluster", "True: Ready", (channel(delivery=sink(refers())),), None),
    Row(
        "sink is a Service that is missing",
        "False DeadLetterSinkNotResolved: Ready, DeadLetterSinkResolved",
        (channel(delivery=sink(refers())),),
        None,
        more=sees(),
    ),
    Row(
        "sink is a Service that is not listed",
        "Unknown DeadLetterSinkNotResolved: Ready, DeadLetterSinkResolved",
        (channel(delivery=sink(refers())),),
        None,
        more=sees(loading=frozenset({("v1", "Service")})),
    ),
    Row(
        "sink is a Service",
        "True: Ready",
        (channel(delivery=sink(refers())),),
        None,
        more=sees({Ref("v1", "Service", "default", "billing"): None}),
    ),
    Row(
        "Kafka unavailable, new",
        "Unknown KafkaUnavailable: Ready, TopicReady, ContractPublished, Addressable",
        (channel(),),
        more=AWAY,
    ),
    Row(
        "Kafka unavailable, published",
        "Unknown KafkaUnavailable: Ready, TopicReady; Unknown SubscriberNotServed: SubscribersReady",
        (channel(), subscription()),
        None,
        more=AWAY,
        workers=served_long_ago,
    ),
    Row(
        "Kafka unavailable, changed",
        "Unknown KafkaUnavailable: Ready, TopicReady; Unknown OlderGenerationServed: ContractPublished",
        (channel(generation=2, hosts=("a.test",)),),
        (channel(),),
        more=AWAY,
    ),
    Row(
        "Kafka unavailable, and its name is too long",
        "False TopicNameTooLong: Ready, TopicReady; Unknown TopicNameTooLong: ContractPublished, Addressable",
        (channel(LONG),),
        more=AWAY,
    ),
]
