"""The topology with Spark, which adds up the traffic. All else is as in `penstock topology`.

    deltas in Kafka, tables --spark.traffic--> sums by key --Summing--> Inputs --facts_of, engine, build--> Topology

The caller starts and stops the session.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from analytics.spark.kafka_source import read_batch
from analytics.topology.build import build, collector_at_rest
from analytics.topology.engines.port import Engine
from analytics.topology.model.document import Tier, Topology, Window
from analytics.topology.model.facts import facts_of
from analytics.topology.model.inputs import STALE_S
from analytics.topology.model.sums import Summing
from analytics.topology.spark.sums import fetch
from analytics.topology.spark.traffic import of_deltas, of_windows
from analytics.traffic.dataset import Dataset
from analytics.traffic.days import read_files
from analytics.traffic.read import count_rows, window_files, with_window_files
from app.operations.topology.reading import (
    MAKE_TABLES,
    Counted,
    NoTrafficError,
    TopologyQuery,
    no_topic,
    read_inputs,
    recent,
    window_of_deltas,
)
from app.operations.topology.tables import reach_of
from knative.contract.kafka_names import contract_topic, traffic_topic
from knative.errors import PenstockError
from tables.kafka.topic_reader import NoSuchTopicError, TopicReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Records of the topic and rows of the tables that one task takes in a second or two.
FEW = 100_000


def is_small(query: TopologyQuery) -> bool:
    """Returns whether one task can read all traffic. Called before Spark takes its seconds to start.

    Raises PenstockError when Kafka does not answer, no worker has run, or there are no tables and only they are wanted.
    """
    count = 0
    TopicReader(contract_topic(query.instance), query.client).close()
    if query.tier in (None, Tier.WINDOWS):
        if query.tier is Tier.WINDOWS and not window_files(query.folder):
            raise NoTrafficError(f"There are no traffic tables in {query.folder}.", MAKE_TABLES)
        try:
            count += count_rows(query.folder, query.since, query.until)
        except PenstockError:  # then the deltas are read, and a note says why
            if query.tier is Tier.WINDOWS:
                raise
    if query.tier in (None, Tier.DELTAS):
        with suppress(NoSuchTopicError), TopicReader(traffic_topic(query.instance), query.client) as reader:
            count += reader.count_since(int(query.since * 1000))
    return count <= FEW


def run(
    spark: SparkSession, query: TopologyQuery, pick: Callable[[int], tuple[Engine, str | None]], small: bool = False
) -> Topology:
    """Make one report. `pick`: number of edges -> engine and the reason for it. `small`: one task reads everything.
    Raises PenstockError for missing data."""
    source = _Source(spark, small)
    inputs = read_inputs(query, source.windows, source.deltas)
    with collector_at_rest():
        facts = facts_of(inputs)
    engine, why = pick(facts.links_count())
    return build(inputs, engine, facts, [why] if why else [])


class _Source:
    """Reads traffic by Spark."""

    def __init__(self, spark: SparkSession, small: bool) -> None:
        self._spark = spark
        self._small = small

    def windows(self, query: TopologyQuery, workers: int) -> Counted:
        """Is a `TrafficReader` of the tables."""
        reach = reach_of(query.folder, query.since, query.until)  # first, for a job may commit meanwhile

        def read(files: list[str]) -> Counted:
            if not files:
                if window_files(query.folder):  # there are tables, without a day of the window
                    return Counted(*Summing().sums(), recent(query, None, reach))
                raise NoTrafficError(f"There are no traffic tables in {query.folder}.", MAKE_TABLES)
            rows = self._few(read_files(self._spark, Dataset(query.folder), files))
            return self._counted(of_windows(rows, query.since, query.until), partial(recent, query, reach=reach))

        try:
            return with_window_files(query.folder, read, query.since, query.until)
        except PenstockError as problem:
            raise NoTrafficError(problem.what, problem.hint) from problem

    def deltas(self, query: TopologyQuery, workers: int) -> Counted:
        """Is a `TrafficReader` of the topic."""
        topic = traffic_topic(query.instance)
        try:
            with TopicReader(topic, query.client) as reader:
                older = reader.has_before(int(query.since * 1000))
        except NoSuchTopicError as problem:
            raise no_topic(topic) from problem
        rows = self._few(read_batch(self._spark, query.client, [topic], query.since, query.until + STALE_S))
        sums = of_deltas(rows, query.since, query.until)
        return self._counted(sums, partial(window_of_deltas, query, workers, older=older))

    def _few(self, rows: DataFrame) -> DataFrame:
        return rows.coalesce(1) if self._small else rows

    def _counted(self, sums: DataFrame, window: Callable[[Window | None], Window]) -> Counted:
        began = time.monotonic()
        counts, span = fetch(sums, window)
        note = f"Spark added the traffic up in {time.monotonic() - began:.1f} s ({self._spark.version})."
        return Counted(*counts, span, (note,))
