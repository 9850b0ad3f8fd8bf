"""The graph of the page: a limited number of vertices in groups, the most important ones as themselves.

    Topology --gather--> PageGraph    items (vertices, and one `rest` per group that stands for those left out)
                                      lines (edges, and sums of the edges to and from a rest)

A group is a namespace. A vertex without one (source, address) belongs to the namespace of its neighbours if they have
only one, else to one of two shared groups. Here every text is made visible and cut, once. Everything that is left out
is counted in the rests and in `omitted_edges`.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from analytics.topology.model.document import SEVERITIES, Edge, Health, Kind, Severity, Topology, Vertex, without_types
from analytics.topology.model.names import delivered_by
from analytics.topology.model.totals import total
from analytics.topology.report import words
from knative import shown

ITEMS_MAX = 6_000
LINES_MAX = 12_000
SUMS_MAX = 2_000  #: lines to and from what was left out
DETAILS_MAX = 16

#: Rules of findings about events that return to where they were.
LOOP_RULES = frozenset({"self-reply", "reply-loop", "reply-chain", "dead-letter-loop"})

#: The worst first; a sum of several shows the worst.
HEALTHS = tuple(map(Health, words.HEALTHS))
_WORST = {health: place for place, health in enumerate(HEALTHS)}

#: Groups of vertices without a namespace: keys that no namespace can have, and their titles in the page.
_SENDERS, _ADDRESSES = "\x00senders", "\x00addresses"
_SHARED = {_SENDERS: "senders of several namespaces", _ADDRESSES: "addresses of several namespaces"}

Details = tuple[tuple[str, str], ...]
N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True)
class Group:
    """A namespace, or vertices shared by several. `size`: all its vertices, including those left out."""

    label: str
    shared: bool
    size: int


@dataclass(frozen=True, slots=True)
class Item:
    """A vertex, or (`stands_for` > 1 or kind `rest`) the sum of the left-out vertices of a group."""

    anchor: str  #: fragment of its link; stable from run to run
    kind: str
    label: str
    short: str
    group: int
    health: Health
    message: str = ""
    roles: tuple[str, ...] = ()
    rate: float | None = None
    bytes_rate: float | None = None
    lag: int | None = None
    island: int = 0
    details: Details = ()
    findings: tuple[int, ...] = ()  #: indexes in Topology.findings, the worst first
    severity: Severity | None = None  #: of the worst finding
    stands_for: int = 1


@dataclass(frozen=True, slots=True)
class Line:
    """An edge between two items, by their indexes; or the sum of `stands_for` edges."""

    source: int
    target: int
    kind: str
    health: Health
    rate: float | None = None
    bytes_rate: float | None = None
    events: int | None = None
    lag: int | None = None
    failures: int | None = None
    latency_p50_s: float | None = None
    latency_p99_s: float | None = None
    details: Details = ()
    stands_for: int = 1
    loop: bool = False  #: part of a critical loop


@dataclass(frozen=True, slots=True)
class PageGraph:
    """What the page shows. Items are in order of importance, the rests last."""

    groups: tuple[Group, ...]
    items: tuple[Item, ...]
    lines: tuple[Line, ...]
    places: Mapping[str, int]  #: id of a vertex -> its index, if it is an item
    omitted_vertices: int
    omitted_edges: int


def worst(healths: Iterable[Health]) -> Health:
    """Returns the health to show for several."""
    return min(healths, key=_WORST.__getitem__, default=Health.UNKNOWN)


def anchor(vertex_id: str) -> str:
    """Returns the fragment of a vertex: short, safe, stable."""
    return f"v-{hashlib.sha256(vertex_id.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


def gather(topology: Topology, items_max: int = ITEMS_MAX, lines_max: int = LINES_MAX) -> PageGraph:
    """Builds the page's graph, with at most this many vertices and edges as themselves. Event types are a table."""
    topology = without_types(topology)
    homes = _homes(topology)
    sizes = Counter(homes.values())
    keys = sorted(sizes, key=lambda key: (key in _SHARED, key))
    numbers = {key: number for number, key in enumerate(keys)}
    groups = tuple(Group(shown.visible(_SHARED.get(key, key), 80), key in _SHARED, sizes[key]) for key in keys)
    index = _findings_by_object(topology)
    names = delivered_by(topology)
    ordered = sorted(topology.vertices, key=lambda vertex: _importance(vertex, topology, index))
    kept, left = ordered[:items_max], ordered[items_max:]
    items = [
        _item(vertex, numbers[homes[vertex.id]], index.get(vertex.id, ()), topology, names.get(vertex.id))
        for vertex in kept
    ]
    places = {vertex.id: place for place, vertex in enumerate(kept)}
    rests: dict[str, int] = {}
    by_group: dict[int, list[Vertex]] = defaultdict(list)
    for vertex in left:
        by_group[numbers[homes[vertex.id]]].append(vertex)
    for group, members in sorted(by_group.items()):
        for member in members:
            rests[member.id] = len(items)
        items.append(_rest(group, groups[group], members))
    lines, omitted = _lines(topology, places, rests, lines_max)
    return PageGraph(groups, tuple(items), lines, places, len(left), omitted)


def _homes(topology: Topology) -> dict[str, str]:
    """Returns vertex id -> its namespace, or the key of a shared group. Walks the edges, maybe a million, only once."""
    homes = {vertex.id: vertex.namespace for vertex in topology.vertices}
    near: dict[str, str] = {}
    for edge in topology.edges:
        source_home, target_home = homes.get(edge.source), homes.get(edge.target)
        if source_home == "" and target_home:
            if near.setdefault(edge.source, target_home) != target_home:
                near[edge.source] = ""
        elif target_home == "" and source_home and near.setdefault(edge.target, source_home) != source_home:
            near[edge.target] = ""
    for vertex in topology.vertices:
        if not vertex.namespace:
            shared = _SENDERS if vertex.kind is Kind.SOURCE else _ADDRESSES
            homes[vertex.id] = near.get(vertex.id) or shared
    return homes


def _findings_by_object(topology: Topology) -> dict[str, list[int]]:
    by_object: dict[str, list[int]] = defaultdict(list)
    for place, finding in enumerate(topology.findings):
        for id_ in dict.fromkeys(finding.objects):
            by_object[id_].append(place)
    for places in by_object.values():
        places.sort(key=lambda place: (SEVERITIES.index(topology.findings[place].severity), place))
    return by_object


def _importance(vertex: Vertex, topology: Topology, index: Mapping[str, Sequence[int]]) -> tuple[int, int, float, str]:
    """Returns a sort key for what to show if there is not room for all: findings, then bad health, then traffic."""
    places = index.get(vertex.id)
    severity = SEVERITIES.index(topology.findings[places[0]].severity) if places else len(SEVERITIES)
    return severity, min(_WORST[vertex.health], 2), -(vertex.rate or 0.0), vertex.id


def _details(detail: Mapping[str, object]) -> Details:
    pairs = [(name, value) for name, value in detail.items() if value is not None and value != ""]
    return tuple(
        (shown.visible(str(name).replace("_", " "), 60), shown.visible(_said(value)))
        for name, value in pairs[:DETAILS_MAX]
    )


def _said(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return shown.quantity(value) if isinstance(value, float) else str(value)


def _item(vertex: Vertex, group: int, findings: Sequence[int], topology: Topology, given: str | None) -> Item:
    """Returns a vertex as an item. `given`: a name that says more than the vertex's own."""
    name = vertex.name if vertex.namespace else vertex.label or vertex.name
    if vertex.kind is Kind.DLQ:
        name = f"{name} (DLQ)"  # it has the name of its channel
    label = vertex.label or vertex.id
    return Item(
        anchor=anchor(vertex.id),
        kind=vertex.kind.value,
        label=shown.visible(label if given is None else f"{given}, {label}"),
        short=shown.short(given or name or label),
        group=group,
        health=vertex.health,
        message=shown.visible(vertex.message),
        roles=tuple(shown.visible(role, 60) for role in vertex.roles),
        rate=vertex.rate,
        bytes_rate=vertex.bytes_rate,
        lag=vertex.lag,
        island=vertex.island,
        details=_details(vertex.detail),
        findings=tuple(findings),
        severity=topology.findings[findings[0]].severity if findings else None,
    )


def _rest(group: int, of: Group, members: Sequence[Vertex]) -> Item:
    return Item(
        anchor=f"rest-{group}",
        kind="rest",
        label=f"{shown.count(len(members))} more of {of.label}",
        short=f"{shown.count(len(members))} more",
        group=group,
        health=worst(member.health for member in members),
        rate=total(member.rate for member in members),
        bytes_rate=total(member.bytes_rate for member in members),
        lag=total(member.lag for member in members),
        stands_for=len(members),
    )


def _lines(
    topology: Topology, places: Mapping[str, int], rests: Mapping[str, int], lines_max: int
) -> tuple[tuple[Line, ...], int]:
    """Returns the edges between items, with those to and from a rest summed; and the number of edges in no line."""
    loops = _on_loops(topology)
    own: list[Edge] = []
    sums: dict[tuple[int, int, str], Line] = {}
    omitted = 0
    for edge in topology.edges:
        source, target = places.get(edge.source, -1), places.get(edge.target, -1)
        if source >= 0 and target >= 0:
            own.append(edge)
            continue
        source = rests.get(edge.source, -1) if source < 0 else source
        target = rests.get(edge.target, -1) if target < 0 else target
        if source == target or source < 0 or target < 0:  # within one rest
            omitted += 1
        else:
            key = (source, target, edge.kind.value)
            sums[key] = _added(sums.get(key), key, edge)
    if len(own) > lines_max:
        own.sort(key=lambda edge: (_WORST[edge.health] > 1, -(edge.rate or 0.0), edge.id))
        omitted += len(own) - lines_max
        del own[lines_max:]
    summed = sorted(sums.values(), key=lambda line: (-line.stands_for, line.source, line.target, line.kind))
    omitted += sum(line.stands_for for line in summed[SUMS_MAX:])
    lines = [_line(places[edge.source], places[edge.target], edge, edge.id in loops) for edge in own]
    return (*lines, *summed[:SUMS_MAX]), omitted


def _added(line: Line | None, key: tuple[int, int, str], edge: Edge) -> Line:
    """Adds one more edge to a sum. Quantiles cannot be summed, so a sum has none; and it is never part of a loop."""
    if line is None:
        return Line(*key, edge.health, edge.rate, edge.bytes_rate, edge.events, None, edge.failures)
    return Line(
        *key,
        min(line.health, edge.health, key=_WORST.__getitem__),
        _plus(line.rate, edge.rate),
        _plus(line.bytes_rate, edge.bytes_rate),
        _plus(line.events, edge.events),
        None,
        _plus(line.failures, edge.failures),
        stands_for=line.stands_for + 1,
    )


def _plus(left: N | None, right: N | None) -> N | None:
    return right if left is None else left if right is None else left + right


def _on_loops(topology: Topology) -> frozenset[str]:
    """Returns the ids of the edges of critical loops."""
    loops = (
        finding for finding in topology.findings if finding.severity is Severity.CRITICAL and finding.rule in LOOP_RULES
    )
    return frozenset(edge for loop in loops for edge in loop.edges)


def _line(source: int, target: int, edge: Edge, loop: bool) -> Line:
    return Line(
        source=source,
        target=target,
        kind=edge.kind.value,
        health=edge.health,
        rate=edge.rate,
        bytes_rate=edge.bytes_rate,
        events=edge.events,
        lag=edge.lag,
        failures=edge.failures,
        latency_p50_s=edge.latency_p50_s,
        latency_p99_s=edge.latency_p99_s,
        details=_details(edge.detail),
        loop=loop,
    )
