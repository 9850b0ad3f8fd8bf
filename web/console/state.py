"""What pages are made of: the installation at one moment, and what they ask Kafka for. `app` supplies both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from knative.contract.records import Subscription, WorkerStatus
from tables.resource_status import ResourceStatus
from tables.traffic_windows.view import HeldRows

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class State:
    """Nothing in it changes. Times are Unix seconds."""

    instance: str
    now_s: float  #: when it was taken
    at_s: float  #: the moment that it is about; earlier than `now_s` while Kafka is away
    kafka_away: bool
    resources: tuple[ResourceStatus, ...]
    workers: tuple[WorkerStatus, ...]  #: all records, including those of workers that are gone
    letters: Mapping[str, int] | None  #: label of a subscription -> dead letters not redriven; None = not counted yet
    traffic: HeldRows | None  #: windows of 10 s; None = traffic is not counted


@dataclass(frozen=True, slots=True)
class Known(Generic[T_co]):
    """A value that was read from Kafka at some time."""

    value: T_co
    at_s: float


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """A row of `penstock lag`. `seconds` None: its oldest record could not be read."""

    partition: int
    events: int
    seconds: float | None
    committed: int | None  #: None: nothing is committed there
    start: int
    end: int
    settled_above: int  #: events above the committed offset
    state: str | None  #: what is unusual; None: nothing


@dataclass(frozen=True, slots=True)
class MapFinding:
    """What is wrong with the topology, or worth a look. `severity`: critical, warning or info."""

    severity: str
    word: str
    title: str
    evidence: tuple[str, ...]
    remedy: str


@dataclass(frozen=True, slots=True)
class MapEdge:
    """Where events go, as a row. Figures are of the last minute; None = not known."""

    source: str
    flow: str
    target: str
    health: str  #: ok, idle, degraded, failed or unknown
    per_s: float | None
    lag: int | None
    failures: int | None
    p99_s: float | None


@dataclass(frozen=True, slots=True)
class MapView:
    """The current topology."""

    version: str  #: of `data`: the same data has the same
    data: bytes  #: JSON for the scripts of the map
    group_icon: str  #: path of the sign of namespaces
    legend: tuple[tuple[str, str], ...]  #: path and word of each kind of vertex
    vertices: int
    accepted_per_s: float | None
    delivered_per_s: float | None
    lag: int
    findings: tuple[MapFinding, ...]  #: the worst first
    edges: tuple[MapEdge, ...]
    left_out: int  #: vertices that are only counted
    note: str | None  #: why there are no findings


class Reads(Protocol):
    """What pages may ask for. Event loop only. No call takes longer than a second, even when Kafka is away."""

    async def state(self) -> State:
        """Returns the installation now."""

    async def lag(self, subscription: Subscription) -> Known[Sequence[PartitionLag]] | None:
        """Returns the last lag of each partition that Kafka has answered; None: it has not answered yet."""

    async def map(self, state: State) -> MapView:
        """Returns the topology of a state."""

    def rest(self) -> None:
        """No page is open: stop what costs anything."""
