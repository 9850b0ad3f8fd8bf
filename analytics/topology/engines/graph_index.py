"""Facts as numbers for the engines: every vertex of the map gets a number, and the graphs that the questions need.

Sources stay out of most graphs, because their edges may be nearly all. No edge leads to a source, so it is in no loop,
and what it joins and weighs can be told from its channels. The answers are exactly those of the whole graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from analytics.topology.engines.port import Floats, Graph, Ints
from analytics.topology.model.document import Flow
from analytics.topology.model.facts import Facts, SubscriptionFacts

FLOWS = tuple(Flow)
PLACE = {flow: place for place, flow in enumerate(FLOWS)}  #: the number of each kind of edge
ALIVE = (Flow.SUBSCRIBES, Flow.DELIVERS, Flow.REPLIES)  #: edges of consumers for events that do not fail
#: The sum of a consumer's traffic that an edge weighs. Replies are not counted anywhere; there are at most as many
#: as deliveries.
WEIGHED_BY = {
    Flow.SUBSCRIBES: "events",
    Flow.DELIVERS: "delivered",
    Flow.REPLIES: "delivered",
    Flow.DEAD_LETTERS: "dead",
}

Link = tuple[str, str, Flow]  #: an edge: from, to, kind


@dataclass(frozen=True, slots=True)
class GraphIndex:
    """Vertex v has the id `ids[v]`. `graph` has the edges of consumers; edge i is of the kind FLOWS[kinds[i]].

    What sources send are edges too: from source[i] to channel[i], in the order of both, with weights[i].
    """

    ids: Sequence[str]
    places: dict[str, int]
    kinds: NDArray[np.int8]
    graph: Graph
    source: Ints
    channel: Ints
    weights: Floats

    def link(self, edge: int) -> Link:
        """Returns edge i of `graph`, in ids."""
        ends = self.ids[self.graph.heads[edge]], self.ids[self.graph.tails[edge]]
        return (*ends, FLOWS[self.kinds[edge]])

    def of_kind(self, *flows: Flow) -> NDArray[np.bool_]:
        """Returns which edges of `graph` are of these kinds."""
        return np.isin(self.kinds, [PLACE[flow] for flow in flows])

    def whole(self) -> Graph:
        """Returns all edges of the map."""
        return self.graph.with_edges(self.source, self.channel, self.weights)

    def joined(self) -> tuple[Graph, Ints, Ints]:
        """Returns a graph with the islands of the map, but without its sources; the sources, and a channel of each.

        A source joins its channels to each other: each to the next, which many sources have in common.
        """
        same = self.source[1:] == self.source[:-1]
        neighbours = np.unique(self.channel[:-1][same] * len(self.ids) + self.channel[1:][same])
        heads, tails = neighbours // max(1, len(self.ids)), neighbours % max(1, len(self.ids))
        first = np.flatnonzero(np.concatenate(([True], ~same))[: len(self.source)])  # the rows are sorted
        joined = self.graph.with_edges(heads, tails, np.ones(len(heads)))
        return joined, self.source[first], self.channel[first]

    def fed(self) -> Graph:
        """Returns a graph with the influence of the map: what all sources send to a channel comes from one of them."""
        came = np.bincount(self.channel, weights=self.weights, minlength=len(self.ids))
        tails = np.flatnonzero(came)
        return self.graph.with_edges(np.full(len(tails), self.source[:1]), tails, cast(Floats, came[tails]))

    def sent_by(self, starts: Iterable[int]) -> Graph:
        """Returns a graph in which these sources reach what they reach in the map."""
        kept = np.isin(self.source, list(starts))
        return self.graph.with_edges(self.source[kept], self.channel[kept], self.weights[kept])


def number(facts: Facts, counted: bool) -> GraphIndex:
    """Numbers the vertices of the map. `counted`: an edge weighs its events in the window; otherwise 1."""
    published = facts.published
    links = [link for consumer in facts.consumers for link in consumer.links()]
    names = {end for link in links for end in link[:2]}.union(facts.channels, published.sources if published else ())
    ids = sorted(names)
    places = {id_: place for place, id_ in enumerate(ids)}
    size = len(links)
    graph = Graph(
        len(ids),
        np.fromiter((places[link[0]] for link in links), np.int64, size),
        np.fromiter((places[link[1]] for link in links), np.int64, size),
        _weights(facts, size) if counted else np.ones(size),
    )
    kinds = np.fromiter((PLACE[link[2]] for link in links), np.int8, size)
    none = np.empty(0, dtype=np.int64)
    if published is None:
        return GraphIndex(ids, places, kinds, graph, none, none, none.astype(np.float64))
    source = np.array([places[id_] for id_ in published.sources], dtype=np.int64)[published.source]
    channel = np.array([places[id_] for id_ in published.channels], dtype=np.int64)[published.channel]
    weights = published.events.astype(np.float64) if counted else np.ones(len(published))
    return GraphIndex(ids, places, kinds, graph, source, channel, weights)


def _weights(facts: Facts, count: int) -> Floats:
    """Returns the weights of the consumers' edges, in the order of these edges."""
    weights = np.fromiter(
        (weight for consumer in facts.consumers for weight in _of_consumer(facts, consumer)), np.float64
    )
    assert len(weights) == count, "a weight for each edge"
    return weights


def _of_consumer(facts: Facts, consumer: SubscriptionFacts) -> list[float]:
    total = facts.settled.get(consumer.id)
    if total is None:
        return [0.0 for _ in consumer.links()]
    return [float(getattr(total.counts, WEIGHED_BY[flow])) for _, _, flow in consumer.links()]
