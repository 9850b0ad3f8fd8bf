"""Where the supervisor waits for the parser of expressions: not on the event loop, which delivers meanwhile."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from lark import Lark

from agents import supervisor as module
from agents.config import DeliveryConfig
from agents.dispatch.context import DeliveryContext
from agents.http.egress_guard import EgressConfig, EgressGuard
from agents.http.pool import PoolConfig
from agents.supervisor import Supervisor
from knative.cesql import parser
from knative.contract.records import TRIGGER, Subscription
from knative.delivery.policy import Addressable
from knative.filters import compile_filter
from knative.filters.dialects import All, Cesql, Not
from tests.support.fakes import CountingObserve, MemoryProduce, VirtualClock

PLAIN = Subscription("p", 1, "ns", "plain", "c", "ch", "t", "t.dlq", 1, "g", Addressable("http://x/"), kind=TRIGGER)
PICKY = replace(PLAIN, uid="e", filter=All((Not(Cesql("type = 'a'")),)))


def _fail(problem: BaseException) -> None:
    raise AssertionError(problem)


def test_parser_is_built_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    builders: list[threading.Thread] = []
    started = asyncio.Event()

    def build(*arguments: Any, **options: Any) -> Lark:
        builders.append(threading.current_thread())
        return Lark(*arguments, **options)

    class Runner:
        def __init__(self, app: object, subscription: Subscription, *_: object) -> None:
            self.subscription = subscription
            compile_filter(subscription.filter)  # as its dispatcher does
            if subscription is PICKY:
                started.set()

    async def add(runner: object) -> None:
        """Nothing to start."""

    async def follow() -> None:
        config = DeliveryConfig({"bootstrap.servers": "127.0.0.1:1"})
        guard, clock = EgressGuard(EgressConfig()), VirtualClock()
        context = DeliveryContext(
            config, PoolConfig(), guard, MemoryProduce(), CountingObserve(), clock, _fail, lambda _: None
        )
        contract = SimpleNamespace(
            loaded=True, subscriptions={each.uid: each for each in (PLAIN, PICKY)}, on_change=lambda _: None
        )
        Supervisor(SimpleNamespace(add_runtime_dependency=add), contract, context).start()
        await asyncio.wait_for(started.wait(), 60)

    monkeypatch.setattr(module, "SubscriptionRunner", Runner)
    monkeypatch.setattr(parser, "Lark", build)
    parser._parser.cache_clear()
    asyncio.run(follow())
    (builder,) = builders
    assert builder is not threading.main_thread()
