"""Names of vertices for people: an id without its kind; a destination whose URL says little, by the subscription that
delivers to it. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

from analytics.topology.model.document import Flow, Topology

_WITH_PORT = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#]*:\d+(?:[/?#]|$)", re.IGNORECASE)


def name(id_: str) -> str:
    """Returns an id without its kind."""
    return id_.partition(":")[2]


def namespace_of(id_: str) -> str:
    """Returns the namespace of a channel, a broker, a subscription or a trigger, from its id."""
    return name(id_).partition("/")[0]


def delivered_by(topology: Topology) -> Mapping[str, str]:
    """Returns id -> name, of each destination with a port in its URL: the first subscription or trigger that delivers,
    replies or sends dead letters there, and how many others do."""
    names = {vertex.id: vertex.name for vertex in topology.vertices if vertex.namespace}
    ends = {vertex.id for vertex in topology.vertices if not vertex.namespace and _WITH_PORT.match(vertex.name)}
    callers: dict[str, set[str]] = defaultdict(set)
    for edge in topology.edges:
        if edge.target in ends and edge.kind is not Flow.SENDS:  # a type may be any text, a URL too
            callers[edge.target].add(names[edge.source])
    return {id_: min(some) + (f" +{len(some) - 1}" if len(some) > 1 else "") for id_, some in callers.items()}
