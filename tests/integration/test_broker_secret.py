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
from tables.kafka.connection.live_settings import present
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


async def _users(kafka: SecuredKafka, root: Path, *users: str) -> tuple[list[str], SecretProblem]:
    """The user of its clients after each of these was written into the folder; "" = there are no clients."""
    listener = {"bootstrap.servers": kafka.sasl}
    secret = BrokerSecret("shop/kafka", root, listener, _producer, lambda: None)
    secret.topics = (MAIN, CLOSED, "does-not-exist")
    found = []
    try:
        for user in users:
            password = "wrong" if user.startswith("wrong") else PASSWORD
            kafka.sasl_secret(root / "shop" / "kafka", "SCRAM-SHA-512", user.removeprefix("wrong "), password)
            await secret.look()
            found.append("" if secret.own is None else present(secret.own.kafka)["sasl.username"])
    finally:
        await secret.stop(5.0)
    return found, secret.problem


@pytest.mark.parametrize(
    ("users", "expected"),
    [
        (("wrong ann", "ann"), ["", "ann"]),
        (("ann", "wrong bob", "bob"), ["ann", "ann", "bob"]),
        (("ann", "eve", "zoe"), ["ann", "ann", "zoe"]),
        (("zoe", "ann"), ["zoe", "zoe"]),
        (("eve", "ann"), ["eve", "ann"]),
    ],
    ids=[
        "a wrong password",
        "a wrong password later",
        "a user who may not do what the former may, and one who may do more",
        "a user who may do less",
        "a user without any permission is used, as long as nothing is taken from anybody",
    ],
)
def test_who_is_used(secured: SecuredKafka, tmp_path: Path, users: tuple[str, ...], expected: list[str]) -> None:
    found, problem = asyncio.run(_users(secured, tmp_path, *users))
    assert found == expected
    if users[0].startswith("wrong"):
        assert problem.reason == INVALID
        assert "correct user and password of the Kafka secret" in problem.message
        assert PASSWORD not in problem.message
