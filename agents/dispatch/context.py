"""What dispatchers share: configuration and ports of the process, and what the retry path needs of its dispatcher."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from agents.config import DeliveryConfig
from agents.dispatch.hops import OwnAddresses
from agents.http.egress_guard import EgressGuard
from agents.http.own_ingress import OwnIngress
from agents.http.pool import ConnectionPool, PoolConfig
from agents.offsets.late_commits import Reported
from agents.offsets.partition import Delivery, PartitionState
from agents.ordering.scheduler import Scheduler
from agents.ordering.turns import Turns
from knative.contract.records import Subscription
from knative.delivery.policy import Addressable
from knative.ports import Clock, Observe, Produce
from knative.tracing import Trace
from knative.traffic.counters import TrafficCounters


@dataclass(frozen=True, slots=True)
class DeliveryContext:
    """Configuration and ports for every subscription of a process."""

    config: DeliveryConfig
    pool_config: PoolConfig
    guard: EgressGuard
    produce: Produce
    observe: Observe
    clock: Clock
    fatal: Callable[[BaseException], None]
    changed: Callable[[str], None]  #: call it with a uid when its owned partitions or its state have changed
    trace: Trace | None = None  #: None = no spans
    counters: TrafficCounters | None = None  #: None = no traffic counts
    own_ingress: OwnIngress | None = None  #: None = no request carries a token
    own_addresses: OwnAddresses = field(default_factory=OwnAddresses)
    turns: Turns | None = None  #: None = no limit on starts per turn of the loop
    reported: Reported = lambda _: {}
    gone: Callable[[], None] = lambda: None  #: call it when a subscription was removed and its memory can be freed


class RetryContext(Protocol):
    """What the retry path needs of its subscription. Everything may change between two attempts."""

    subscription: Subscription
    scheduler: Scheduler

    def wants(self, delivery: Delivery) -> bool:
        """Returns whether the event still passes the filter, which may have changed since its first attempt."""

    def pool(self, destination: Addressable) -> ConnectionPool:
        """Returns the pool for a destination."""

    def schedule_commit(self) -> None:
        """Request a commit."""

    async def barrier(self, partition: PartitionState) -> None:
        """Return when the attempts known now are committed."""

    def fatal(self, problem: BaseException) -> None:
        """End the process."""
