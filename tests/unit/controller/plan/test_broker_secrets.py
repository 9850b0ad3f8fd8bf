"""Tables of reconcile for Brokers whose ConfigMap names a Secret of their own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controller.plan.actions import Object, ObservedTopic
from knative.contract.broker_secrets import INVALID, NOT_FOUND, SecretProblem
from knative.contract.records import WorkerStatus
from knative.resources.values import ConfigMap, Trigger
from tests.unit.controller.worlds import (
    CONFIG_REF,
    FALSE,
    NOW,
    NOWHERE,
    THEIRS,
    TRUE,
    Kafka,
    broker,
    condition,
    kafka_with_ingress,
    message,
    names_of,
    trigger,
)

READY = "KafkaSecretReady"
MISSING = {"default/shop": SecretProblem(NOT_FOUND, "there is no folder")}
BROKER = broker(config=CONFIG_REF)


def secret(name: str = "shop", namespace: str = "default") -> Object[ConfigMap]:
    """The ConfigMap with a reference; "" = without one."""
    return Object("m-config", 1, "h1", ConfigMap(namespace, "config", {"auth.secret.ref.name": name} if name else {}))


def kafka_with_secrets() -> Kafka:
    """A Kafka of a controller with PENSTOCK_KAFKA_SECRETS."""
    kafka = kafka_with_ingress()
    kafka.config = replace(kafka.config, kafka_secrets=Path("none"))
    return kafka


def secrets_of(kafka: Kafka) -> list[str]:
    """As published: of the Broker, and of its Trigger."""
    return [kafka.world.channels["b-main"].secret, kafka.world.subscriptions["t-billing"].secret]


def test_reference_is_published_for_the_broker_and_its_triggers() -> None:
    kafka = kafka_with_secrets()
    kafka.settle(BROKER, secret(), trigger())
    assert secrets_of(kafka) == ["default/shop", "default/shop"]
    status = kafka.status(BROKER, secret(), trigger())
    assert (condition(status, READY), condition(status)) == ((TRUE, ""), (TRUE, ""))
    assert not any(part.type == READY for part in kafka.status(BROKER, secret(""), trigger()).conditions)


def test_without_the_setting_it_is_not_used_and_the_status_says_so() -> None:
    kafka = kafka_with_ingress()
    kafka.settle(BROKER, secret(), trigger())
    assert secrets_of(kafka) == ["", ""]
    status = kafka.status(BROKER, secret(), trigger())
    assert condition(status) == (TRUE, "TopicDiffers")
    assert "auth.secret.ref.name in its ConfigMap has no effect, because PENSTOCK_KAFKA_SECRETS is not set" in message(
        status
    )


def test_new_broker_is_published_with_a_secret_that_is_not_there_yet() -> None:
    """So that its events are never written by another user."""
    kafka = kafka_with_secrets()
    kafka.world = replace(kafka.world, secrets=MISSING)
    kafka.settle(BROKER, secret(), trigger())
    assert secrets_of(kafka) == ["default/shop", "default/shop"]
    status = kafka.status(BROKER, secret(), trigger())
    assert (condition(status, READY), condition(status)) == ((FALSE, NOT_FOUND), (FALSE, NOT_FOUND))
    assert message(status) == "there is no folder"


@pytest.mark.parametrize(
    ("former", "kept"),
    [("till", "the Secret default/till"), ("", "the installation's Secret")],
    ids=["another", "none"],
)
def test_published_broker_keeps_its_secret_until_the_next_can_be_used(former: str, kept: str) -> None:
    kafka = kafka_with_secrets()
    kafka.settle(BROKER, secret(former), trigger())
    before = secrets_of(kafka)
    kafka.world = replace(kafka.world, secrets=MISSING)
    assert kafka.settle(BROKER, secret(), trigger()) == []
    status = kafka.status(BROKER, secret(), trigger())
    assert condition(status, READY) == (FALSE, NOT_FOUND)
    assert message(status) == f"there is no folder; {kept} is used until then"
    assert secrets_of(kafka) == before
    kafka.world = replace(kafka.world, secrets={})
    assert names_of(kafka.settle(BROKER, secret(), trigger())) == ["PublishChannel", "PublishSubscription"]
    assert secrets_of(kafka) == ["default/shop", "default/shop"]


@pytest.mark.parametrize(
    ("triggers", "retained"),
    [((trigger(generation=2, subscriber=NOWHERE),), ()), ((), ("t-billing",))],
    ids=["its subscriber is not there any more", "its file cannot be read"],
)
def test_trigger_that_is_served_as_it_was_gets_the_secret_of_the_others(
    triggers: tuple[Object[Trigger], ...], retained: tuple[str, ...]
) -> None:
    """They have one consumer group: with two kinds of members in it, each Trigger would get a part of the events."""
    kafka = kafka_with_secrets()
    kafka.settle(BROKER, secret("till"), trigger())
    before = kafka.world.subscriptions["t-billing"]
    done = kafka.settle(BROKER, secret(), *triggers, retained=frozenset(retained))
    assert names_of(done) == ["PublishChannel", "PublishSubscription"]
    assert kafka.world.subscriptions["t-billing"] == replace(before, secret="default/shop")
    kafka.settle(BROKER, secret("till"))
    assert "t-billing" not in kafka.world.subscriptions, "deleted"


def test_broker_goes_back_to_the_credentials_of_the_installation() -> None:
    kafka = kafka_with_secrets()
    kafka.settle(BROKER, secret(), trigger())
    kafka.settle(BROKER, secret(""), trigger())
    assert secrets_of(kafka) == ["", ""]


@pytest.mark.parametrize(("age_s", "expected"), [(0.0, (FALSE, INVALID)), (11.0, (TRUE, ""))], ids=["fresh", "old"])
def test_what_a_worker_cannot_use(age_s: float, expected: tuple[Any, str]) -> None:
    kafka = kafka_with_secrets()
    kafka.settle(BROKER, secret())
    wrong = {"default/shop": SecretProblem(INVALID, "wrong password"), "default/till": SecretProblem(NOT_FOUND, "gone")}
    workers = {"w": WorkerStatus("w", NOW - age_s, "all", secrets=wrong)}
    status = kafka.status(BROKER, secret(), workers=workers)
    assert condition(status, READY) == expected
    if expected[0] is FALSE:
        assert message(status, READY) == "w: wrong password"


def test_without_kafka_what_workers_said_last_still_counts() -> None:
    """They cannot report, and the Secret is not better for that."""
    kafka = kafka_with_secrets()
    kafka.settle(BROKER, secret())
    wrong = {"default/shop": SecretProblem(INVALID, "wrong password")}
    workers = {"w": WorkerStatus("w", NOW - 3600.0, "all", secrets=wrong)}
    status = kafka.status(BROKER, secret(), workers=workers, unavailable="no broker answers")
    assert condition(status, READY) == (FALSE, INVALID)
    assert condition(status)[0] is FALSE


@pytest.mark.parametrize("name", ["../till", "a/b", "UP", ".", "x" * 254])
def test_name_that_is_not_valid(name: str) -> None:
    kafka = kafka_with_secrets()
    kafka.settle(BROKER, secret(name))
    assert kafka.world.channels == {}
    status = kafka.status(BROKER, secret(name))
    assert condition(status) == (FALSE, "ConfigMapInvalid")
    assert "write the name of a Secret of the same namespace" in message(status)


def test_secret_of_another_namespace_and_an_external_topic() -> None:
    """Who may create a Broker in one namespace must not read a topic with the rights of another."""
    kafka = kafka_with_secrets()
    kafka.topics[THEIRS] = ObservedTopic(1, 1)
    settings = secret(namespace="shared")
    outside = broker(config=("shared", "config"), external_topic=THEIRS)
    status = kafka.status(outside, settings)
    assert condition(status) == (FALSE, "ConfigMapInvalid")
    assert "which cannot be used for an external topic; use a ConfigMap of the namespace default" in message(status)
    kafka.settle(broker(config=("shared", "config")), settings)
    assert kafka.world.channels["b-main"].secret == "shared/shop"
