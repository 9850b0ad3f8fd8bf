"""Sums over the whole map and each namespace, and the fan-out: what one accepted event becomes. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeVar

from analytics.topology.model.document import Edge, Flow, Kind, Topology, Totals, Vertex

_CHANNELS = (Kind.CHANNEL, Kind.BROKER)
_CONSUMERS = (Kind.SUBSCRIPTION, Kind.TRIGGER)
N = TypeVar("N", int, float)


def totals_of(topology: Topology) -> tuple[Totals, ...]:
    """Those of the document; of one that an earlier version wrote, the sums over what is in it."""
    return topology.totals or sums(topology.vertices, topology.edges, topology.window.seconds)


def sums(all_vertices: Sequence[Vertex], all_edges: Sequence[Edge], seconds: float) -> tuple[Totals, ...]:
    """The whole map, then each namespace, the busiest first. `seconds`: the length of the window."""
    vertices: dict[str, list[Vertex]] = defaultdict(list)
    edges: dict[str, list[Edge]] = defaultdict(list)
    home = {vertex.id: vertex.namespace for vertex in all_vertices}
    for vertex in all_vertices:
        if vertex.namespace:
            vertices[vertex.namespace].append(vertex)
    for edge in all_edges:
        edges[home.get(edge.source, "")].append(edge)
    whole = _totals("", all_vertices, all_edges, seconds)
    parts = [_totals(name, some, edges[name], seconds) for name, some in vertices.items()]
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
    """The sum of the known values, to a millionth; None if there are none."""
    known = [value for value in values if value is not None]
    return round(sum(known), 6) if known else None
