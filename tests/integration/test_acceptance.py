"""Credentials that not every broker accepts, or whose user lacks a permission, are not used yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tables.kafka.acceptance import Refusal, refused
from tables.kafka.connection.secret import read_secret
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


def _refused(folder: Path, bootstrap: str) -> Refusal | None:
    return refused({"bootstrap.servers": bootstrap, **read_secret(folder)}, NEEDS)


@pytest.mark.parametrize(("user", "number"), [(FIRST, 1), (SECOND, 0)])
def test_one_broker_does_not_accept_them_yet(two: KafkaCluster, tmp_path: Path, user: str, number: int) -> None:
    refusal = _refused(_write(tmp_path, user), two.bootstrap)
    assert refusal is not None
    assert "correct user and password" in refusal.why
    assert f"(broker 127.0.0.1:{two.brokers[number].proxy.port})" in refusal.why


def test_broker_that_does_not_answer_says_nothing_about_them(two: KafkaCluster, tmp_path: Path) -> None:
    folder = _write(tmp_path, BOTH)
    two.brokers[1].proxy.blackhole()
    try:
        # The client asks a random broker for topics.
        wait_until("the other broker is enough", lambda: _refused(folder, two.bootstrap) is None, LIMIT_S)
    finally:
        two.brokers[1].proxy.forward()


def test_user_that_lacks_a_permission(tmp_path: Path) -> None:
    with SecuredKafka(tmp_path / "kafka") as kafka:
        kafka.create_topic(TOPIC)
        kafka.set_password("bob", "x")
        folder = kafka.sasl_secret(tmp_path / "secret", "SCRAM-SHA-512", "bob", "x")
        rule = kafka.permit("bob", TOPIC, "READ")
        refusal = _refused(folder, kafka.sasl)
        assert refusal is not None
        assert refusal.why == f"the user has no permission; grant Write on topic {TOPIC}"
        kafka.allow(rule)
        assert _refused(folder, kafka.sasl) is None
