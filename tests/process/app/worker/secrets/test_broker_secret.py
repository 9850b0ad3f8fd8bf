"""The folder of a Broker's Secret, as far as no Kafka is needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from app.worker.producer.kafka_producer import KafkaProducer
from app.worker.secrets.broker_secret import BrokerSecret
from app.worker.secrets.broker_secrets import BrokerSecrets
from knative.contract.broker_secrets import INVALID, NOT_FOUND, SecretProblem
from knative.contract.records import Channel, Subscription
from tests.support.secured_kafka import write_secret

KEYS = {"protocol": "SASL_PLAINTEXT", "user": "ann", "password": "canary"}


def _none(kafka: Mapping[str, Any], reference: str) -> KafkaProducer:
    raise AssertionError("no Kafka accepts it")


def _secret(root: Path | None, reference: str = "shop/kafka") -> tuple[BrokerSecret, list[SecretProblem]]:
    """A Secret, and its problems each time that it says that it has changed."""
    told: list[SecretProblem] = []
    # Nothing listens on this port.
    others = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
    found = BrokerSecret(reference, root, others, _none, lambda: told.append(found.problem))
    return found, told


def test_a_folder_that_appears_later_and_is_not_valid_at_first(tmp_path: Path) -> None:
    secret, told = _secret(tmp_path)
    assert (secret.problem.reason, secret.tried) == ("", False)
    asyncio.run(secret.look())
    message = "PENSTOCK_KAFKA_SECRETS has no folder shop/kafka; mount the Secret there"
    assert told == [SecretProblem(NOT_FOUND, message)]
    assert secret.tried
    asyncio.run(secret.look())
    assert len(told) == 1, "nothing has changed"
    write_secret(tmp_path / "shop" / "kafka", **{**KEYS, "password": ""})
    asyncio.run(secret.look())
    assert told[1:] == [SecretProblem(INVALID, "the Kafka secret shop/kafka is not valid: PLAIN needs password")]


@pytest.mark.parametrize(
    ("changes", "reason", "message"),
    [
        ({}, "", "Kafka does not answer"),
        ({"user": " "}, INVALID, r"the Kafka client rejects them (_INVALID_ARG)"),
        ({"protocol": "canary"}, INVALID, "protocol is not"),
    ],
)
def test_why_it_is_not_used(tmp_path: Path, changes: dict[str, str], reason: str, message: str) -> None:
    write_secret(tmp_path / "shop" / "kafka", **{**KEYS, **changes})
    secret, _ = _secret(tmp_path)
    asyncio.run(secret.look())
    assert secret.problem.reason == reason
    assert message in secret.problem.message
    assert "canary" not in secret.problem.message
    assert str(tmp_path) not in secret.problem.message, "senders see it"


def test_without_the_setting(tmp_path: Path) -> None:
    secret, told = _secret(None)
    asyncio.run(secret.look())
    expected = "PENSTOCK_KAFKA_SECRETS is not set; set it to a folder that has shop/kafka"
    assert told == [SecretProblem(NOT_FOUND, expected)]


def test_a_reference_never_leads_out_of_the_folder(tmp_path: Path) -> None:
    write_secret(tmp_path / "kafka", **KEYS)
    (tmp_path / "secrets" / "shop").mkdir(parents=True)
    for reference in ("shop/../../kafka", "../kafka", "/kafka", f"{tmp_path}/kafka"):
        secret, _ = _secret(tmp_path / "secrets", reference)
        asyncio.run(secret.look())
        assert secret.problem.reason == INVALID
        assert "is not NAMESPACE/NAME of a Secret" in secret.problem.message


class _Contract:
    """Brokers by the reference of their Secret."""

    def __init__(self, *references: str) -> None:
        self.loaded = True
        self.subscriptions: dict[str, Subscription] = {}
        self.channels: dict[str, Channel] = {}
        self.listeners: list[Callable[[], None]] = []
        self.change(*references)

    def on_change(self, listener: Callable[[], None]) -> None:
        self.listeners.append(listener)

    def change(self, *references: str) -> None:
        self.channels = {
            one: Channel(one, 1, "shop", one, f"t.{one}", f"t.{one}.dlq", 1, kind="Broker", secret=one)
            for one in references
        }
        for listener in self.listeners:
            listener()


def test_the_secrets_of_the_contract_are_watched(tmp_path: Path) -> None:
    """A worker is ready when it has tried those that it found first; not again because of a later one."""

    async def follow() -> None:
        contract = _Contract("shop/one", "shop/two")
        changes = asyncio.Event()
        secrets = BrokerSecrets(tmp_path, {}, contract, _none, lambda problem: pytest.fail(str(problem)), 60.0)
        secrets.on_change(changes.set)
        secrets.start()
        contract.change("shop/one", "shop/two")
        tried = [secrets.tried]
        assert secrets.producer("shop/one") == "the Kafka credentials of this broker cannot be used"
        async with asyncio.timeout(60):
            while len(secrets.problems) < 2:
                await changes.wait()
                changes.clear()
        tried.append(secrets.tried)
        assert secrets.problems["shop/two"].reason == NOT_FOUND
        assert "has no folder shop/two" in secrets.problems["shop/two"].message
        assert secrets.producer("shop/two") == f"the Kafka credentials of this broker cannot be used ({NOT_FOUND})"
        before = secrets.get("shop/two")
        contract.change("shop/three")
        assert list(secrets.problems) == [], "nobody needs them"
        contract.change("shop/two", "shop/three")
        tried.append(secrets.tried)
        assert tried == [False, True, True]
        assert list(secrets.problems) == ["shop/two"]
        assert secrets.get("shop/two") is before, "it was gone for a moment only"
        await secrets.stop()
        assert secrets.problems == {}

    asyncio.run(follow())
