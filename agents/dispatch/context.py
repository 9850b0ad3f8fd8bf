"""What the dispatchers of a process share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agents.config import DeliveryConfig
from agents.http.egress_guard import EgressGuard
from agents.http.pool import PoolConfig
from agents.ordering.turns import Turns
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
    changed: Callable[[], None]  #: owned partitions or state are different now
    trace: Trace | None = None  #: None = no spans
    counters: TrafficCounters | None = None  #: None = what is settled is not summed up
    turns: Turns | None = None  #: None = none has to wait for the others
    gone: Callable[[], None] = lambda: None  #: a subscription was removed, and everything of it is free
