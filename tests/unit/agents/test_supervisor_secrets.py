"""Which clients the supervisor gives to the Triggers of a Broker that has a Secret of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from agents import supervisor as module
from agents.config import DeliveryConfig
from agents.dispatch.context import DeliveryContext
from agents.dispatch.own_kafka import OwnKafka
from agents.http.egress_guard import EgressConfig, EgressGuard
from agents.http.pool import PoolConfig
from agents.reader.readers import Readers
from agents.supervisor import Supervisor
from knative.contract.broker_secrets import SecretProblem
from knative.contract.records import TRIGGER, Subscription, WorkerState
from knative.delivery.policy import Addressable
from penstock.virtual_loop import run
from tests.support.fakes import CountingObserve, MemoryProduce, VirtualClock

REFERENCE = "shop/kafka"
ONE = Subscription(
    "u", 1, "ns", "one", "c", "ch", "t", "t.dlq", 1, "g", Addressable("http://x/"), kind=TRIGGER, secret=REFERENCE
)
UNTRIED = SecretProblem("", "the Kafka secret shop/kafka has not been tried yet")


@dataclass(eq=False)
class _Runner:
    """Starts and leaves at once. Says with which clients."""

    app: Any
    subscription: Subscription
    context: DeliveryContext
    fanouts: Readers
    beacon: object = None
    view: Any = None

    def __post_init__(self) -> None:
        self.app.running.append(self.context.produce)
        self.view = SimpleNamespace(status=lambda: self.subscription.generation)

    async def leave(self, drain_s: float) -> None:
        self.app.running.remove(self.context.produce)


@dataclass
class _App:
    running: list[Any] = field(default_factory=list)
    _children: tuple[object, ...] = ()
    beacon: Any = field(default_factory=lambda: SimpleNamespace(discard=lambda _: None))

    async def add_runtime_dependency(self, runner: object) -> None:
        """Nothing to start."""


class _Secrets:
    """One Secret, as the test says."""

    def __init__(self) -> None:
        self.kafka: OwnKafka | SecretProblem = UNTRIED
        self.listeners: list[Callable[[], None]] = []

    def get(self, reference: str) -> OwnKafka | SecretProblem:
        assert reference == REFERENCE
        return self.kafka

    def on_change(self, listener: Callable[[], None]) -> None:
        self.listeners.append(listener)

    async def change(self, kafka: OwnKafka | SecretProblem) -> None:
        """And wait until that is followed."""
        self.kafka = kafka
        for listener in self.listeners:
            listener()
        await asyncio.sleep(1.0)


class _Contract:
    loaded = True

    def __init__(self) -> None:
        self.subscriptions = {ONE.uid: ONE}

    def on_change(self, listener: Callable[[], None]) -> None:
        """It never changes."""


def _fail(problem: BaseException) -> None:
    raise AssertionError(problem)


def test_trigger_starts_once_its_secret_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SubscriptionRunner", _Runner)

    async def follow() -> None:
        app, secrets = _App(), _Secrets()
        config = DeliveryConfig({"bootstrap.servers": "127.0.0.1:1"})
        context = DeliveryContext(
            config,
            PoolConfig(),
            EgressGuard(EgressConfig()),
            MemoryProduce(),
            CountingObserve(),
            VirtualClock(),
            _fail,
            lambda _: None,
        )
        supervisor = Supervisor(app, _Contract(), context, secrets)
        supervisor.start()
        own = OwnKafka({}, MemoryProduce())
        await secrets.change(UNTRIED)
        assert app.running == []
        assert supervisor.statuses()[ONE.uid].state is WorkerState.SECRET_NOT_TRIED
        await secrets.change(own)
        assert app.running == [own.produce]
        await secrets.change(own)
        assert app.running == [own.produce], "nothing has changed"

    run(follow())
