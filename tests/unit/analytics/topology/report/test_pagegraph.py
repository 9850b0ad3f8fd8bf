"""What of a topology the page carries, and how the rest is summed up."""

from __future__ import annotations

from dataclasses import replace

from analytics.topology.model.document import Edge, Flow, Health, Kind, Severity, Vertex, edge_id
from analytics.topology.report.pagegraph import HEALTHS, anchor, gather, worst
from tests.support import topologies


def test_what_has_no_namespace_belongs_to_its_only_neighbour_or_to_all() -> None:
    make = topologies.Maker()
    first, second = make.add(Kind.CHANNEL, "a", "one"), make.add(Kind.CHANNEL, "b", "two")
    own, both = make.add(Kind.SOURCE, "", "/own"), make.add(Kind.SOURCE, "", "/both")
    sink = make.add(Kind.SUBSCRIBER, "", "http://nobody/")
    for source, channel in ((own, first), (both, first), (both, second)):
        make.join(Flow.PUBLISHES, source, channel, 1.0)
    graph = gather(make.topology())
    groups = {item.label: graph.groups[item.group].label for item in graph.items}

    assert groups["/own"] == "a"
    assert groups["/both"] == "senders of several namespaces"
    assert groups["http://nobody/"] == "addresses of several namespaces"
    assert sink in graph.places
    assert [group.shared for group in graph.groups] == [False, False, True, True]


def test_everything_is_kept_below_the_limit() -> None:
    topology = topologies.shop()
    graph = gather(topology)

    assert len(graph.items) == len(topology.vertices)
    assert len(graph.lines) == len(topology.edges)
    assert graph.omitted_vertices == graph.omitted_edges == 0
    assert sum(group.size for group in graph.groups) == len(topology.vertices)


def test_above_the_limit_findings_health_and_traffic_decide() -> None:
    topology = topologies.large(900)
    graph = gather(topology, items_max=300)
    kept = graph.items[:300]
    ranks = [(item.severity is None, item.severity is Severity.WARNING) for item in kept]

    assert ranks == sorted(ranks)
    assert {item.severity for item in kept} >= {Severity.CRITICAL, Severity.WARNING}
    assert graph.omitted_vertices == 600
    assert sum(item.stands_for for item in graph.items) == 900


def test_what_is_left_out_is_summed_up_and_counted() -> None:
    topology = topologies.large(900)
    graph = gather(topology, items_max=300)
    rests = [item for item in graph.items if item.kind == "rest"]
    inside = {
        group: sum(1 for item in graph.items if item.group == group and item.kind != "rest")
        for group in range(len(graph.groups))
    }

    assert all(item.stands_for + inside[item.group] == graph.groups[item.group].size for item in rests)
    assert sum(line.stands_for for line in graph.lines) + graph.omitted_edges == len(topology.edges)
    for line in graph.lines:
        if line.stands_for > 1:
            assert "rest" in (graph.items[line.source].kind, graph.items[line.target].kind)
            assert line.latency_p99_s is None


def test_too_many_edges_are_cut_from_the_quiet_end() -> None:
    graph = gather(topologies.large(400), lines_max=50)
    whole = gather(topologies.large(400))

    assert len(graph.lines) == 50
    assert graph.omitted_edges == len(whole.lines) - 50
    bad = [line for line in whole.lines if line.health in HEALTHS[:2]]
    assert {(line.source, line.target) for line in bad} <= {(line.source, line.target) for line in graph.lines}


def test_edge_to_nowhere_is_counted_not_drawn() -> None:
    vertex = Vertex("channel:a/b", Kind.CHANNEL, "a", "b", "a/b")
    edge = Edge(edge_id(Flow.PUBLISHES, "source:x", vertex.id), "source:x", vertex.id, Flow.PUBLISHES)
    graph = gather(replace(topologies.empty(), vertices=(vertex,), edges=(edge,)))

    assert graph.lines == ()
    assert graph.omitted_edges == 1


def test_worst_health_speaks_for_several() -> None:
    assert worst([Health.IDLE, Health.OK]) is Health.OK
    assert worst([Health.OK, Health.FAILED, Health.DEGRADED]) is Health.FAILED
    assert worst([]) is Health.UNKNOWN


def test_anchors_are_harmless_stable_and_unique() -> None:
    ids = [f"source:{text}" for text in topologies.HOSTILE]

    assert len({anchor(vertex) for vertex in ids}) == len(ids)
    assert anchor("channel:default/quickstart") == anchor("channel:default/quickstart")
    assert all(anchor(vertex).removeprefix("v-").isalnum() for vertex in ids)
