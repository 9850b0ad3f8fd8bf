"""The report by GraphFrames against the one of the local engine; needs GraphFrames' jars.

As in `test_topology_engines`, without them it says NOT RUN HERE, and why, in the summary of the run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings

from analytics.topology.build import build
from analytics.topology.engines.graphframes import GraphFramesEngine, missing_jars
from analytics.topology.engines.local import LocalEngine
from analytics.topology.model.document import Topology, to_json
from app.local.kafka import EmbeddedKafka
from app.operations.topology.job import run
from app.operations.topology.reading import TopologyQuery
from app.settings.load import load_settings
from tests.integration.topology_inputs import deltas, publish, status, topics
from tests.support.planted_faults import FAULTS, World, faulty, healthy
from tests.support.topology_worlds import worlds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def engine(request: pytest.FixtureRequest) -> SparkSession:
    """A session that has GraphFrames."""
    why = missing_jars(load_settings().spark_jars)
    if why:
        pytest.skip(f"NOT RUN HERE: {why}")
    spark: SparkSession = request.getfixturevalue("spark")
    return spark


def plain(topology: Topology) -> dict[str, Any]:
    """As JSON, without the engine's name."""
    row: dict[str, Any] = orjson.loads(to_json(topology).replace(b"graphframes engine", b"local engine"))
    return {**row, "engine": ""}


def nested() -> World:
    """Every planted fault, with brokers, triggers and a subscription of a channel that is gone."""
    world = faulty().channel("shop/main", kind="Broker").channel("shop/main").channel("shop/side", kind="Broker")
    world.subscription("shop/t", "shop/main", "http://x/", kind="Trigger", reply="shop/side")
    return world.subscription("lost", "gone/away", "http://x/").sent("shop/main", "/main", 10).sent("orders", "", 3)


WORLDS = {
    "every fault": faulty().inputs(),
    "brokers": nested().inputs(),
    "not counted, nobody works": faulty().inputs(counted=False, workers=0),
    "one namespace": nested().inputs(namespace="shop"),
    "nothing": World().inputs(),
    "nothing to find": healthy().inputs(),
}


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("whole", [0, 1_000])
def test_document_is_the_one_of_the_local_engine(engine: SparkSession, name: str, whole: int) -> None:
    """As a whole, and the part that is shown of a large map."""
    topology = build(WORLDS[name], GraphFramesEngine(engine), whole=whole)

    assert plain(topology) == plain(build(WORLDS[name], LocalEngine(), whole=whole))
    assert topology.engine == "graphframes"


@given(world=worlds())
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_world_has_one_document(engine: SparkSession, world: World) -> None:
    inputs = world.inputs()

    assert plain(build(inputs, GraphFramesEngine(engine))) == plain(build(inputs, LocalEngine()))


@pytest.mark.parametrize("namespace", ["", "test"])
def test_job_reads_kafka_for_it(
    engine: SparkSession, kafka: EmbeddedKafka, topic_name: Callable[[], str], tmp_path: Path, namespace: str
) -> None:
    """Contract, statuses and deltas of a real Kafka: what is planted is found, with the states of the statuses."""
    instance = f"i{topic_name()}"
    topics(kafka.bootstrap, instance)
    publish(kafka.bootstrap, instance, faulty())
    deltas(kafka.bootstrap, instance, faulty())
    status(kafka.bootstrap, instance, faulty())
    now = time.time()
    wish = TopologyQuery(
        {"bootstrap.servers": kafka.bootstrap}, instance, now, now - 600, now, namespace, tmp_path / "none"
    )

    topology = run(engine, wish, lambda edges: (GraphFramesEngine(engine), f"{edges} edges"))

    assert {finding.id for finding in topology.findings} == FAULTS
    assert {vertex.message for vertex in topology.vertices if vertex.id == "subscription:test/sleepy"} == {
        "partitions without an owner yet: 1; workers take them over within half a minute"
    }
    assert "75 edges" in topology.method
