"""The Secret of two Brokers on a Kafka with users and ACLs: which credentials are used, and which are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from agents.dispatch.own_kafka import OwnKafka
from app.worker.secrets.broker_secrets import BrokerSecret
from knative.contract.broker_secrets import INVALID
from tables.kafka.connection.secret import read_secret
from tests.support.fakes import MemoryProduce
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


def _settings(kafka: SecuredKafka, folder: Path, user: str) -> dict[str, Any]:
    """How to connect as this user."""
    password = "wrong" if user.startswith("wrong") else PASSWORD
    secret = kafka.sasl_secret(folder / user.replace(" ", "-"), "SCRAM-SHA-512", user.removeprefix("wrong "), password)
    return {"bootstrap.servers": kafka.sasl, **read_secret(secret)}


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
def test_change_takes_nothing_from_a_broker(
    secured: SecuredKafka, tmp_path: Path, users: tuple[str, str], message: str | None
) -> None:
    before, after = (_settings(secured, tmp_path, user) for user in users)
    secret = BrokerSecret("shop/kafka", (MAIN, CLOSED, "does-not-exist"))
    assert secret.refusal(before) is None, "nobody has used it so far"
    secret.own = OwnKafka(before, MemoryProduce())
    problem = secret.refusal(after)
    if message is None:
        assert problem is None
    else:
        assert problem is not None
        assert problem.reason == INVALID
        assert message in problem.message
        assert PASSWORD not in problem.message


def test_secret_that_is_not_accepted_at_first(secured: SecuredKafka, tmp_path: Path) -> None:
    problem = BrokerSecret("shop/kafka", (MAIN,)).refusal(_settings(secured, tmp_path, "wrong ann"))
    assert problem is not None
    assert problem.reason == INVALID
    assert "correct user and password of the Kafka secret" in problem.message
    assert PASSWORD not in problem.message
