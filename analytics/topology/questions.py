"""Questions about vertices of a document: what is upstream and downstream of one, and which paths lead to another.

    impact   every vertex that events on their way to or from this one can pass, with the fewest hops to it; of an
             event type, who sends it, and who gets it in the channels that it came to
    paths    the paths from one to another, the shortest first, with the latency of their deliveries

A hop is one edge. What is measured is a delivery, from stored to answered: publishing and subscribing take no time of
their own. A reply leaves with the answer, so it has the latency of its delivery. What the retries of a dead letter take
is not known. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from analytics.topology.event_types import readers_of, takers, types_of
from analytics.topology.model.document import LISTED_MAX, OF_TYPES, Edge, Flow, Health, Kind, Topology, Vertex
from analytics.topology.model.names import delivered_by

Edges = Mapping[str, Sequence[Edge]]


@dataclass(frozen=True, slots=True)
class Reached:
    """A vertex upstream or downstream. Rates are its own, per second, and those of a sender of an event type are of
    this type; `flow`: of the last edge of a shortest way.
    `filter`: of a subscription, as JSON. `certain`: of a subscription that gets an event type from one of its channels;
    False if its filter may let only some of the events pass."""

    id: str
    kind: Kind
    label: str
    hops: int
    flow: Flow
    health: Health
    rate: float | None
    bytes_rate: float | None
    lag: int | None
    filter: str | None
    certain: bool | None


@dataclass(frozen=True, slots=True)
class Impact:
    """Both directions, the nearest first. The vertex itself is in neither, even if it is on a loop. `complete`: there
    are no others, because the document has all of the map."""

    vertex: Vertex
    upstream: tuple[Reached, ...]
    downstream: tuple[Reached, ...]
    complete: bool


@dataclass(frozen=True, slots=True)
class Step:
    """An edge of a path. Latencies in seconds; None = not measured."""

    id: str
    source: str
    target: str
    flow: Flow
    health: Health
    rate: float | None
    failures: int | None
    latency_p50_s: float | None
    latency_p99_s: float | None


@dataclass(frozen=True, slots=True)
class Path:
    """Latencies are sums over deliveries and replies, None if one is not known, or if a dead letter is among the steps.
    A sum of p99s is an upper estimate of the p99 of the whole."""

    steps: tuple[Step, ...]
    latency_p50_s: float | None
    latency_p99_s: float | None
    slowest: str | None  #: id of the edge with the highest p99; None = none is measured


@dataclass(frozen=True, slots=True)
class Paths:
    """Paths between two vertices. `complete`: there are no others."""

    source: str
    target: str
    paths: tuple[Path, ...]
    complete: bool


def vertices_named(topology: Topology, wish: str) -> tuple[Vertex, ...]:
    """Returns the vertices that `wish` names, by the first of these that names any: id, KIND/NAMESPACE/NAME, label,
    NAMESPACE/NAME, name. Event types come last: a channel often has the name of a type."""
    kind, _, rest = wish.partition("/")
    titled = f"{kind.lower().removeprefix('kafka')}/{rest}"
    rules: tuple[tuple[str, Callable[[Vertex], str]], ...] = (
        (wish, lambda vertex: vertex.id),
        (titled, title),
        (wish, lambda vertex: vertex.label),
        (wish, lambda vertex: f"{vertex.namespace}/{short_name(vertex)}"),
        (wish, short_name),
    )
    types = types_of(topology)
    for others in (True, False):
        for text, name_of in rules:
            if named := tuple(
                vertex for vertex in topology.vertices if (vertex.id not in types) is others and name_of(vertex) == text
            ):
                return named
    return ()


def title(vertex: Vertex) -> str:
    """Returns `channel/default/orders`, as in other commands; the id if it has no namespace. No two have the same."""
    return vertex.id.replace(":", "/", 1) if vertex.namespace else vertex.id


def short_name(vertex: Vertex) -> str:
    """Returns the name without its namespace. A DLQ topic is `orders.dlq`: its own name is that of its channel."""
    return f"{vertex.name}.dlq" if vertex.kind is Kind.DLQ else vertex.name


def impact(topology: Topology, vertex: Vertex) -> Impact:
    """Returns what is upstream and what is downstream of a vertex."""
    leaving, entering = _by_end(topology.edges)
    certain: dict[str, bool] = {}
    if vertex.kind is Kind.EVENT_TYPE:
        leaving, entering, certain = _of_type(topology, vertex, leaving)
    names = delivered_by(topology)
    of = {vertex.id: vertex for vertex in topology.vertices}
    of |= {id_: replace(of[id_], label=f"{name}, {of[id_].label}") for id_, name in names.items()}
    return Impact(
        vertex,
        _reached(of, vertex.id, entering, lambda edge: edge.source, {}),
        _reached(of, vertex.id, leaving, lambda edge: edge.target, certain),
        not topology.partial,
    )


def _of_type(topology: Topology, vertex: Vertex, leaving: Edges) -> tuple[Edges, Edges, dict[str, bool]]:
    """Returns the edges to walk from an event type, those to walk back, and which subscriptions get all its events."""
    carries = [edge for edge in topology.edges if edge.kind is Flow.CARRIES and edge.source == vertex.id]
    readers, certain, onward = readers_of(topology), dict[str, bool](), dict(leaving)
    for edge in carries:
        taking = takers(readers, vertex, edge.target)
        certain.update(taking)
        onward[edge.target] = [other for other in leaving.get(edge.target, ()) if other.target in taking]
    sends = [edge for edge in topology.edges if edge.kind is Flow.SENDS and edge.target == vertex.id]
    return {**onward, vertex.id: carries}, {vertex.id: sends}, certain


def paths(
    topology: Topology, source: str, target: str, paths_max: int = LISTED_MAX, steps_max: int = 1_000_000
) -> Paths:
    """Returns paths between two ids that pass no vertex twice, the shortest first. From a vertex to itself: its loops.

    `steps_max` bounds the search: a map with many rings has more ways than can be tried. A step is an edge that is
    added to a way, or copied with it. If there is a path, the answer has one in any case.
    """
    leaving, entering = _by_end(topology.edges)
    left = _hops(target, entering, lambda edge: edge.source)  # from a vertex to the target
    ways, complete = _search(source, target, leaving, left, paths_max, steps_max)
    if not ways and not complete:
        ways.append(_shortest(source, target, leaving, left))
    return Paths(source, target, tuple(_path(way, leaving) for way in ways), complete and not topology.partial)


Way = tuple[Edge, ...]


def _search(
    source: str, target: str, leaving: Edges, left: Mapping[str, int], paths_max: int, steps_max: int
) -> tuple[list[Way], bool]:
    """Returns the first paths, and whether these are all."""
    # By the least possible length, then by the distance to the end: else many equal paths would use up the limit.
    queue: list[tuple[int, int, int, Way]] = []
    steps = 0

    def push(way: Way, end: str) -> None:
        nonlocal steps
        passed = {end, *(edge.source for edge in way)}
        for edge in leaving.get(end, ()):
            steps += 1 + len(way)
            if edge.target in left and (edge.target == target or edge.target not in passed):
                heappush(queue, (len(way) + 1 + left[edge.target], left[edge.target], steps, (*way, edge)))

    push((), source)
    ways: list[Way] = []
    while queue and len(ways) < paths_max and steps < steps_max:
        *_, way = heappop(queue)
        if way[-1].target == target:
            ways.append(way)
        else:
            push(way, way[-1].target)
    return ways, not queue


def _shortest(source: str, target: str, leaving: Edges, left: Mapping[str, int]) -> Way:
    """Returns a way that comes nearer with each edge."""
    way: list[Edge] = []
    end = source
    while not way or end != target:
        onward = (edge for edge in leaving[end] if edge.target in left)
        way.append(min(onward, key=lambda edge: left[edge.target]))
        end = way[-1].target
    return tuple(way)


def _by_end(edges: Iterable[Edge]) -> tuple[Edges, Edges]:
    """Returns (by source, by target). Without event types, which would join what is not joined."""
    leaving: dict[str, list[Edge]] = defaultdict(list)
    entering: dict[str, list[Edge]] = defaultdict(list)
    for edge in edges:
        if edge.kind not in OF_TYPES:
            leaving[edge.source].append(edge)
            entering[edge.target].append(edge)
    return dict(leaving), dict(entering)


def _walk(start: str, steps: Edges, end: Callable[[Edge], str]) -> dict[str, tuple[int, Edge]]:
    """Returns id -> (hops, last edge) of everything that can be reached, the nearest first."""
    reached: dict[str, tuple[int, Edge]] = {}
    frontier, hops = [start], 0
    while frontier:
        hops += 1
        following = []
        for id_ in frontier:
            for edge in steps.get(id_, ()):
                other = end(edge)
                if other != start and other not in reached:
                    reached[other] = hops, edge
                    following.append(other)
        frontier = following
    return reached


def _hops(start: str, steps: Edges, end: Callable[[Edge], str]) -> dict[str, int]:
    return {start: 0, **{id_: hops for id_, (hops, _) in _walk(start, steps, end).items()}}


def _reached(
    of: Mapping[str, Vertex], start: str, steps: Edges, end: Callable[[Edge], str], certain: Mapping[str, bool]
) -> tuple[Reached, ...]:
    rows = (
        Reached(
            id_,
            vertex.kind,
            vertex.label,
            hops,
            edge.kind,
            vertex.health,
            *((edge.rate, edge.bytes_rate) if edge.kind is Flow.SENDS else (vertex.rate, vertex.bytes_rate)),
            vertex.lag,
            filter_ if isinstance(filter_ := vertex.detail.get("filter"), str) else None,
            certain.get(id_),
        )
        for id_, (hops, edge) in _walk(start, steps, end).items()
        if (vertex := of.get(id_)) is not None
    )
    return tuple(sorted(rows, key=lambda row: (row.hops, -(row.rate or 0.0), row.id)))


def _path(way: Sequence[Edge], leaving: Edges) -> Path:
    steps = tuple(_step(edge, leaving) for edge in way)
    timed = [step for step in steps if step.flow not in (Flow.PUBLISHES, Flow.SUBSCRIBES)]
    measured = [step for step in timed if step.latency_p99_s is not None]
    slowest = max(measured, key=lambda step: step.latency_p99_s or 0.0, default=None)
    return Path(
        steps,
        _sum(step.latency_p50_s for step in timed),
        _sum(step.latency_p99_s for step in timed),
        slowest.id if slowest is not None else None,
    )


def _step(edge: Edge, leaving: Edges) -> Step:
    timed: Edge | None = edge
    if edge.kind is Flow.REPLIES:
        timed = next((other for other in leaving[edge.source] if other.kind is Flow.DELIVERS), None)
    p50, p99 = (timed.latency_p50_s, timed.latency_p99_s) if timed is not None else (None, None)
    return Step(edge.id, edge.source, edge.target, edge.kind, edge.health, edge.rate, edge.failures, p50, p99)


def _sum(values: Iterable[float | None]) -> float | None:
    """Returns None if there is none, or one is not known."""
    parts = list(values)
    numbers = [value for value in parts if value is not None]
    return round(sum(numbers), 6) if numbers and len(numbers) == len(parts) else None
