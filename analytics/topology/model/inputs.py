"""The inputs of a topology: the contract, the statuses of workers, and traffic summed over a window.

    deltas (topic) --Summing--\
                                  > Traffic, one for each kind, channel, subscription and source
    windows (Parquet) --Summing--/

The caller reads all of it. Each delta counts once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from analytics.topology.model.document import Tier, Window
from knative.contract.records import Channel, Subscription
from knative.traffic.counts import Counts
from knative.traffic.delta import ACCEPTED, SETTLED, Delta
from knative.traffic.latency_sketch import LatencySketch, merge

#: Limit of named sources; the rest, with the fewest events, is one vertex. Senders may invent any number of sources.
SOURCES_MAX = 2_000


@dataclass(frozen=True, slots=True)
class State:
    """What the workers together report of one subscription."""

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
    source: str = ""
    counts: Counts = field(default_factory=Counts)
    latency: LatencySketch = field(default_factory=dict)

    @property
    def key(self) -> tuple[bool, str, str, str, str]:
        """The key of the sum."""
        return self.accepted, self.namespace, self.channel, self.subscription, self.source


@dataclass(frozen=True, slots=True)
class Inputs:
    """All inputs. `states` is by subscription uid; no worker reports on a subscription that is not in it."""

    instance: str
    now: float  #: Unix seconds
    channels: Sequence[Channel]
    subscriptions: Sequence[Subscription]
    states: Mapping[str, State] = field(default_factory=dict)
    traffic: Sequence[Traffic] = ()
    window: Window = field(default_factory=Window)
    tier: Tier = Tier.NONE
    namespace: str = ""  #: only this one and its neighbours; "" = all
    workers: int = 0  #: workers that report to be running
    notes: tuple[str, ...] = ()  #: sentences on how the inputs were read, for the report

    @property
    def counted(self) -> bool:
        """Whether event counts are known: without them, senders are unknown."""
        return self.tier in (Tier.WINDOWS, Tier.DELTAS)


class Row(Protocol):
    """A window of the traffic job (`analytics/traffic/windows.Window`)."""

    @property
    def kind(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def channel(self) -> str: ...
    @property
    def subscription(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def counts(self) -> Counts: ...
    @property
    def latency(self) -> Mapping[int, int]: ...


class Summing:
    """Sums deltas or windows by key."""

    def __init__(self) -> None:
        self._sums: dict[tuple[bool, str, str, str, str], Traffic] = {}
        self._seen: set[tuple[str, int]] = set()

    def delta(self, delta: Delta) -> bool:
        """Add one record of the traffic topic; False: it was already counted."""
        identity = (delta.by, delta.number)
        if identity in self._seen:
            return False
        self._seen.add(identity)
        total = self._of(delta.kind == ACCEPTED, delta.namespace, delta.channel, delta.subscription, delta.source)
        total.counts += delta.counts
        merge(total.latency, delta.latency)
        return True

    def row(self, row: Row) -> None:
        """Add one merged window. `stored` and `accepted` count the same events, so the caller passes one of them."""
        total = self._of(row.kind != SETTLED, row.namespace, row.channel, row.subscription, row.source)
        total.counts += row.counts
        merge(total.latency, row.latency)

    def sums(self) -> list[Traffic]:
        """The sums in the order of their keys."""
        return [self._sums[key] for key in sorted(self._sums)]

    def _of(self, accepted: bool, namespace: str, channel: str, subscription: str, source: str) -> Traffic:
        # The sources of settled events are not needed: those of accepted events show the same.
        key = (accepted, namespace, channel, "" if accepted else subscription, source if accepted else "")
        if key not in self._sums:
            self._sums[key] = Traffic(accepted, namespace, channel, key[3], key[4])
        return self._sums[key]
