"""Facts as numbers for the engines: every vertex and edge of the map gets a number, and edges get weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analytics.topology.engines.port import Floats, Graph
from analytics.topology.model.document import Flow
from analytics.topology.model.facts import Facts, SubscriptionFacts

FLOWS = tuple(Flow)
PLACE = {flow: place for place, flow in enumerate(FLOWS)}  #: the number of each kind of edge
ALIVE = (Flow.PUBLISHES, Flow.SUBSCRIBES, Flow.DELIVERS, Flow.REPLIES)  #: edges of events that do not fail
#: The sum of a consumer's traffic that an edge weighs. Replies are not counted anywhere; there are at most as many
#: as deliveries.
WEIGHED_BY = {
    Flow.SUBSCRIBES: "events",
    Flow.DELIVERS: "delivered",
    Flow.REPLIES: "delivered",
    Flow.DEAD_LETTERS: "dead",
}


@dataclass(frozen=True, slots=True)
class GraphIndex:
    """Edge i of `graph` is `links[i]`, its kind is FLOWS[kinds[i]]; vertex v has the id `ids[v]`."""

    ids: Sequence[str]
    places: dict[str, int]
    links: Sequence[tuple[str, str, Flow]]
    kinds: NDArray[np.int8]
    graph: Graph

    def of_kind(self, *flows: Flow) -> NDArray[np.bool_]:
        """Which edges are of these kinds."""
        return np.isin(self.kinds, [PLACE[flow] for flow in flows])


def number(facts: Facts, counted: bool) -> GraphIndex:
    """`counted`: an edge weighs its events in the window; otherwise 1."""
    links = list(facts.links())
    ids = sorted({*facts.channels, *(link[0] for link in links), *(link[1] for link in links)})
    places = {id_: place for place, id_ in enumerate(ids)}
    graph = Graph(
        len(ids),
        np.fromiter((places[link[0]] for link in links), np.int64, len(links)),
        np.fromiter((places[link[1]] for link in links), np.int64, len(links)),
        _weights(facts, len(links)) if counted else np.ones(len(links)),
    )
    kinds = np.fromiter((PLACE[link[2]] for link in links), np.int8, len(links))
    return GraphIndex(ids, places, links, kinds, graph)


def _weights(facts: Facts, count: int) -> Floats:
    """In the order of `Facts.links`."""
    weights: list[float] = [float(events) for events, _ in facts.published.values()]
    for consumer in facts.consumers:
        weights += _of_consumer(facts, consumer)
    assert len(weights) == count, "a weight for each edge"
    return np.array(weights, dtype=np.float64)


def _of_consumer(facts: Facts, consumer: SubscriptionFacts) -> list[float]:
    total = facts.settled.get(consumer.id)
    if total is None:
        return [0.0 for _ in consumer.links()]
    return [float(getattr(total.counts, WEIGHED_BY[flow])) for _, _, flow in consumer.links()]
