"""One subscription against real sockets, without its consumer: records are fed by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agents.config import DeliveryConfig
from agents.dispatch.context import DeliveryContext
from agents.dispatch.hops import OwnAddresses
from agents.dispatch.runner import SubscriptionRunner
from agents.http.egress_guard import EgressConfig, EgressGuard
from agents.http.pool import PoolConfig
from agents.offsets.offset_tracker import OffsetTracker
from agents.offsets.partition import PartitionState
from agents.reader.readers import Readers
from app.worker.system_clock import SystemClock
from knative.contract.records import Subscription
from knative.delivery.policy import Addressable, DeliveryOrder, DeliverySpec
from knative.tracing import Trace
from knative.traffic.counters import TrafficCounters
from tests.support.checked_state import CheckedDelivery
from tests.support.fakes import CountingObserve, MemoryProduce

LIMIT_S = 180.0
HEADERS: list[tuple[str, bytes | None]] = [
    ("ce_specversion", b"1.0"),
    ("ce_id", b"1"),
    ("ce_source", b"/s"),
    ("ce_type", b"t"),
]


def subscription_to(url: str, delivery: DeliverySpec, concurrency: int = 10) -> Subscription:
    return Subscription(
        "u", 1, "ns", "s", "c", "ch", "t", "t.dlq", 1, "g", Addressable(url),
        delivery=delivery, order=DeliveryOrder.UNORDERED, concurrency=concurrency,
    )  # fmt: skip


def fail(problem: BaseException) -> None:
    raise AssertionError(problem)


@asynccontextmanager
async def serving(
    subscription: Subscription,
    produce: MemoryProduce,
    observe: CountingObserve | None = None,
    trace: Trace | None = None,
    counters: TrafficCounters | None = None,
    addresses: OwnAddresses | None = None,
    revoke_drain_s: float = 3.0,
) -> AsyncIterator[SubscriptionRunner]:
    config = DeliveryConfig({"bootstrap.servers": "127.0.0.1:1"}, revoke_drain_s=revoke_drain_s)
    context = DeliveryContext(
        config,
        PoolConfig(),
        EgressGuard(EgressConfig()),
        produce,
        observe or CountingObserve(),
        SystemClock(),
        fail,
        lambda _: None,
        trace,
        counters,
        own_addresses=addresses or OwnAddresses(),
    )
    runner = SubscriptionRunner(None, subscription, context, Readers(config, context.observe, fail))
    try:
        yield runner
    finally:
        # As a consumer does first: else each request that is aborted makes room for the next one.
        scheduler = runner.dispatcher.scheduler
        runner.dispatcher.abandon(list({delivery.partition for delivery in (*scheduler.started, *scheduler.ready)}))
        await asyncio.wait_for(runner.on_stop(), LIMIT_S)


def feed(runner: SubscriptionRunner, number: int, count: int) -> PartitionState:
    """Records of a new partition."""
    partition = PartitionState("t", number, OffsetTracker(0))
    records = [CheckedDelivery(partition, at, None, b"x", HEADERS, 1) for at in range(count)]
    runner.dispatcher.scheduler.enqueue(partition, records)
    return partition
