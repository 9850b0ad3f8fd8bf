"""Destinations with a port in their URL are called by their subscriptions, in the page and in answers."""

from __future__ import annotations

from dataclasses import replace

from analytics.topology.model.document import Edge, Flow, Topology, edge_id
from analytics.topology.model.names import delivered_by
from analytics.topology.questions import impact
from analytics.topology.report.pagegraph import gather
from tests.support import topologies
from tests.support.topologies import small

PICKY = "uri:http://127.0.0.1:8090/picky"


def with_edge(topology: Topology, source: str, target: str) -> Topology:
    edge = Edge(edge_id(Flow.DELIVERS, source, target), source, target, Flow.DELIVERS)
    return replace(topology, edges=(*topology.edges, edge))


def test_url_with_a_port_has_the_name_of_its_subscription() -> None:
    assert delivered_by(topologies.quickstart()) == {
        "uri:http://127.0.0.1:8090/good": "good",
        PICKY: "picky",
    }
    shared = with_edge(topologies.quickstart(), "subscription:default/good", PICKY)
    assert delivered_by(shared)[PICKY] == "good +1"


def test_url_without_a_port_says_enough() -> None:
    assert delivered_by(small()) == {}
    assert delivered_by(topologies.shop()) == {}


def test_name_comes_first_and_the_url_second() -> None:
    topology = topologies.quickstart()
    graph = gather(topology)
    item = graph.items[graph.places[PICKY]]
    assert (item.short, item.label) == ("picky", "picky, http://127.0.0.1:8090/picky")
    channel = next(vertex for vertex in topology.vertices if vertex.name == "quickstart")
    labels = {row.id: row.label for row in impact(topology, channel).downstream}
    assert labels[PICKY] == "picky, http://127.0.0.1:8090/picky"
