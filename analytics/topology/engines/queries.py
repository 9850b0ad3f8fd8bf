"""The questions that need a walk: loops, double deliveries, islands, reach, influence, articulation points.

    Facts -> GraphIndex -> an engine's answers in numbers -> GraphAnswers in ids

Every limit that was met is a sentence in `notes`. Does not depend on which engine answers, and does not judge.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from analytics.topology.engines.cycles import cycles, cycles_through
from analytics.topology.engines.double_delivery import DoubleDeliveries, double_deliveries
from analytics.topology.engines.graph_index import ALIVE, GraphIndex, Link, number
from analytics.topology.engines.port import Engine, Ints
from analytics.topology.model.document import Flow, Island, Reach
from analytics.topology.model.facts import Facts
from analytics.topology.model.names import name

SOURCES_MAX = 200  #: sources whose reach is reported: those with the most events
REACH_STEPS_MAX = 20_000_000
CUT_EDGES_MAX = 2_000_000  #: no articulation points beyond this: a million edges take 9 s and 500 MB
ISLANDS_MAX = 100
MEMBERS_MAX = 50  #: vertices listed of an island, or of what a source reaches
CHANNELS = ("channel:", "broker:")  #: prefixes of the ids of channels
OUTSIDE = ("uri:", "dlq:")  #: and of vertices where events leave the map: influence starts there


@dataclass(frozen=True, slots=True)
class Loop:
    """A strongly connected component: events from each member come to every other."""

    members: tuple[str, ...]
    cycles: tuple[tuple[str, ...], ...]
    links: tuple[Link, ...]  #: edges between members


@dataclass(frozen=True, slots=True)
class GraphAnswers:
    """The engine's answers, sorted."""

    engine: str
    island_of: dict[str, int]  #: id -> number of its island
    islands: tuple[Island, ...]  #: the largest first, bounded
    loops: tuple[Loop, ...]  #: by deliveries and replies
    dead_loops: tuple[Loop, ...]  #: with at least one dead letter edge
    double_deliveries: DoubleDeliveries
    reach: tuple[Reach, ...]
    influence: tuple[tuple[str, float], ...]  #: channels and brokers, the highest first: events/s, or vertices
    articulation_points: dict[str, tuple[int, int]]  #: vertex -> vertices and channels that are cut off without it
    notes: tuple[str, ...]


def walk(facts: Facts, engine: Engine, window_s: float, counted: bool) -> GraphAnswers:
    """Ask all questions. `counted`: weights are events of the window."""
    counted = counted and window_s > 0
    numbered = number(facts, counted)
    alive = numbered.of_kind(*ALIVE)
    labels = engine.loops(numbered.graph.only(alive))
    loops = _loops(numbered, facts, labels, alive)
    island_of, islands, count = _islands(numbered, facts, engine)
    met, meeting_notes = double_deliveries(facts, engine, _labels(numbered, labels))
    reach, reach_notes = _reach(numbered, facts, engine)
    articulation_points = _cuts(numbered, facts, engine)
    return GraphAnswers(
        engine=engine.name,
        island_of=island_of,
        islands=islands,
        loops=loops,
        dead_loops=_dead_loops(numbered, engine),
        double_deliveries=met,
        reach=reach,
        influence=_influence(numbered, facts, engine, window_s if counted else 0.0),
        articulation_points=articulation_points or {},
        notes=(*meeting_notes, *reach_notes, *_limits(count, len(islands), articulation_points is None)),
    )


def _limits(islands: int, kept: int, no_cuts: bool) -> list[str]:
    """Returns sentences on what was left out."""
    notes = [f"{islands} islands, of which the {kept} largest are shown."] if islands > kept else []
    if no_cuts:
        notes.append(f"Single points were not searched for: the limit is {CUT_EDGES_MAX} edges; see --namespace.")
    return notes


def _labels(numbered: GraphIndex, labels: Ints) -> dict[str, int]:
    """Returns the component of each vertex that is in a component of two or more."""
    _, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
    places = np.flatnonzero(counts[inverse] > 1)
    return {numbered.ids[place]: int(labels[place]) for place in places.tolist()}


def _members(numbered: GraphIndex, labels: Ints) -> dict[int, list[str]]:
    groups: dict[int, list[str]] = defaultdict(list)
    for id_, label in sorted(_labels(numbered, labels).items()):
        groups[label].append(id_)
    return groups


def _inner(numbered: GraphIndex, labels: Ints, kept: np.ndarray) -> dict[int, list[Link]]:
    """Returns edges inside one component, by component."""
    graph = numbered.graph
    inner = kept & (labels[graph.heads] == labels[graph.tails]) & (graph.heads != graph.tails)
    links: dict[int, list[Link]] = defaultdict(list)
    for place in np.flatnonzero(inner).tolist():
        links[int(labels[graph.heads[place]])].append(numbered.link(place))
    return links


def _ways(links: Iterable[Link]) -> dict[str, set[str]]:
    ways: dict[str, set[str]] = defaultdict(set)
    for start, end, _ in links:
        ways[start].add(end)
    return ways


def _loops(numbered: GraphIndex, facts: Facts, labels: Ints, alive: np.ndarray) -> tuple[Loop, ...]:
    inner = _inner(numbered, labels, alive)
    loops = (_live_loop(members, inner[label], facts) for label, members in _members(numbered, labels).items())
    return tuple(sorted(loops, key=lambda loop: loop.members))


def _live_loop(members: Sequence[str], links: Iterable[Link], facts: Facts) -> Loop:
    """Returns the loop of sorted `members`. `links`: the edges between them, without dead letters."""
    links = sorted(links)
    starts = (id_ for id_ in members if id_ in facts.channels)
    return Loop(tuple(members), tuple(cycles(members, _ways(links), starts)), tuple(links))


def _dead_loop(members: Sequence[str], links: Iterable[Link]) -> Loop | None:
    """Returns the loop of `members`; None if no dead letters go over an edge of it. `links`: all edges between them."""
    links = sorted(links)
    steps = [(start, end) for start, end, flow in links if flow is Flow.DEAD_LETTERS]
    if not steps:
        return None
    return Loop(tuple(members), tuple(cycles_through(members, _ways(links), steps)), tuple(links))


def _dead_loops(numbered: GraphIndex, engine: Engine) -> tuple[Loop, ...]:
    """Finds loops with dead letters. Only dead letter edges into channels can close one, and most maps have none."""
    dead = numbered.of_kind(Flow.DEAD_LETTERS)
    ends = np.unique(numbered.graph.tails[dead]).tolist()
    if not any(numbered.ids[end].startswith(CHANNELS) for end in ends):
        return ()
    labels = engine.loops(numbered.graph)
    members = _members(numbered, labels)
    inner = _inner(numbered, labels, np.ones(len(dead), dtype=np.bool_))
    loops = (_dead_loop(members[label], links) for label, links in inner.items())
    return tuple(sorted((loop for loop in loops if loop is not None), key=lambda loop: loop.members))


def _islands(numbered: GraphIndex, facts: Facts, engine: Engine) -> tuple[dict[str, int], tuple[Island, ...], int]:
    joined, sources, channels_of = numbered.joined()
    labels = engine.islands(joined)
    labels[sources] = labels[channels_of]  # an island's first vertex is not a source: ids of channels come before
    names, inverse, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    order = np.lexsort((names, -sizes))
    numbers = np.empty(len(names), dtype=np.int64)
    numbers[order] = np.arange(1, len(names) + 1)
    of_vertex = numbers[inverse].tolist()
    members: dict[int, list[str]] = defaultdict(list)
    channels: dict[int, int] = defaultdict(int)
    for id_, island in zip(numbered.ids, of_vertex, strict=True):
        if island <= ISLANDS_MAX:
            channels[island] += id_ in facts.channels
            if len(members[island]) < MEMBERS_MAX:
                members[island].append(id_)
    islands = tuple(
        Island(island, int(sizes[order[island - 1]]), channels[island], None, tuple(members[island]))
        for island in sorted(members)
    )
    return dict(zip(numbered.ids, of_vertex, strict=True)), islands, len(names)


def _reach(numbered: GraphIndex, facts: Facts, engine: Engine) -> tuple[tuple[Reach, ...], list[str]]:
    published = facts.published
    if published is None or not len(published):
        return (), []
    sent, _ = published.of_sources()
    busiest = np.argsort(-sent, kind="stable")[:SOURCES_MAX].tolist()  # of equal ones, the first by name
    starts = [numbered.places[published.sources[place]] for place in busiest]
    reaches: list[Reach] = []
    steps = 0
    for start, vertices, depths in engine.hops(numbered.sent_by(starts), starts):
        near = zip(vertices[:MEMBERS_MAX].tolist(), depths[:MEMBERS_MAX].tolist(), strict=True)
        hops = {numbered.ids[vertex]: depth for vertex, depth in near}
        reaches.append(Reach(numbered.ids[start], len(vertices), int(depths[-1]), hops))
        steps += len(vertices)
        if steps > REACH_STEPS_MAX:
            break
    if len(reaches) == len(sent):
        return tuple(reaches), []
    return tuple(reaches), [f"The reach of sources is shown for {len(reaches)} of {len(sent)} sources."]


def _influence(numbered: GraphIndex, facts: Facts, engine: Engine, window_s: float) -> tuple[tuple[str, float], ...]:
    graph = numbered.fed()
    into = np.bincount(graph.tails, weights=graph.weights, minlength=graph.size)
    outside = np.fromiter((id_.startswith(OUTSIDE) for id_ in numbered.ids), np.bool_, graph.size)
    base = np.where(outside, into / window_s if window_s else 1.0, 0.0)
    value = engine.influence(graph, base)
    pairs = [(id_, float(value[numbered.places[id_]])) for id_ in facts.channels]
    return tuple(sorted(pairs, key=lambda pair: (-round(pair[1], 9), pair[0])))


def _cuts(numbered: GraphIndex, facts: Facts, engine: Engine) -> dict[str, tuple[int, int]] | None:
    """Returns None if there are too many edges."""
    if len(numbered.kinds) + len(numbered.source) > CUT_EDGES_MAX:
        return None
    values = np.fromiter((id_ in facts.channels for id_ in numbered.ids), np.int64, numbered.graph.size)
    return {numbered.ids[vertex]: cut for vertex, cut in engine.articulation_points(numbered.whole(), values).items()}


def listed(ids: Sequence[str], most: int = 10) -> str:
    """Returns ids for people: without their kind, and only the first."""
    return ", ".join(map(name, ids[:most])) + (f" and {len(ids) - most} more" if len(ids) > most else "")
