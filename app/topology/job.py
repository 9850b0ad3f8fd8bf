"""The topology by Spark: contract, statuses and traffic read from Kafka (or from the traffic tables) as DataFrames.

    Kafka, Parquet --spark_contract, spark_traffic--> frames --spark_facts--> Facts --engine, build--> Topology

What the document shows of a resource is decoded here, from the same records. Refuses to start or stop the session.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from analytics.sources import read_batch
from analytics.topology.build import build
from analytics.topology.document import Tier, Topology, Window
from analytics.topology.graph import Engine
from analytics.topology.inputs import Inputs
from analytics.topology.spark_contract import contract_frames
from analytics.topology.spark_facts import spark_facts, traffic_frame
from analytics.topology.spark_traffic import latest, of_deltas, of_windows
from app.cli.contract import contract_of
from app.topic_reader import NoSuchTopicError, TopicReader
from app.topology.reading import STALE_S, Wish, check_namespace, states_of
from knative.errors import PenstockError
from knative.names import contract_topic, status_topic, traffic_topic
from tables.status import FRESH_S

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def check_topics(wish: Wish) -> None:
    """Before Spark takes its seconds to start: Kafka answers, and a worker has run. Raises PenstockError."""
    for topic in (contract_topic(wish.instance), status_topic(wish.instance)):
        TopicReader(topic, wish.client).close()


def run(spark: SparkSession, wish: Wish, engine: Engine, notes: list[str]) -> Topology:
    """One report. Raises PenstockError for what is not there."""
    bootstrap = wish.client["bootstrap.servers"]
    records = latest(read_batch(spark, bootstrap, [contract_topic(wish.instance)])).cache()
    try:
        statuses = latest(read_batch(spark, bootstrap, [status_topic(wish.instance)]))
        contract = contract_of(wish.instance, _values(records), _values(statuses))
        check_namespace(contract, wish.namespace)
        workers = sum(wish.now - one.time <= FRESH_S for one in contract.workers)
        traffic, window, tier = _traffic(spark, wish, workers, notes)
        inputs = Inputs(
            instance=wish.instance,
            now=wish.now,
            channels=contract.channels,
            subscriptions=contract.subscriptions,
            states=states_of(contract, wish.now, wish.since),
            window=window,
            tier=tier,
            namespace=wish.namespace,
            workers=workers,
        )
        began = time.monotonic()
        facts = spark_facts(spark, inputs, contract_frames(records, wish.namespace), traffic)
        told = f"Spark joined contract and traffic in {time.monotonic() - began:.1f} s ({spark.version})."
        return build(inputs, engine, facts, [*notes, told])
    finally:
        records.unpersist()


def _values(records: DataFrame) -> list[bytes]:
    return [row[0].encode() for row in records.collect()]


def _traffic(spark: SparkSession, wish: Wish, workers: int, notes: list[str]) -> tuple[DataFrame, Window, Tier]:
    """The same choice as `reading` makes."""
    if wish.tier in (None, Tier.WINDOWS):
        found = _windows(spark, wish)
        if found is not None:
            return *found, Tier.WINDOWS
        notes.append(f"There are no traffic tables of the end of the window in {wish.folder}.")
        if wish.tier is Tier.WINDOWS:
            raise PenstockError(" ".join(notes), "Make them: penstock job traffic.")
    if wish.tier in (None, Tier.DELTAS):
        found = _deltas(spark, wish, workers)
        if found is not None:
            return *found, Tier.DELTAS
        notes.append(f"The topic {traffic_topic(wish.instance)} has no record of the window.")
        if wish.tier is Tier.DELTAS:
            raise PenstockError(" ".join(notes), "Workers write it while PENSTOCK_TRAFFIC is on.")
    nothing = traffic_frame(spark, [])
    if wish.tier is Tier.NONE or not workers:
        return nothing, Window(), Tier.NONE
    return nothing, Window(wish.now - 60.0, wish.now), Tier.STATUS


def _windows(spark: SparkSession, wish: Wish) -> tuple[DataFrame, Window] | None:
    from analytics.traffic.read import window_files

    files = window_files(wish.folder) if wish.folder.is_dir() else []
    if not files:
        return None
    rows, span = of_windows(spark, files, wish.since, wish.until)
    if span is None or wish.until - span[1] > STALE_S:
        return None
    return rows, Window(*span)


def _deltas(spark: SparkSession, wish: Wish, workers: int) -> tuple[DataFrame, Window] | None:
    topic = traffic_topic(wish.instance)
    with suppress(NoSuchTopicError):
        TopicReader(topic, wish.client).close()
        records = read_batch(spark, _bootstrap(wish.client), [topic], since_s=wish.since)
        rows, first = of_deltas(records, wish.since, wish.until)
        if first is not None or workers:
            return rows, Window(wish.since if first is None else first, wish.until)
    return None


def _bootstrap(client: Mapping[str, Any]) -> str:
    return str(client["bootstrap.servers"])
