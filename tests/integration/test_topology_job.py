"""The topology by Spark: equal facts and findings as in one process, from values, from Kafka and from tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analytics.topology.build import build
from analytics.topology.engines.graphframes import GraphFramesEngine, NoGraphFramesError, missing
from analytics.topology.engines.local import LocalEngine
from analytics.topology.model.document import to_json
from analytics.topology.model.facts import facts_of, structure_of
from tests.integration.topology_frames import contract, facts_by_spark
from tests.support.planted_faults import World, faulty
from tests.support.topology_worlds import worlds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.integration


def odd() -> World:
    """Addresses and kinds that are easy to get wrong."""
    world = faulty().channel("shop/main", kind="Broker").channel("shop/main").channel("shop/side", kind="Broker")
    world.subscription("shop/t", "shop/broker:main", "http://x/", kind="Trigger")
    world.subscription("shop/t", "shop/main", "http://y/").settled("shop/t", 7).settled("shop/trigger:t", 8)
    world.sent("shop/broker:main", "/main", 20)
    for number, uri in enumerate(
        (
            "http://any:8080/channels/test/orders",
            "http://any/channels/test/orders/",
            "http://any/channels/test/orders?x=1",
            "http://any/channels/test/orders//",
            "http://any/channels/test/nowhere",
            "http://ORDERS-kn-channel.test.svc.cluster.local.:80",
            "http://orders-kn-channel.test.svc.cluster.local/",
            "http://orders-kn-channel.test.svc.cluster.local?q=/channels/test/ping",
            "https://any/shop/side",
            "http://any/shop/main/",
            "http://any/brokers/shop/side",
            "http://any/brokers/test/orders",
            "http://any/hook?key=1",
            "http://any/hook?key=2",
            "http://any/hook?",
            "http://me:secret@any/hook",
            "http://[::1]:8080/channels/test/ping",
            "http://[::1]",
        )
    ):
        world.subscription(f"odd-{number}", "unheard", uri, reply=uri, sink=uri if number % 2 else "")
    world.subscription("lost", "gone/away", "http://x")
    world.sent("shop/main", "/main", 10).sent("no/channel", "/x", 5).sent("orders", "", 3).sent("ping", "/shop", 1)
    return world


def test_spark_finds_the_same_facts_and_makes_the_same_document(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a world with every fault and every odd address, and with more sources than are kept apart."""
    monkeypatch.setattr("analytics.topology.model.facts.SOURCES_MAX", 11)
    monkeypatch.setattr("analytics.topology.spark.facts.SOURCES_MAX", 11)
    inputs = odd().inputs()

    facts = facts_by_spark(spark, inputs)

    assert facts == facts_of(inputs)
    assert facts.sources_left_out == 4
    assert to_json(build(inputs, LocalEngine(), facts)) == to_json(build(inputs, LocalEngine()))


@given(world=worlds(), counted=st.booleans(), namespace=st.sampled_from(["", "", "a"]))
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_spark_finds_the_same_facts_in_any_world(
    spark: SparkSession, world: World, counted: bool, namespace: str
) -> None:
    inputs = world.inputs(counted, namespace)

    assert facts_by_spark(spark, inputs) == facts_of(inputs)


def test_spark_chooses_the_same_namespace(spark: SparkSession) -> None:
    part = odd().inputs(namespace="shop")
    frames = contract(spark, part)

    channels, own, consumers = structure_of(part)
    assert {row["id"] for row in frames.consumers.collect()} == {one.id for one in consumers}
    found = frames.channels.collect()
    assert {row["id"] for row in found if row["own"]} == own
    assert {row["id"] for row in found} == channels.keys()


def test_without_its_jars_graphframes_says_what_is_missing(spark: SparkSession) -> None:
    if not missing(spark):
        return  # they are here; the contract suite runs on them
    with pytest.raises(NoGraphFramesError, match=r"io\.graphframes:graphframes-spark4_2\.13.*--jars.*--engine local"):
        GraphFramesEngine(spark)
