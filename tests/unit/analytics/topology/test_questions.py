"""What is upstream and downstream of a vertex, and the paths between two: against small maps, and brute force."""

from __future__ import annotations

from itertools import pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.topology.build import build
from analytics.topology.engines.local import LocalEngine
from analytics.topology.model.document import Edge, Flow, Kind, Tier, Topology, Vertex, Window, edge_id
from analytics.topology.questions import impact, paths, vertices_named
from tests.support import topologies
from tests.support.planted_faults import World
from tests.support.profiles import examples
from tests.support.topologies import BILLS, HOSTILE_SOURCE, SHOP, small

BILLING, ECHO = "subscription:shop/billing", "subscription:shop/echo"


def rows(topology: Topology, id_: str) -> tuple[dict[str, int], dict[str, int]]:
    """Id -> hops, upstream and downstream."""
    answer = impact(topology, next(vertex for vertex in topology.vertices if vertex.id == id_))
    return {row.id: row.hops for row in answer.upstream}, {row.id: row.hops for row in answer.downstream}


def test_impact_has_everything_in_both_directions_with_hops_and_figures() -> None:
    upstream, downstream = rows(small(), BILLS)

    assert downstream == {
        ECHO: 1, "uri:http://echo.shop": 2, SHOP: 2, "dlq:shop/orders": 2,
        BILLING: 3, "uri:http://billing.shop": 4, "uri:http://graveyard.shop/dead": 4,
    }  # fmt: skip
    assert {id_: hops for id_, hops in upstream.items() if hops > 1} == {
        SHOP: 2, "source:/web": 3, ECHO: 3, f"source:{HOSTILE_SOURCE}": 3,
    }  # fmt: skip
    answer = impact(small(), next(vertex for vertex in small().vertices if vertex.id == BILLS))
    echo = answer.downstream[0]
    assert (echo.kind, echo.flow, echo.health.value, echo.lag) == (Kind.SUBSCRIPTION, Flow.SUBSCRIBES, "degraded", 4000)
    assert [row.hops for row in answer.downstream] == sorted(row.hops for row in answer.downstream)


def test_vertex_alone_has_no_impact() -> None:
    assert rows(small(), "channel:attic/forgotten") == ({}, {})


def test_path_sums_deliveries_and_replies_and_names_the_slowest() -> None:
    answer = paths(topologies.shop(), "source:/web/checkout", "channel:shipping/parcels")

    (path,) = answer.paths
    assert answer.complete
    assert [step.flow.value for step in path.steps] == ["publishes", "subscribes", "replies", "subscribes", "delivers"]
    assert (path.latency_p50_s, path.latency_p99_s) == (0.0084, 0.236)  # the delivery of the reply counts
    assert path.slowest == "subscription:orders/pricing replies channel:orders/priced"
    assert [step.latency_p99_s for step in path.steps] == [None, None, 0.118, None, 0.118]


def test_dead_letter_makes_the_latency_unknown() -> None:
    (path,) = paths(small(), SHOP, "uri:http://graveyard.shop/dead").paths
    assert (path.latency_p50_s, path.latency_p99_s, path.slowest) == (None, None, None)


def test_no_path_and_the_loops_of_a_vertex() -> None:
    assert paths(small(), "uri:http://echo.shop", SHOP).paths == ()
    (loop,) = paths(small(), SHOP, SHOP).paths
    assert [step.target for step in loop.steps] == [BILLING, BILLS, ECHO, SHOP]


def graph(pairs: set[tuple[int, int]]) -> Topology:
    vertices = tuple(Vertex(f"channel:n/{name}", Kind.CHANNEL, "n", str(name), f"n/{name}") for name in range(6))
    edges = tuple(
        Edge(edge_id(Flow.DELIVERS, start, end), start, end, Flow.DELIVERS, latency_p50_s=0.1, latency_p99_s=0.2)
        for start, end in sorted((f"channel:n/{start}", f"channel:n/{end}") for start, end in pairs)
    )
    return Topology(0.0, "i", "", Window(), Tier.NONE, "local", (), vertices, edges)


def every_path(pairs: set[tuple[int, int]], start: int, end: int) -> list[tuple[int, ...]]:
    """By trying all orders of all vertices between."""
    between = [number for number in range(6) if number not in (start, end)]
    ways = [(start, *middle, end) for size in range(len(between) + 1) for middle in permutations(between, size)]
    return [way for way in ways if all(pair in pairs for pair in pairwise(way))]


@examples(60)
@given(st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=16), st.integers(0, 5))
def test_paths_are_those_of_brute_force_the_shortest_first(pairs: set[tuple[int, int]], end: int) -> None:
    answer = paths(graph(pairs), "channel:n/0", f"channel:n/{end}", paths_max=1000)

    ways = [(0, *(int(step.target[-1]) for step in path.steps)) for path in answer.paths]
    assert answer.complete
    assert sorted(ways) == sorted(every_path(pairs, 0, end))
    assert [len(way) for way in ways] == sorted(len(way) for way in ways)
    assert all(path.latency_p99_s == pytest.approx(0.2 * len(path.steps)) for path in answer.paths)
    assert {row for row in rows(graph(pairs), "channel:n/0")[1] if row[-1] == str(end)} == (
        {f"channel:n/{end}"} if ways and end else set()
    )


def test_number_of_paths_and_the_search_are_bounded() -> None:
    """Layers of ten that are all joined: 10^30 paths."""
    names = [[f"channel:n/{layer}-{number}" for number in range(10)] for layer in range(30)]
    pairs = [(a, b) for layer, following in pairwise(names) for a in layer for b in following]
    edges = tuple(Edge(edge_id(Flow.DELIVERS, a, b), a, b, Flow.DELIVERS) for a, b in pairs)
    topology = Topology(0.0, "i", "", Window(), Tier.NONE, "local", (), (), edges)

    answer = paths(topology, names[0][0], names[-1][0])

    assert (len(answer.paths), answer.complete) == (20, False)
    assert {len(path.steps) for path in answer.paths} == {29}


def test_brokers_triggers_and_their_dlq_topics_have_names_too() -> None:
    """A trigger's label is `shop/trigger:audit`, because a subscription may have its name."""
    world = World().channel("orders", "Broker").subscription("audit", "orders", "http://audit", kind="Trigger")
    topology = build(world.inputs(), LocalEngine())
    ids = {vertex.kind: vertex.id for vertex in topology.vertices}
    for wish in ("audit", "test/audit", "trigger/test/audit", "Trigger/test/audit", "test/trigger:audit"):
        assert [vertex.id for vertex in vertices_named(topology, wish)] == [ids[Kind.TRIGGER]], wish
    for wish in ("orders.dlq", "test/orders.dlq"):
        assert [vertex.id for vertex in vertices_named(topology, wish)] == [ids[Kind.DLQ]], wish


def test_path_too_long_for_the_search_is_found_all_the_same() -> None:
    names = [f"channel:n/{number}" for number in range(3_000)]
    edges = tuple(Edge(edge_id(Flow.DELIVERS, a, b), a, b, Flow.DELIVERS) for a, b in pairwise([*names, names[0]]))
    topology = Topology(0.0, "i", "", Window(), Tier.NONE, "local", (), (), edges)

    for end, hops in ((names[-1], 2_999), (names[0], 3_000)):
        answer = paths(topology, names[0], end, steps_max=1_000)
        assert [len(path.steps) for path in answer.paths] == [hops]
        assert not answer.complete
    assert paths(topology, names[0], "channel:n/elsewhere", steps_max=1).complete


@pytest.mark.parametrize(
    ("wish", "ids"),
    [
        (SHOP, [SHOP]),
        ("channel/shop/orders", [SHOP]),
        ("KafkaChannel/shop/orders", [SHOP]),
        ("shop/orders", [SHOP]),
        ("orders", [SHOP]),
        ("orders.dlq", ["dlq:shop/orders"]),
        ("/web", ["source:/web"]),
        ("http://billing.shop", ["uri:http://billing.shop"]),
        ("billing", [BILLING]),
        ("bill", []),
        ("", []),
    ],
)
def test_vertex_has_several_names(wish: str, ids: list[str]) -> None:
    assert [vertex.id for vertex in vertices_named(small(), wish)] == ids
