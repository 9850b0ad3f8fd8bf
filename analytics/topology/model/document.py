"""The topology as a document: the source of every output (page, JSON, CSV, Mermaid, DOT), and comparable between runs.

    source --sends--> event type --carries--> channel

    source --publishes--> channel --subscribes--> subscription --delivers------> subscriber (or a channel)
                                                       |------replies-------> reply destination (or a channel)
                                                       |------dead-letters--> dead letter sink, DLQ topic (or a channel)

Ids are stable from run to run: `channel:ns/name`, `broker:ns/name`, `subscription:ns/name`, `trigger:ns/name`,
`dlq:ns/name` (the DLQ topic of that channel; `dlq:ns/broker:name` of a broker), `uri:http://...` (an HTTP destination
outside), and
`source:...` and `type:...` (`source` and `type` of CloudEvents: arbitrary text of a sender, so never trust it in a
page). Event types join nothing: no walk passes them. A destination that
is the address of a channel in the contract *is* that channel. None as a number means: not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeVar

import orjson

from knative.errors import PenstockError

SCHEMA_VERSION = 1
#: What exports say about a document with `partial`.
A_PART = "A part of a large map. It has what findings and rankings name, and the busiest."
LISTED_MAX = 20  #: of what a finding or a ranking names: triggers, pairs, cycles, channels

Scalar = str | int | float | bool | None


class Kind(StrEnum):
    """Kinds of vertices. A URI has the first of subscriber, reply-target, dead-letter-sink; see `roles`."""

    SOURCE = "source"
    CHANNEL = "channel"
    BROKER = "broker"
    SUBSCRIPTION = "subscription"
    TRIGGER = "trigger"
    SUBSCRIBER = "subscriber"
    REPLY_TARGET = "reply-target"
    DEAD_LETTER_SINK = "dead-letter-sink"
    DLQ = "dlq"
    EVENT_TYPE = "event-type"


class Flow(StrEnum):
    """Kinds of edges."""

    PUBLISHES = "publishes"
    SUBSCRIBES = "subscribes"
    DELIVERS = "delivers"
    REPLIES = "replies"
    DEAD_LETTERS = "dead-letters"
    CARRIES = "carries"  #: from an event type to a channel that events of the type came to
    SENDS = "sends"  #: from a source to the type of its events


OF_TYPES = frozenset({Flow.CARRIES, Flow.SENDS})  #: they join nothing: no walk passes them


class Health(StrEnum):
    """Health of a vertex or an edge. `unknown`: no worker reports it; `idle`: healthy, and nothing came in the
    window."""

    OK = "ok"
    IDLE = "idle"
    DEGRADED = "degraded"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Severity(StrEnum):
    """How bad a finding is. `critical`: events are lost or multiply; `warning`: they will when something fails; `info`:
    worth a look."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


SEVERITIES = tuple(Severity)  #: the worst first


class Tier(StrEnum):
    """Where the traffic numbers come from, the best first."""

    WINDOWS = "windows"  #: the Parquet windows of `penstock job traffic`
    DELTAS = "deltas"  #: the workers' deltas of each second
    STATUS = "status"  #: the workers' current status: rates of the last minute and lag, but no senders
    NONE = "none"  #: the contract only


@dataclass(frozen=True, slots=True)
class Vertex:
    """Rates are events and bytes per second over the window: into a channel or destination, out of a source."""

    id: str
    kind: Kind
    namespace: str  #: "" for sources and URIs
    name: str
    label: str  #: for people: `namespace/name`, the URI, the source
    health: Health = Health.UNKNOWN
    message: str = ""  #: why it is not ok
    roles: tuple[str, ...] = ()  #: of a URI: all its kinds
    rate: float | None = None
    bytes_rate: float | None = None
    lag: int | None = None  #: events, of a subscription or trigger
    island: int = 0  #: number of its island; 1 is the largest, 0 that of an event type
    detail: Mapping[str, Scalar] = field(default_factory=dict)  #: further details for tables: topic, group, order, ...


@dataclass(frozen=True, slots=True)
class Edge:
    """Events that go from one vertex to another. Counts are of the window, rates are per second."""

    id: str
    source: str  #: id of a vertex
    target: str  #: id of a vertex
    kind: Flow
    health: Health = Health.UNKNOWN
    events: int | None = None
    rate: float | None = None
    bytes_rate: float | None = None
    lag: int | None = None
    failures: int | None = None  #: attempts that failed (delivers), events (dead-letters)
    latency_p50_s: float | None = None  #: from stored to delivered
    latency_p99_s: float | None = None
    detail: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong or worth a look. `id` (rule, subject) is stable. `objects` are vertex ids, the subject first."""

    id: str
    rule: str
    severity: Severity
    title: str
    objects: tuple[str, ...]
    evidence: tuple[str, ...]  #: sentences, each one fact
    remedy: str
    edges: tuple[str, ...] = ()  #: ids of edges to highlight with it


@dataclass(frozen=True, slots=True)
class Rank:
    """A place in a ranking: `value` in the unit of the ranking, the highest first."""

    id: str  #: of a vertex
    value: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The first vertices by some figure."""

    name: str  #: influence | traffic | lag | cut | reach
    title: str
    unit: str
    rows: tuple[Rank, ...]


@dataclass(frozen=True, slots=True)
class Reach:
    """What the events of a source can reach."""

    source: str  #: id of the source
    reached: int  #: number of vertices
    hops_max: int  #: edges to the farthest
    hops: Mapping[str, int]  #: vertex id -> edges to it, nearest first; bounded, see `reached`


@dataclass(frozen=True, slots=True)
class Island:
    """A part that no edge joins to the others."""

    number: int  #: 1 is the largest
    size: int
    channels: int
    rate: float | None
    members: tuple[str, ...]  #: ids, bounded; see `size`


@dataclass(frozen=True, slots=True)
class Window:
    """The time span of counts and rates, in Unix seconds; both 0 = no traffic was read."""

    start: float = 0.0
    end: float = 0.0

    @property
    def seconds(self) -> float:
        """The length of the window."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Totals:
    """Rates are per second, None if not known. A delivery belongs to the namespace of its subscription."""

    namespace: str  #: "" = the whole map
    channels: int  #: and brokers
    subscriptions: int  #: and triggers
    events: float | None  #: accepted, replies too
    bytes_rate: float | None
    deliveries: float | None
    delivered_bytes: float | None
    failures: float | None  #: attempts of deliveries
    dead_letters: float | None
    lag: int | None
    fan_out: float | None  #: deliveries per accepted event
    fan_out_bytes: float | None  #: delivered bytes per accepted event


@dataclass(frozen=True, slots=True)
class Topology:
    """One run. Vertices and edges are sorted by id, findings by severity, then id."""

    generated_at: float  #: Unix seconds
    instance: str
    namespace: str  #: the filter; "" = all
    window: Window
    tier: Tier
    engine: str  #: local | graphframes
    method: tuple[str, ...]  #: sentences: how each part was computed, what was left out and why
    vertices: tuple[Vertex, ...]
    edges: tuple[Edge, ...]
    findings: tuple[Finding, ...] = ()
    rankings: tuple[Ranking, ...] = ()
    reach: tuple[Reach, ...] = ()
    islands: tuple[Island, ...] = ()
    totals: tuple[Totals, ...] = ()  #: of the whole map, then of each namespace
    partial: bool = False  #: vertices and edges are a part of a large map, see `selection`; the rest is complete
    schema_version: int = SCHEMA_VERSION


class UnreadableTopology(PenstockError):
    """The file is not a topology of this version."""


def without_types(topology: Topology) -> Topology:
    """Returns the topology without event types, for pictures and lineage: event types join nothing."""
    vertices = tuple(vertex for vertex in topology.vertices if vertex.kind is not Kind.EVENT_TYPE)
    edges = tuple(edge for edge in topology.edges if edge.kind not in OF_TYPES)
    return replace(topology, vertices=vertices, edges=edges)


def edge_id(kind: Flow, source: str, target: str) -> str:
    """Returns the id of an edge: two vertices have at most one edge of a kind."""
    return f"{source} {kind} {target}"


def to_json(topology: Topology) -> bytes:
    """Returns the content of `topology.json`: one object, UTF-8, with the fields of the dataclasses."""
    return orjson.dumps(topology)


def from_json(data: bytes) -> Topology:
    """Reverses `to_json`. Ignores unknown fields (of a later version). Raises UnreadableTopology."""
    try:
        row = orjson.loads(data)
    except ValueError as problem:
        raise UnreadableTopology(
            f"This is not a topology.json ({problem}).", "Use a file that `penstock topology --out` wrote."
        ) from problem
    version = row.get("schema_version") if isinstance(row, dict) else None
    if version != SCHEMA_VERSION:
        reason = "has no schema_version" if version is None else f"is of schema {version}"
        raise UnreadableTopology(
            f"This topology.json {reason}; this version knows {SCHEMA_VERSION}.", "Create it again with this version."
        )
    try:
        if not row["totals"]:
            raise ValueError("it has no totals")
        return _topology(row)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise UnreadableTopology(
            f"This topology.json is damaged ({problem!r}).", "Create it again with `penstock topology --out`."
        ) from problem


def _topology(row: Mapping[str, Any]) -> Topology:
    return _make(
        Topology,
        row,
        window=_make(Window, row["window"]),
        tier=Tier(row["tier"]),
        method=tuple(row["method"]),
        vertices=tuple(_vertex(vertex) for vertex in row["vertices"]),
        edges=tuple(_make(Edge, edge, kind=Flow(edge["kind"]), health=Health(edge["health"])) for edge in row["edges"]),
        findings=tuple(_finding(finding) for finding in row["findings"]),
        rankings=tuple(
            _make(Ranking, ranking, rows=tuple(_make(Rank, rank) for rank in ranking["rows"]))
            for ranking in row["rankings"]
        ),
        reach=tuple(_make(Reach, reach) for reach in row["reach"]),
        islands=tuple(_make(Island, island, members=tuple(island["members"])) for island in row["islands"]),
        totals=tuple(_make(Totals, part) for part in row["totals"]),
    )


def _vertex(row: Mapping[str, Any]) -> Vertex:
    return _make(Vertex, row, kind=Kind(row["kind"]), health=Health(row["health"]), roles=tuple(row["roles"]))


def _finding(row: Mapping[str, Any]) -> Finding:
    return _make(
        Finding,
        row,
        severity=Severity(row["severity"]),
        objects=tuple(row["objects"]),
        evidence=tuple(row["evidence"]),
        edges=tuple(row["edges"]),
    )


T = TypeVar("T")


def _make(what: type[T], row: Mapping[str, Any], /, **read: Any) -> T:
    names: Mapping[str, Any] = what.__dataclass_fields__  # type: ignore[attr-defined]
    return what(**{**{name: row[name] for name in names if name in row}, **read})
