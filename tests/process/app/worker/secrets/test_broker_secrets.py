"""The folders of Brokers' Secrets, as far as no Kafka is needed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from app.worker.producer.config import ProducerConfig
from app.worker.producer.kafka_producer import KafkaProducer
from app.worker.secrets import broker_secrets as module
from app.worker.secrets.broker_secrets import BrokerSecrets, MakeProducer
from knative.contract.broker_secrets import INVALID, NOT_FOUND, SecretProblem
from knative.contract.records import Channel, Subscription
from tests.support.fakes import CountingObserve
from tests.support.secured_kafka import write_secret

KEYS = {"protocol": "SASL_PLAINTEXT", "user": "ann", "password": "canary"}
LIMIT_S = 180.0


class _Contract:
    """Brokers by the reference of their Secret."""

    def __init__(self) -> None:
        self.loaded = True
        self.subscriptions: dict[str, Subscription] = {}
        self.channels: dict[str, Channel] = {}
        self.listeners: list[Callable[[], None]] = []

    def on_change(self, listener: Callable[[], None]) -> None:
        self.listeners.append(listener)

    def change(self, *references: str) -> None:
        self.channels = {
            reference: Channel(
                reference, 1, "shop", reference, f"t.{reference}", "dlq", 1, kind="Broker", secret=reference
            )
            for reference in references
        }
        for listener in self.listeners:
            listener()


def _none(kafka: Mapping[str, Any], reference: str) -> KafkaProducer:
    raise AssertionError("no Kafka accepts it")


class World:
    """A worker whose Kafka does not run."""

    def __init__(self, root: Path | None, make_producer: MakeProducer = _none, drain_s: float = LIMIT_S) -> None:
        self.contract, self.changes = _Contract(), asyncio.Event()
        # Nothing listens on this port.
        others = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
        self.secrets = BrokerSecrets(
            root, others, self.contract, make_producer, lambda why: pytest.fail(str(why)), drain_s
        )
        self.secrets.on_change(self.changes.set)
        self.secrets.start()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for it, and look at each change."""
        async with asyncio.timeout(LIMIT_S):
            while not holds():
                await self.changes.wait()
                self.changes.clear()

    async def problem(self, reference: str) -> SecretProblem:
        """Of a Secret that was tried."""
        self.contract.change(reference)
        await self.until(lambda: self.secrets.tried)
        problem = self.secrets.get(reference)
        assert isinstance(problem, SecretProblem)
        await self.secrets.stop()
        return problem


def _problem(root: Path | None, reference: str = "shop/kafka") -> SecretProblem:
    async def tried() -> SecretProblem:
        return await World(root).problem(reference)

    return asyncio.run(tried())


def test_folder_that_appears_later_and_is_not_valid_at_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AGAIN_S", (0.05, 0.05))

    async def follow() -> None:
        world, told = World(tmp_path), list[SecretProblem]()
        world.secrets.on_change(lambda: told.append(world.secrets.problems["shop/kafka"]))
        world.contract.change("shop/kafka")
        assert (world.secrets.problems, world.secrets.tried) == ({}, False)
        await world.until(lambda: world.secrets.tried)
        message = "PENSTOCK_KAFKA_SECRETS has no folder shop/kafka; mount the Secret there"
        assert told == [SecretProblem(NOT_FOUND, message)]
        write_secret(tmp_path / "shop" / "kafka", **{**KEYS, "password": ""})
        await world.until(lambda: len(told) > 1)
        assert told[1:] == [SecretProblem(INVALID, "the Kafka secret shop/kafka is not valid: PLAIN needs password")]
        await world.secrets.stop()

    asyncio.run(follow())


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
    problem = _problem(tmp_path)
    assert problem.reason == reason
    assert message in problem.message
    assert "canary" not in problem.message
    assert str(tmp_path) not in problem.message, "senders see it"


def test_secret_without_the_setting_is_not_found() -> None:
    expected = "PENSTOCK_KAFKA_SECRETS is not set; set it to a folder that has shop/kafka"
    assert _problem(None) == SecretProblem(NOT_FOUND, expected)


def test_reference_never_leads_out_of_the_folder(tmp_path: Path) -> None:
    write_secret(tmp_path / "kafka", **KEYS)
    (tmp_path / "secrets" / "shop").mkdir(parents=True)
    for reference in ("shop/../../kafka", "../kafka", "/kafka", f"{tmp_path}/kafka"):
        problem = _problem(tmp_path / "secrets", reference)
        assert problem.reason == INVALID
        assert "is not a valid NAMESPACE/NAME of a Secret" in problem.message


def test_secrets_of_the_contract_are_tried(tmp_path: Path) -> None:
    """A worker is ready when it has tried those that it found first; not again because of a later one."""

    async def follow() -> None:
        world = World(tmp_path)
        secrets, contract = world.secrets, world.contract
        contract.change("shop/one", "shop/two")
        tried = [secrets.tried]
        assert secrets.producer("shop/one") == "the Kafka credentials of this broker cannot be used"
        await world.until(lambda: len(secrets.problems) == 2)
        tried.append(secrets.tried)
        assert "has no folder shop/two" in secrets.problems["shop/two"].message
        assert secrets.producer("shop/two") == f"the Kafka credentials of this broker cannot be used ({NOT_FOUND})"
        before = secrets.get("shop/two")
        contract.change("shop/three")
        assert secrets.problems == {}, "nobody needs them"
        contract.change("shop/two", "shop/three")
        tried.append(secrets.tried)
        assert tried == [False, True, True]
        assert list(secrets.problems) == ["shop/two"]
        assert secrets.get("shop/two") is before, "it was gone for a moment only"
        await secrets.stop()
        assert secrets.problems == {}

    asyncio.run(follow())


def test_producer_of_a_secret_that_nobody_needs_any_more_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last reference went while Kafka was asked."""
    monkeypatch.setattr(module, "refused", lambda *_: None)
    write_secret(tmp_path / "shop" / "kafka", **KEYS)

    async def follow() -> None:
        def make(kafka: Mapping[str, Any], reference: str) -> KafkaProducer:
            made.append(KafkaProducer(ProducerConfig(kafka=kafka, name=reference), CountingObserve()))
            return made[-1]

        made: list[KafkaProducer] = []
        world = World(tmp_path, make, drain_s=0.0)
        before = set(threading.enumerate())
        world.contract.change("shop/kafka")
        world.contract.change()
        async with asyncio.timeout(LIMIT_S):
            while world.secrets._tasks:
                await asyncio.sleep(0.01)
        assert len(made) == 1
        left = {thread.name for thread in set(threading.enumerate()) - before}
        assert "kafka-producer" not in left
        assert isinstance(world.secrets.get("shop/kafka"), SecretProblem)
        await world.secrets.stop()

    asyncio.run(follow())
