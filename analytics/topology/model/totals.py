"""Sums over the whole map and each namespace, and the fan-out: what one accepted event becomes. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from analytics.topology.model.document import Edge, Flow, Kind, Topology, Vertex

_CHANNELS = (Kind.CHANNEL, Kind.BROKER)
_CONSUMERS = (Kind.SUBSCRIPTION, Kind.TRIGGER)
N = TypeVar("N", int, float)


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


def totals_of(topology: Topology) -> tuple[Totals, ...]:
    """The whole map, then each namespace, the busiest first."""
    vertices: dict[str, list[Vertex]] = defaultdict(list)
    edges: dict[str, list[Edge]] = defaultdict(list)
    home = {vertex.id: vertex.namespace for vertex in topology.vertices}
    for vertex in topology.vertices:
        if vertex.namespace:
            vertices[vertex.namespace].append(vertex)
    for edge in topology.edges:
        edges[home.get(edge.source, "")].append(edge)
    whole = _totals("", topology.vertices, topology.edges, topology.window.seconds)
    parts = [_totals(name, some, edges[name], topology.window.seconds) for name, some in vertices.items()]
    return (whole, *sorted(parts, key=lambda part: (-(part.events or 0.0), part.namespace)))


def _totals(namespace: str, vertices: Sequence[Vertex], edges: Sequence[Edge], seconds: float) -> Totals:
    channels = [vertex for vertex in vertices if vertex.kind in _CHANNELS]
    consumers = [vertex for vertex in vertices if vertex.kind in _CONSUMERS]
    deliveries = [edge for edge in edges if edge.kind is Flow.DELIVERS]
    events = total(vertex.rate for vertex in channels)
    delivered, delivered_bytes = total(edge.rate for edge in deliveries), total(edge.bytes_rate for edge in deliveries)
    failures = total(edge.failures for edge in deliveries)
    return Totals(
        namespace,
        len(channels),
        len(consumers),
        events,
        total(vertex.bytes_rate for vertex in channels),
        delivered,
        delivered_bytes,
        round(failures / seconds, 6) if failures is not None and seconds > 0 else None,
        total(edge.rate for edge in edges if edge.kind is Flow.DEAD_LETTERS),
        total(vertex.lag for vertex in consumers),
        _share(delivered, events),
        _share(delivered_bytes, events),
    )


def _share(part: float | None, events: float | None) -> float | None:
    return round(part / events, 6) if part is not None and events else None


def total(values: Iterable[N | None]) -> N | None:
    """The sum of the known values; None if there are none."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None
