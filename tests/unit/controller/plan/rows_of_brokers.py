"""Rows for `test_conditions`: Brokers."""

from __future__ import annotations

from pathlib import Path

from controller.plan.actions import Object, ObservedTopic
from knative.contract.broker_secrets import INVALID, NOT_FOUND, SecretProblem
from knative.delivery.policy import Addressable
from knative.resources.destination import Ref
from knative.resources.values import ConfigMap
from tests.unit.controller.plan.condition_rows import (
    AWAY,
    CREATED,
    LONG,
    MISSING_SINK,
    NO_INGRESS,
    Row,
    begin_to_remove,
    fails,
    refers,
    sees,
    sink,
)
from tests.unit.controller.worlds import (
    BAD,
    BROKER_DLQ,
    BROKER_TOPIC,
    CONFIG_REF,
    THEIRS,
    TOPIC,
    broker,
    channel,
    config_map,
    trigger,
)

SECRETS = {"kafka_secrets": Path("none")}
OWN_SECRET = Object("m-config", 1, "h1", ConfigMap(*CONFIG_REF, {"auth.secret.ref.name": "shop"}))

BROKERS = [
    Row("new", "Unknown TopicBeingCreated: Ready, TopicReady, ContractPublished, Addressable", (broker(),)),
    Row(
        "its topics are there",
        "Unknown BeingPublished: Ready, ContractPublished, Addressable",
        (broker(),),
        topics={**CREATED, BROKER_TOPIC: ObservedTopic(10, 1), BROKER_DLQ: ObservedTopic(10, 1)},
    ),
    Row(
        "its topic has too few partitions",
        "Unknown PartitionsBeingRaised: Ready, TopicReady, ContractPublished, Addressable",
        (broker(),),
        topics=CREATED,
    ),
    Row(
        "topic refused",
        "False KafkaRefused: Ready, TopicReady; Unknown KafkaRefused: ContractPublished, Addressable",
        (broker(),),
        more=fails(f"topic {BROKER_TOPIC}"),
    ),
    Row(
        "contract not written",
        "False ContractNotWritten: Ready, ContractPublished; Unknown BeingPublished: Addressable",
        (broker(config=CONFIG_REF), config_map(partitions="1")),
        topics=CREATED,
        more=fails("contract b-main"),
    ),
    Row("published", "True: Ready", (broker(),), None),
    Row("published without ingress", "False NoAddress: Ready, Addressable", (broker(),), None, config=NO_INGRESS),
    Row("without ingress, with a host", "True: Ready", (broker(hosts=("main.test",)),), None, config=NO_INGRESS),
    Row(
        "host of another",
        "False HostTaken: Ready, Addressable",
        (broker(hosts=("one.test",)), broker("a", hosts=("one.test",))),
        None,
    ),
    Row(
        "name too long",
        "False TopicNameTooLong: Ready, TopicReady; Unknown TopicNameTooLong: ContractPublished, Addressable",
        (broker(LONG),),
    ),
    Row(
        "name not valid",
        "False TopicNameInvalid: Ready, TopicReady; Unknown TopicNameInvalid: ContractPublished, Addressable",
        (broker(),),
        config={"broker_template": "a b.{namespace}.{name}"},
    ),
    Row(
        "name reserved",
        "False TopicNameReserved: Ready, TopicReady; Unknown TopicNameReserved: ContractPublished, Addressable",
        (broker(),),
        config={"broker_template": "penstock.{namespace}.{name}"},
    ),
    Row(
        "topic of another",
        "False TopicConflict: Ready, TopicReady; Unknown TopicConflict: ContractPublished, Addressable",
        (broker(external_topic=TOPIC), channel()),
        (channel(),),
    ),
    Row(
        "topic of one that is being removed",
        "Unknown TopicBeingRemoved: Ready, TopicReady, ContractPublished, Addressable",
        (broker(uid="b-next"), trigger()),
        (broker(), trigger()),
        change=begin_to_remove(),
    ),
    Row(
        "ConfigMap missing",
        "False ConfigMapNotFound: Ready, TopicReady; Unknown ConfigMapNotFound: ContractPublished, Addressable",
        (broker(config=CONFIG_REF),),
    ),
    Row(
        "ConfigMap that the API server does not show",
        "False ConfigMapForbidden: Ready, TopicReady; Unknown ConfigMapForbidden: ContractPublished, Addressable",
        (broker(config=CONFIG_REF),),
        more=sees(refused={("v1", "ConfigMap", "default"): "403"}),
    ),
    Row(
        "ConfigMaps of another namespace are not shown",
        "False ConfigMapNotFound: Ready, TopicReady; Unknown ConfigMapNotFound: ContractPublished, Addressable",
        (broker(config=CONFIG_REF),),
        more=sees(refused={("v1", "ConfigMap", "other"): "403"}),
    ),
    Row(
        "ConfigMaps are not listed yet",
        "Unknown ConfigMapNotRead: Ready, TopicReady, ContractPublished, Addressable",
        (broker(config=CONFIG_REF),),
        more=sees(loading=frozenset({("v1", "ConfigMap")})),
    ),
    Row(
        "ConfigMap not shown any more",
        "False ConfigMapForbidden: Ready, TopicReady",
        (broker(config=CONFIG_REF),),
        (broker(config=CONFIG_REF), config_map(partitions="1")),
        more=sees(refused={("v1", "ConfigMap", ""): "403"}),
    ),
    Row(
        "ConfigMap not valid",
        "False ConfigMapInvalid: Ready, TopicReady; Unknown ConfigMapInvalid: ContractPublished, Addressable",
        (broker(config=CONFIG_REF), BAD),
    ),
    Row(
        "ConfigMap gone",
        "False ConfigMapNotFound: Ready, TopicReady",
        (broker(config=CONFIG_REF),),
        (broker(config=CONFIG_REF), config_map(partitions="1")),
    ),
    Row(
        "ConfigMap not valid any more",
        "False ConfigMapInvalid: Ready, TopicReady",
        (broker(config=CONFIG_REF), BAD),
        (broker(config=CONFIG_REF), config_map(partitions="1")),
    ),
    Row(
        "ConfigMap lowers partitions",
        "True TopicDiffers: Ready, TopicReady",
        (broker(config=CONFIG_REF), config_map(partitions="1")),
        (broker(config=CONFIG_REF), config_map(partitions="3")),
    ),
    Row(
        "ConfigMap raises partitions",
        "Unknown PartitionsBeingRaised: Ready, TopicReady",
        (broker(config=CONFIG_REF), config_map(partitions="5")),
        (broker(config=CONFIG_REF), config_map(partitions="3")),
    ),
    Row(
        "another ConfigMap",
        "False Immutable: Ready, TopicReady; Unknown OlderGenerationServed: ContractPublished",
        (broker(generation=2, config=CONFIG_REF), config_map(partitions="1")),
        (broker(),),
    ),
    Row(
        "another class",
        "False Immutable: Ready, TopicReady; Unknown OlderGenerationServed: ContractPublished",
        (broker(generation=2, class_="MTChannelBasedBroker"),),
        (broker(),),
    ),
    Row(
        "another topic",
        "False Immutable: Ready, TopicReady; Unknown OlderGenerationServed: ContractPublished",
        (broker(generation=2, external_topic=THEIRS),),
        (broker(),),
        topics={THEIRS: ObservedTopic(1, 1)},
    ),
    Row("of another class from the beginning", "Unknown NotOurClass: Ready", (broker(class_="MTChannelBasedBroker"),)),
    Row("without class", "Unknown NotOurClass: Ready", (broker(class_=""),)),
    Row(
        "external topic missing",
        "False TopicNotFound: Ready, TopicReady; Unknown TopicNotFound: ContractPublished, Addressable",
        (broker(external_topic=THEIRS),),
    ),
    Row("external topic", "True: Ready", (broker(external_topic=THEIRS),), None, topics={THEIRS: ObservedTopic(2, 3)}),
    Row(
        "external topic deleted",
        "False TopicNotFound: Ready, TopicReady",
        (broker(external_topic=THEIRS),),
        None,
        topics={THEIRS: ObservedTopic(2, 3)},
        change=lambda kafka: kafka.topics.pop(THEIRS),
    ),
    Row(
        "change not written",
        "False ContractNotWritten: Ready, ContractPublished",
        (broker(generation=2, hosts=("a.test",)),),
        (broker(),),
        more=fails("contract b-main"),
    ),
    Row(
        "sink is missing",
        "False DeadLetterSinkNotResolved: Ready, DeadLetterSinkResolved",
        (broker(delivery=MISSING_SINK),),
        None,
    ),
    Row(
        "sink is not published",
        "Unknown TopicBeingCreated: Ready, TopicReady, ContractPublished, Addressable; "
        "Unknown DeadLetterSinkNotResolved: DeadLetterSinkResolved",
        (broker(delivery=MISSING_SINK), channel("failed")),
    ),
    Row("sink is published", "True: Ready", (broker(delivery=MISSING_SINK), channel("failed")), None),
    Row(
        "sink has no address",
        "False NoAddress: Ready, Addressable; False DeadLetterSinkNotResolved: DeadLetterSinkResolved",
        (broker(delivery=sink(refers("Broker", "a"))), broker("a")),
        None,
        config=NO_INGRESS,
    ),
    Row(
        "sink is a kind that is not installed",
        "False DeadLetterSinkNotResolved: Ready, DeadLetterSinkResolved",
        (broker(delivery=sink(refers("Thing", "a"))),),
        None,
        more=sees(unknown={("eventing.knative.dev/v1", "Thing"): "there is no such kind"}),
    ),
    Row(
        "sink has no address yet",
        "Unknown DeadLetterSinkNotResolved: Ready, DeadLetterSinkResolved",
        (broker(delivery=sink(refers("Thing", "a"))),),
        None,
        more=sees({Ref("eventing.knative.dev/v1", "Thing", "default", "a"): None}),
    ),
    Row(
        "sink is any Addressable",
        "True: Ready",
        (broker(delivery=sink(refers("Thing", "a"))),),
        None,
        more=sees({Ref("eventing.knative.dev/v1", "Thing", "default", "a"): Addressable("http://thing/")}),
    ),
    Row(
        "Kafka unavailable, new",
        "Unknown KafkaUnavailable: Ready, TopicReady, ContractPublished, Addressable",
        (broker(),),
        more=AWAY,
    ),
    Row("Kafka unavailable, published", "Unknown KafkaUnavailable: Ready, TopicReady", (broker(),), None, more=AWAY),
    Row(
        "Kafka unavailable, with an external topic",
        "Unknown KafkaUnavailable: Ready, TopicReady",
        (broker(external_topic=THEIRS),),
        None,
        topics={THEIRS: ObservedTopic(2, 3)},
        more=AWAY,
    ),
    Row(
        "Kafka unavailable, and its ConfigMap is missing",
        "False ConfigMapNotFound: Ready, TopicReady; Unknown ConfigMapNotFound: ContractPublished, Addressable",
        (broker(config=CONFIG_REF),),
        more=AWAY,
    ),
    Row("with a Secret of its own", "True: Ready", (broker(config=CONFIG_REF), OWN_SECRET), None, config=SECRETS),
    Row(
        "its Secret is missing",
        "False KafkaSecretNotFound: Ready, KafkaSecretReady",
        (broker(config=CONFIG_REF), OWN_SECRET),
        None,
        more={"secrets": {"default/shop": SecretProblem(NOT_FOUND, "there is no folder")}},
        config=SECRETS,
    ),
    Row(
        "its Secret is not valid",
        "False KafkaSecretInvalid: Ready, KafkaSecretReady",
        (broker(config=CONFIG_REF), OWN_SECRET),
        None,
        more={"secrets": {"default/shop": SecretProblem(INVALID, "PLAIN needs password")}},
        config=SECRETS,
    ),
]
