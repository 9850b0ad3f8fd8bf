"""The Secret of two Brokers on a Kafka with users and ACLs: which credentials are used, and which are not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from app.observability.metrics import Metrics
from app.worker.producer.config import ProducerConfig
from app.worker.producer.kafka_producer import KafkaProducer
from app.worker.secrets.broker_secret import BrokerSecret
from knative.contract.broker_secrets import INVALID, SecretProblem
from tables.kafka.connection.secret import read_secret
from tests.support.secured_kafka import SecuredKafka

pytestmark = pytest.mark.integration

MAIN, CLOSED = "orders", "closed"
USERS = {"ann": [MAIN], "bob": [MAIN], "eve": [], "zoe": [MAIN, CLOSED]}
PASSWORD = "canary-0b6"


@pytest.fixture(scope="module")
def secured(secured_kafka: Callable[[], SecuredKafka]) -> SecuredKafka:
    kafka = secured_kafka()
    kafka.create_topic(MAIN)
    kafka.create_topic(CLOSED)
    for user, topics in USERS.items():
        kafka.set_password(user, PASSWORD)
        for topic in topics:
            kafka.grant(user, ResourceType.TOPIC, topic, [AclOperation.DESCRIBE])
    return kafka


def _producer(kafka: Mapping[str, Any], reference: str) -> KafkaProducer:
    return KafkaProducer(ProducerConfig(kafka, reference), Metrics())


def _write(kafka: SecuredKafka, folder: Path, user: str) -> Path:
    password = "wrong" if user.startswith("wrong") else PASSWORD
    return kafka.sasl_secret(folder, "SCRAM-SHA-512", user.removeprefix("wrong "), password)


async def _tried(
    kafka: SecuredKafka, root: Path, first: str, then: str, work: Callable[[BrokerSecret, dict[str, Any]], Any]
) -> Any:
    """What `work` returns for a Secret that had the first user, when its folder has the other one."""
    listener = {"bootstrap.servers": kafka.sasl}
    secret = BrokerSecret("shop/kafka", root, listener, _producer, lambda: None)
    secret.topics = (MAIN, CLOSED, "does-not-exist")
    folder = root / "shop" / "kafka"
    try:
        _write(kafka, folder, first)
        await secret.look()
        _write(kafka, folder, then)
        return await work(secret, {**listener, **read_secret(folder)})
    finally:
        await secret.stop(5.0)


@pytest.mark.parametrize(
    ("users", "message"),
    [
        (("ann", "wrong bob"), "correct user and password of the Kafka secret"),
        (("ann", "bob"), None),
        (("ann", "eve"), f"Describe on topic {MAIN}"),
        (("zoe", "ann"), f"Describe on topic {CLOSED}"),
        (("ann", "zoe"), None),
        (("eve", "ann"), None),
    ],
    ids=[
        "a wrong password",
        "a user who may do the same",
        "a user who may do nothing",
        "a user who may do less",
        "a user who may do more",
        "a user without any permission is used, as long as nothing is taken from anybody",
    ],
)
def test_a_change_takes_nothing_from_a_broker(
    secured: SecuredKafka, tmp_path: Path, users: tuple[str, str], message: str | None
) -> None:
    async def refusal(secret: BrokerSecret, kafka: dict[str, Any]) -> SecretProblem | None:
        assert secret.own is not None
        return await asyncio.to_thread(secret.refusal, kafka)

    problem = asyncio.run(_tried(secured, tmp_path, *users, refusal))
    if message is None:
        assert problem is None
    else:
        assert problem.reason == INVALID
        assert message in problem.message
        assert PASSWORD not in problem.message


def test_a_secret_that_was_not_accepted_is_tried_again_when_it_changes(secured: SecuredKafka, tmp_path: Path) -> None:
    async def used(secret: BrokerSecret, kafka: dict[str, Any]) -> None:
        assert (secret.own, secret.problem.reason) == (None, INVALID)
        assert "correct user and password of the Kafka secret" in secret.problem.message
        assert PASSWORD not in secret.problem.message
        await secret.look()
        assert secret.own is not None
        assert secret.own.kafka["sasl.username"] == secret.keys["user"] == "ann"

    asyncio.run(_tried(secured, tmp_path, "wrong ann", "ann", used))
