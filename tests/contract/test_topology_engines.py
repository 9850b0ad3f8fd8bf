"""One suite for the engines that walk the topology: planted graphs with answers by hand, and random ones by an oracle.

The local engine always runs. GraphFrames runs wherever PENSTOCK_SPARK_JARS names a folder with its two jars; elsewhere
its part says NOT RUN HERE, and why, in the summary of the run.
All random graphs are walked as one: their parts do not touch, and a Spark job for each would take an hour.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from analytics.topology.build import build
from analytics.topology.engines.graphframes import missing_jars
from analytics.topology.engines.local import LocalEngine
from analytics.topology.engines.port import DAMPING, ROUNDS, Engine, Graph
from analytics.topology.model.document import to_json
from app.settings.load import load_settings
from tests.contract import topology_oracle as oracle
from tests.support.planted_faults import FAULTS, faulty, healthy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GRAPHS = 200


@pytest.fixture(scope="module", params=["local", "graphframes"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Each engine in turn."""
    if request.param == "local":
        yield LocalEngine()
        return
    why = missing_jars(load_settings().spark_jars)
    if why:
        pytest.skip(f"NOT RUN HERE: {why}")
    spark = request.getfixturevalue("spark")
    from analytics.topology.engines.graphframes import GraphFramesEngine

    before = kept(spark)
    yield GraphFramesEngine(spark)
    assert kept(spark) == before, "everything that was kept in Spark has been let go of"


def kept(spark: SparkSession) -> set[int]:
    """What Spark keeps, by number."""
    jsc: Any = spark.sparkContext._jsc
    return {int(number) for number in jsc.getPersistentRDDs()}


class Sample:
    """A random graph, and where its vertices begin among all."""

    def __init__(self, seed: int, first: int) -> None:
        chance = random.Random(seed)
        self.first = first
        self.size = chance.choice((1, 2, 3, 5, 8, 20, 40, 80)) if seed % 20 else 200
        count = int(self.size * chance.choice((0.5, 1.0, 1.3, 2.0, 4.0)))
        self.edges = [
            (chance.randrange(self.size), chance.randrange(self.size), chance.choice((0.0, 1.0, 2.5, 100.0)))
            for _ in range(count)
        ]
        self.base = [chance.choice((0.0, 1.0, 7.5)) for _ in range(self.size)]
        self.values = [chance.randrange(3) for _ in range(self.size)]
        self.starts = sorted({chance.randrange(self.size) for _ in range(3)})


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    """All of them, one behind the other."""
    drawn: list[Sample] = []
    for seed in range(GRAPHS):
        drawn.append(Sample(seed, drawn[-1].first + drawn[-1].size if drawn else 0))
    return drawn


@pytest.fixture(scope="module")
def union(samples: list[Sample]) -> Graph:
    """The samples as one graph."""
    rows = [
        (sample.first + head, sample.first + tail, weight) for sample in samples for head, tail, weight in sample.edges
    ]
    size = samples[-1].first + samples[-1].size
    return Graph.of(size, [row[:2] for row in rows], [row[2] for row in rows])


def test_islands_of_random_graphs(engine: Engine, samples: list[Sample], union: Graph) -> None:
    labels = engine.islands(union)

    for sample in samples:
        mine = labels[sample.first : sample.first + sample.size] - sample.first
        assert mine.tolist() == oracle.islands(sample.size, sample.edges)


def test_loops_of_random_graphs(engine: Engine, samples: list[Sample], union: Graph) -> None:
    labels = engine.loops(union)

    for sample in samples:
        mine = labels[sample.first : sample.first + sample.size] - sample.first
        assert mine.tolist() == oracle.loops(sample.size, sample.edges)


def test_hops_in_random_graphs(engine: Engine, samples: list[Sample], union: Graph) -> None:
    starts = [sample.first + start for sample in samples for start in sample.starts]
    hops = {start: (vertices, depths) for start, vertices, depths in engine.hops(union, starts)}

    for sample in samples:
        for start in sample.starts:
            vertices, depths = hops[sample.first + start]
            expected = oracle.distances(sample.size, sample.edges, start)
            del expected[start]
            reported = list(zip((vertices - sample.first).tolist(), depths.tolist(), strict=True))
            assert reported == sorted(expected.items(), key=lambda pair: (pair[1], pair[0]))


def test_influence_in_random_graphs(engine: Engine, samples: list[Sample], union: Graph) -> None:
    influence = engine.influence(union, np.array([value for sample in samples for value in sample.base]))

    for sample in samples:
        mine = influence[sample.first : sample.first + sample.size]
        expected = oracle.influence(sample.size, sample.edges, sample.base, DAMPING, ROUNDS)
        np.testing.assert_allclose(mine, expected, rtol=1e-9, atol=1e-9)


def test_cut_vertices_of_random_graphs(engine: Engine, samples: list[Sample], union: Graph) -> None:
    cuts = engine.articulation_points(
        union, np.array([value for sample in samples for value in sample.values], dtype=np.int64)
    )

    for sample in samples:
        mine = {v - sample.first: cut for v, cut in cuts.items() if sample.first <= v < sample.first + sample.size}
        expected = oracle.articulation_points(sample.size, sample.edges, sample.values)
        assert mine.keys() == expected.keys()
        assert all(mine[vertex] in expected[vertex] for vertex in mine)


def test_planted_graph_has_the_answers_by_hand(engine: Engine) -> None:
    """0 -> 1 -> 2 -> 1, 2 -> 3; 4 -> 4 (itself); 5 alone."""
    graph = Graph.of(6, [(0, 1), (1, 2), (2, 1), (2, 3), (4, 4)], [1.0, 3.0, 1.0, 2.0, 1.0])

    assert engine.islands(graph).tolist() == [0, 0, 0, 0, 4, 5]
    assert engine.loops(graph).tolist() == [0, 1, 1, 3, 4, 5]
    ((start, vertices, depths),) = engine.hops(graph, [0])
    assert (start, vertices.tolist(), depths.tolist()) == (0, [1, 2, 3], [1, 2, 3])
    assert engine.articulation_points(graph, np.array([1, 0, 0, 1, 0, 0])) == {1: (1, 1), 2: (1, 1)}
    ones = engine.influence(Graph.of(3, [(0, 1), (1, 2)]), np.array([0.0, 0.0, 8.0]))
    np.testing.assert_allclose(ones, [8 * DAMPING**2, 8 * DAMPING, 8.0])


def test_long_chains_are_followed_to_their_ends(engine: Engine) -> None:
    """486 chains of 20 (9,720 edges with one of 200, whose end leads back to its middle): depth costs no more rounds
    of the whole graph."""
    chains = [(21 * chain + place, 21 * chain + place + 1) for chain in range(476) for place in range(20)]
    first = 21 * 476
    deep = [(first + place, first + place + 1) for place in range(200)]
    graph = Graph.of(first + 201, [*chains, *deep, (first + 200, first + 100)])

    islands, loops = engine.islands(graph), engine.loops(graph)
    ((_, vertices, depths),) = engine.hops(graph, [first])

    assert islands[:first].tolist() == [vertex // 21 * 21 for vertex in range(first)]
    assert islands[first:].tolist() == [first] * 201
    assert loops[: first + 100].tolist() == list(range(first + 100))
    assert loops[first + 100 :].tolist() == [first + 100] * 101
    assert (len(vertices), int(depths[-1])) == (200, 200)


def test_graph_without_edges_leaves_each_vertex_alone(engine: Engine) -> None:
    graph = Graph.of(2, [])

    assert engine.islands(graph).tolist() == [0, 1]
    assert engine.loops(graph).tolist() == [0, 1]
    assert [(start, len(vertices)) for start, vertices, _ in engine.hops(graph, [1])] == [(1, 0)]
    assert engine.influence(graph, np.array([1.0, 2.0])).tolist() == [1.0, 2.0]
    assert engine.articulation_points(graph, np.array([1, 1])) == {}


def test_planted_faults_are_found_and_nothing_else(engine: Engine) -> None:
    topology = build(faulty().inputs(), engine)

    assert {finding.id for finding in topology.findings} == FAULTS
    assert not build(healthy().inputs(), engine).findings


def test_engines_give_one_document(engine: Engine) -> None:
    def whole(chosen: Engine) -> bytes:
        return to_json(build(faulty().inputs(), chosen)).replace(f"{chosen.name} engine".encode(), b"engine")

    mine = whole(engine).replace(f'"engine":"{engine.name}"'.encode(), b'"engine":""')
    assert mine == whole(LocalEngine()).replace(b'"engine":"local"', b'"engine":""')
