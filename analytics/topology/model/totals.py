"""Sums over the whole map and each namespace, and the fan-out: what one accepted event becomes. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TypeVar

from analytics.topology.model.document import Edge, Flow, Kind, Totals, Vertex
from analytics.topology.model.names import namespace_of

_CHANNELS = (Kind.CHANNEL, Kind.BROKER)
_CONSUMERS = (Kind.SUBSCRIPTION, Kind.TRIGGER)
N = TypeVar("N", int, float)


def sums(vertices: Iterable[Vertex], edges: Iterable[Edge], seconds: float) -> tuple[Totals, ...]:
    """Returns the sums of the whole map (namespace ""), then those of each namespace, the busiest first. `seconds`: the
    length of the window.

    Keeps no vertex and no edge, so the map may be of any size.
    """
    parts: defaultdict[str, _Sum] = defaultdict(_Sum)
    for vertex in vertices:
        if vertex.kind in _CHANNELS or vertex.kind in _CONSUMERS:
            for name in ("", vertex.namespace):
                parts[name].vertex(vertex)
    for edge in edges:
        if edge.kind in (Flow.DELIVERS, Flow.DEAD_LETTERS):
            for name in ("", namespace_of(edge.source)):
                parts[name].edge(edge)
    whole = parts.pop("", _Sum()).totals("", seconds)
    rows = [part.totals(name, seconds) for name, part in parts.items()]
    return (whole, *sorted(rows, key=lambda row: (-(row.events or 0.0), row.namespace)))


class _Sum:
    """The sums of one namespace, or of the whole map. Unknown figures are left out."""

    def __init__(self) -> None:
        self._channels = self._consumers = 0
        self._figures: dict[str, float] = {}

    def vertex(self, vertex: Vertex) -> None:
        if vertex.kind in _CHANNELS:
            self._channels += 1
            self._add("events", vertex.rate)
            self._add("bytes", vertex.bytes_rate)
        else:
            self._consumers += 1
            self._add("lag", vertex.lag)

    def edge(self, edge: Edge) -> None:
        if edge.kind is Flow.DEAD_LETTERS:
            self._add("dead", edge.rate)
        else:
            self._add("delivered", edge.rate)
            self._add("delivered_bytes", edge.bytes_rate)
            self._add("failures", edge.failures)

    def _add(self, name: str, value: float | None) -> None:
        if value is not None:
            self._figures[name] = self._figures.get(name, 0) + value

    def _get(self, name: str) -> float | None:
        value = self._figures.get(name)
        return None if value is None else round(value, 6)

    def totals(self, namespace: str, seconds: float) -> Totals:
        """Returns the sums as a row of the document. `seconds`: the length of the window."""
        failures, lag = self._figures.get("failures"), self._figures.get("lag")
        return Totals(
            namespace=namespace,
            channels=self._channels,
            subscriptions=self._consumers,
            events=self._get("events"),
            bytes_rate=self._get("bytes"),
            deliveries=self._get("delivered"),
            delivered_bytes=self._get("delivered_bytes"),
            failures=round(failures / seconds, 6) if failures is not None and seconds > 0 else None,
            dead_letters=self._get("dead"),
            lag=None if lag is None else int(lag),
            fan_out=_share(self._get("delivered"), self._get("events")),
            fan_out_bytes=_share(self._get("delivered_bytes"), self._get("events")),
        )


def _share(part: float | None, events: float | None) -> float | None:
    return round(part / events, 6) if part is not None and events else None


def total(values: Iterable[N | None]) -> N | None:
    """Returns the sum of the known values, to a millionth; None if there are none."""
    numbers = [value for value in values if value is not None]
    return round(sum(numbers), 6) if numbers else None
