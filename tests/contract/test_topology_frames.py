"""The report whose graph never leaves Spark, against the one of the local engine; needs GraphFrames' jars.

As in `test_topology_engines`, without them it says NOT RUN HERE, and why, in the summary of the run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings

from analytics.topology.build import build
from analytics.topology.engines.graphframes import NEAR_EDGES, GraphFramesEngine, missing_jars
from analytics.topology.engines.local import LocalEngine
from analytics.topology.model.document import Topology, to_json
from analytics.topology.model.inputs import Inputs
from analytics.topology.spark import queries, selection
from analytics.topology.spark.contract import _places
from analytics.topology.spark.selection import WHOLE_EDGES_MAX
from app.local.kafka import EmbeddedKafka
from app.operations.topology.job import run
from app.operations.topology.reading import TopologyQuery
from app.settings.load import load_settings
from knative.contract.host_table import channels_by_host
from tests.integration.topology_frames import report
from tests.integration.topology_inputs import deltas, publish, status, topics
from tests.support.planted_faults import FAULTS, World, faulty, healthy
from tests.support.received import received
from tests.support.topology_worlds import worlds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHOWN = {"vertices", "edges", "method", "engine"}


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


def claimed() -> World:
    """A host that two channels claim, and one that belongs to a channel of another namespace."""
    world = World().channel("shop/orders").channel("attacker/thief").channel("shop/main", kind="Broker")
    for index, hosts in enumerate([("both.example",), ("Both.example.", "lost-kn-channel.shop.svc", "thief.example")]):
        channel = world.channels[index]
        world.channels[index] = replace(channel, hosts=(*channel.hosts, *hosts))
    for index, host in enumerate(("both.example", "lost-kn-channel.shop.svc", "THIEF.example:80")):
        world.subscription(f"shop/s{index}", "shop/orders", f"http://{host}/")
    return world


WORLDS = {
    "hosts of others": claimed().inputs(),
    "every fault": faulty().inputs(),
    "brokers": nested().inputs(),
    "not counted, nobody works": faulty().inputs(counted=False, workers=0),
    "one namespace": nested().inputs(namespace="shop"),
    "nothing": World().inputs(),
    "nothing to find": healthy().inputs(),
}


def test_hosts_have_the_owners_that_ingress_knows(spark: SparkSession) -> None:
    """Needs no jars of GraphFrames."""
    channels = claimed().channels
    schema = ", ".join(f"{name} string" for name in ("id", "uid", "namespace", "name", "kind", "topic"))
    rows = [(c.uid, c.uid, c.namespace, c.name, c.kind, c.topic, list(c.hosts)) for c in channels]
    places = _places(spark.createDataFrame(rows, f"{schema}, hosts array<string>")).collect()
    owners = {row.place: row.at for row in places if not row.place.startswith("/") and " " not in row.place}
    assert owners == {host: channel.uid for host, channel in channels_by_host(channels).items()}
    assert "thief.example" in owners
    assert len(owners) == 3, "without the host that two claim, and the one of another namespace"


@pytest.mark.parametrize("near", [NEAR_EDGES, 10])
@pytest.mark.parametrize("name", WORLDS)
def test_the_document_is_the_one_of_the_local_engine(engine: SparkSession, name: str, near: int) -> None:
    """Whether the last rounds are finished in this process or not."""
    found = report(engine, WORLDS[name], near, WHOLE_EDGES_MAX)

    assert plain(found) == plain(build(WORLDS[name], LocalEngine()))
    assert found.engine == "graphframes"


@pytest.mark.parametrize("name", WORLDS)
def test_of_a_part_that_is_shown_everything_is_found(
    engine: SparkSession, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A large map's findings, rankings, reach and islands are of the whole; what findings name is shown."""
    monkeypatch.setattr(selection, "BUSIEST_MAX", 1)

    found, whole = report(engine, WORLDS[name], NEAR_EDGES, 0), build(WORLDS[name], LocalEngine())

    mine, wanted = plain(found), plain(whole)
    assert {key: mine[key] for key in mine.keys() - _SHOWN} == {key: wanted[key] for key in wanted.keys() - _SHOWN}
    assert {one.id for one in found.edges} <= {one.id for one in whole.edges}
    assert {id_ for one in found.findings for id_ in one.objects} <= {one.id for one in found.vertices}


@given(world=worlds())
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_world_has_one_document(engine: SparkSession, world: World) -> None:
    inputs = world.inputs()

    assert plain(report(engine, inputs, 3, WHOLE_EDGES_MAX)) == plain(build(inputs, LocalEngine()))


def test_too_many_subscriptions_with_one_mark_are_shown_in_part(
    engine: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And says so; a destination that gets events twice is shown completely or not at all."""
    monkeypatch.setattr(selection, "MARKED_MAX", 3)
    monkeypatch.setattr("analytics.topology.spark.report.MARKED_MAX", 3)
    monkeypatch.setattr(selection, "BUSIEST_MAX", 0)
    world = World().channel("news")
    for number in range(5):
        world.channel(f"unread-{number}").subscription(f"s-{number}", "news", f"http://{number // 2}")

    found = report(engine, world.inputs(), NEAR_EDGES, 0)

    rules = [one.rule for one in found.findings]
    assert (rules.count("unread"), rules.count("double-delivery")) == (3, 1)
    assert "5 channels without a subscription, 3 of them are shown." in found.method
    assert "Destinations that get events twice are shown for 2 subscriptions." in found.method


def large(channels: int) -> Inputs:
    """So many channels with two subscriptions each, that share a sink. Nothing is wrong but one reply."""
    world = World()
    for number in range(channels):
        world.channel(f"c-{number}").sent(f"c-{number}", f"/source-{number % 50}", 60)
        for side in "ab":
            name = f"s-{number}-{side}"
            reply = f"c-{number}" if (number, side) == (7, "a") else ""
            world.subscription(name, f"c-{number}", f"http://{name}", reply=reply, sink="http://graveyard")
            world.settled(name, 60)
    return world.inputs()


def test_nothing_of_the_graph_comes_here_before_what_is_found(
    engine: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a map of twice the size no row more comes, and all that comes is less than a sixth of it."""
    monkeypatch.setattr(selection, "BUSIEST_MAX", 5)
    monkeypatch.setattr(queries, "CUT_EDGES_MAX", 0)  # those are looked for in this process, in numbers
    monkeypatch.setattr(queries, "SOURCES_MAX", 0)  # and what sources reach is counted here
    counts = []
    for channels in (200, 400):
        inputs = large(channels)
        with received() as rows:
            found = report(engine, inputs, 20, 0)
        assert [one.id for one in found.findings] == ["self-reply:channel:test/c-7"]
        counts.append((rows.rows, rows.other))
    links = sum(2 + 1 for _ in inputs.subscriptions) + channels + 1

    assert counts[0] == counts[1]
    assert counts[1][0] < links / 6


@pytest.mark.parametrize("namespace", ["", "test"])
def test_the_job_reads_kafka_for_it(
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

    found = run(engine, wish, lambda edges: (GraphFramesEngine(engine), f"{edges} edges"))

    assert {one.id for one in found.findings} == FAULTS
    assert {one.message for one in found.vertices if one.id == "subscription:test/sleepy"} == {
        "partitions without an owner yet: 1; workers take them over within half a minute"
    }
    assert "75 edges" in found.method
