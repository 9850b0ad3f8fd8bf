"""The inputs of a topology: the contract, the statuses of workers, and traffic summed over a window.

The caller reads all of it. `sums` adds traffic up.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from analytics.topology.model.document import Tier, Window
from knative.contract.records import Channel, Subscription
from knative.traffic.counts import Counts
from knative.traffic.latency_sketch import LatencySketch

if TYPE_CHECKING:
    from analytics.topology.model.arrivals import Arrivals, Stream

STALE_S = 300.0  #: traffic that ends earlier than this before a time is not of that time


@dataclass(frozen=True, slots=True)
class State:
    """What the workers together report about one subscription."""

    ready: str  #: "True" | "False" | "Unknown"
    message: str = ""
    lag: int | None = None  #: events that are not settled
    in_flight: int = 0
    retrying: int = 0
    delivered_per_s: float = 0.0
    last_error: str = ""


@dataclass(slots=True)
class Traffic:
    """Sums over the window for one key. `accepted`: what ingress stored; otherwise what a subscription settled."""

    accepted: bool
    namespace: str
    channel: str
    subscription: str = ""
    counts: Counts = field(default_factory=Counts)
    latency: LatencySketch = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Inputs:
    """All inputs. `states` is by subscription uid; no worker reports on a subscription that is not in it."""

    instance: str
    now: float  #: Unix seconds
    channels: Sequence[Channel]
    subscriptions: Sequence[Subscription]
    states: Mapping[str, State] = field(default_factory=dict)
    traffic: Sequence[Traffic] = ()
    arrivals: Arrivals[Stream] | None = None  #: None: not known
    #: by namespace and unique name of a channel: the types that somebody has declared for it. None is in no channel.
    declared: Mapping[tuple[str, str], Collection[str]] = field(default_factory=dict)
    window: Window = field(default_factory=Window)
    tier: Tier = Tier.NONE
    namespace: str = ""  #: only this one and its neighbours; "" = all
    workers: int = 0  #: workers that report to be running
    brokers: int = 0  #: of Kafka; 0 = not known
    replicas: Mapping[str, int] = field(default_factory=dict)  #: by topic, of the partition that has the fewest
    notes: tuple[str, ...] = ()  #: sentences on how the inputs were read, for the report

    @property
    def counted(self) -> bool:
        """Whether event counts are known: without them, senders are unknown."""
        return self.tier in (Tier.WINDOWS, Tier.DELTAS)

    @property
    def current(self) -> bool:
        """Whether the counts reach to now, so that they can be compared with the states, which are of now."""
        return self.now - self.window.end <= STALE_S
