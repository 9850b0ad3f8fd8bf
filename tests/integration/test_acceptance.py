"""Credentials that not every broker accepts, or whose user lacks a permission, are not used yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from app.worker.secrets.kafka_secret import KafkaSecret
from knative.errors import UsageError
from tests.support.kafka_cluster import KafkaCluster
from tests.support.processes import wait_until
from tests.support.secured_kafka import SecuredKafka, write_secret

pytestmark = pytest.mark.integration

TOPIC = "served"
BOTH, SECOND, FIRST = "known-to-both", "known-to-the-second", "known-to-the-first"
NEEDS = {TOPIC: ("READ", "WRITE"), "not-there-yet": ("READ",)}
LIMIT_S = 180.0
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Clients need a password, and each broker knows another user."""

    def also(settings: Mapping[str, str]) -> Mapping[str, str]:
        own = FIRST if str(kafka.brokers[0].proxy.server_port) in settings["listeners"] else SECOND
        users = " ".join(f'user_{name}="{name}"' for name in (BOTH, own))
        return {
            "listener.security.protocol.map": settings["listener.security.protocol.map"].replace(
                "CLIENTS:PLAINTEXT", "CLIENTS:SASL_PLAINTEXT"
            ),
            "listener.name.clients.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.clients.plain.sasl.jaas.config": f"{_PLAIN} {users};",
        }

    kafka = KafkaCluster(tmp_path_factory.mktemp("two"), brokers=2, also=also)
    with kafka:
        yield kafka


def _write(folder: Path, user: str) -> Path:
    return write_secret(folder, protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", user=user, password=user)


def _used(folder: Path, bootstrap: str) -> KafkaSecret:
    secret = KafkaSecret(folder, {"bootstrap.servers": bootstrap}, NEEDS)
    secret.use(secret.read())
    return secret


@pytest.mark.parametrize(("user", "number"), [(FIRST, 1), (SECOND, 0)])
def test_one_broker_does_not_accept_them_yet(two: KafkaCluster, tmp_path: Path, user: str, number: int) -> None:
    secret = _used(_write(tmp_path, BOTH), two.bootstrap)
    _write(tmp_path, user)
    refuses = rf"correct user and password .*\(broker 127.0.0.1:{two.brokers[number].proxy.port}\)"
    with pytest.raises(UsageError, match=refuses):
        secret.read()


def test_a_broker_that_does_not_answer_says_nothing_about_them(two: KafkaCluster, tmp_path: Path) -> None:
    secret = _used(_write(tmp_path, FIRST), two.bootstrap)
    _write(tmp_path, BOTH)
    two.brokers[1].proxy.blackhole()

    def used() -> bool:
        try:
            secret.use(secret.read())
        except UsageError:  # the client asks a random broker for topics
            return False
        return True

    try:
        wait_until("the other broker is enough", used, LIMIT_S)
    finally:
        two.brokers[1].proxy.forward()
    assert secret.kafka["sasl.username"] == BOTH


def test_a_user_that_lacks_a_permission(tmp_path: Path) -> None:
    with SecuredKafka(tmp_path / "kafka") as kafka:
        kafka.create_topic(TOPIC)
        for user in ("ann", "bob"):
            kafka.set_password(user, "x")
        folder = kafka.sasl_secret(tmp_path / "secret", "SCRAM-SHA-512", "ann", "x")
        secret = _used(folder, kafka.sasl)
        rule = kafka.permit("bob", TOPIC, "READ")
        kafka.sasl_secret(folder, "SCRAM-SHA-512", "bob", "x")
        with pytest.raises(UsageError, match=f"the user lacks a permission; grant it Write on topic {TOPIC}"):
            secret.read()
        kafka.allow(rule)
        secret.use(secret.read())
        assert secret.kafka["sasl.username"] == "bob"
