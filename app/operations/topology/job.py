"""The topology with Spark: contract, statuses and traffic, read from Kafka or the traffic tables as DataFrames.

    Kafka, Parquet --spark_contract, spark_traffic--> frames --spark_facts--> FactFrames
    FactFrames --GraphFrames, spark_report--> Topology        FactFrames --collect--> Facts --engine, build--> Topology

The caller starts and stops the session.
"""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from analytics.spark.kafka_source import read_batch
from analytics.spark.rows import frame_of
from analytics.topology.build import build
from analytics.topology.engines.graphframes import GraphFramesEngine
from analytics.topology.engines.port import Engine
from analytics.topology.model.document import Tier, Topology, Window
from analytics.topology.model.inputs import Inputs, State
from analytics.topology.spark.contract import contract_frames, namespaces, with_uid
from analytics.topology.spark.facts import SERVED_SCHEMA, FactFrames, collect, fact_frames, traffic_frame
from analytics.topology.spark.report import spark_report
from analytics.topology.spark.selection import only
from analytics.topology.spark.traffic import latest, of_deltas, of_windows, read_files
from analytics.traffic.read import with_window_files
from app.operations.contract_snapshot import check_known, contract_of
from app.operations.topology.reading import STALE_S, TopologyQuery, state_of, states_of
from knative.contract.kafka_names import contract_topic, status_topic, traffic_topic
from knative.contract.records import Channel, Subscription, WorkerStatus
from knative.delivery.policy import Addressable
from knative.errors import PenstockError
from tables.kafka.topic_reader import NoSuchTopicError, TopicReader
from tables.status_table import FRESH_S, subscriber_details

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: A subscription without details, for computing the state of a uid.
_SOME = Subscription("", 0, "", "", "", "", "", "", 0, "", Addressable(""))
#: Records of the topics and rows of the tables that one task takes in a second or two.
FEW = 100_000
_MAKE = "Create them: penstock job traffic."


def is_small(query: TopologyQuery) -> bool:
    """Whether there is so little data that one task can read it.

    Called before Spark takes its seconds to start. Raises PenstockError when Kafka does not answer or no worker has
    run.
    """
    count = 0
    for topic in (contract_topic(query.instance), status_topic(query.instance)):
        with TopicReader(topic, query.client) as reader:
            count += sum(end - begin for begin, end in reader.ranges.values())
    if query.tier in (None, Tier.WINDOWS):
        count += with_window_files(query.folder, partial(_rows, query))
    if query.tier in (None, Tier.DELTAS):
        with suppress(NoSuchTopicError), TopicReader(traffic_topic(query.instance), query.client) as reader:
            count += reader.count_since(int(query.since * 1000))
    return count <= FEW


def run(
    spark: SparkSession, query: TopologyQuery, pick: Callable[[int], tuple[Engine, str]], small: bool = False
) -> Topology:
    """Make one report. `pick`: number of edges -> engine and the reason for it. `small`: one task reads everything,
    without exchanges, and the result is computed here. Raises PenstockError for missing data."""
    source = _Source(spark, query, small)
    records = latest(source.topic(contract_topic(query.instance))).cache()
    try:
        statuses = _values(latest(source.topic(status_topic(query.instance))))
        reported = contract_of(query.instance, [], statuses)
        if query.namespace:
            check_known(query.namespace, namespaces(records))
        notes: list[str] = []
        workers = sum(query.now - one.time <= FRESH_S for one in reported.workers)
        traffic, window, tier = _traffic(source, workers, notes)
        inputs = Inputs(
            instance=query.instance,
            now=query.now,
            channels=(),
            subscriptions=(),
            window=window,
            tier=tier,
            namespace=query.namespace,
            workers=workers,
        )
        rows = served_rows(reported.workers, query.now, query.since)
        served = frame_of(spark, rows, SERVED_SCHEMA).coalesce(1)
        window_s = window.seconds if inputs.counted else 0.0
        facts = fact_frames(window_s, contract_frames(records, query.namespace), traffic, served)
        try:
            return _Job(spark, query, records, statuses, inputs, facts, notes).report(pick, small)
        finally:
            facts.close()
    finally:
        records.unpersist()
        source.close()


@dataclass(frozen=True, slots=True)
class _Job:
    """The input of one report: contract records and facts as frames, statuses of workers as values."""

    spark: SparkSession
    query: TopologyQuery
    records: DataFrame
    statuses: list[bytes]
    inputs: Inputs
    facts: FactFrames
    notes: list[str]

    def report(self, pick: Callable[[int], tuple[Engine, str]], small: bool) -> Topology:
        """With GraphFrames the facts stay in Spark; otherwise they are collected, for little data right away."""
        if small:
            return self._collected(pick)
        began = time.monotonic()
        engine, why = pick(self.facts.links_count())
        if not isinstance(engine, GraphFramesEngine):
            return self._collected(lambda _: (engine, why))
        notes = [*self.notes, _joined(self.spark, began), *([why] if why else [])]
        return spark_report(self.spark, self.inputs, self.facts, self.resources, notes)

    def _collected(self, pick: Callable[[int], tuple[Engine, str]]) -> Topology:
        channels, subscriptions, states = self.resources(None)
        inputs = replace(self.inputs, channels=channels, subscriptions=subscriptions, states=states)
        began = time.monotonic()
        facts = collect(inputs, self.facts)
        joined = _joined(self.spark, began)
        engine, why = pick(facts.links_count())
        return build(inputs, engine, facts, [*self.notes, joined, *([why] if why else [])])

    def resources(
        self, uids: Sequence[str] | None
    ) -> tuple[Sequence[Channel], Sequence[Subscription], Mapping[str, State]]:
        """See `Resources`."""
        records = self.records
        if uids is not None:
            records = only(self.spark, with_uid(records), "uid", set(uids)).select("value")
        found = contract_of(self.query.instance, _values(records), self.statuses)
        return found.channels, found.subscriptions, states_of(found, self.query.now, self.query.since)


def _joined(spark: SparkSession, began: float) -> str:
    return f"Spark joined contract and traffic in {time.monotonic() - began:.1f} s ({spark.version})."


def served_rows(
    workers: Sequence[WorkerStatus], now: float, since: float
) -> Iterator[tuple[str, int, int, int | None]]:
    """For each subscription that workers report: its generation, how many of its partitions are served, and its lag.

    See SERVED_SCHEMA. `state_of` computes the states of single resources in the same way, from their own records.
    """
    by_uid: dict[str, list[WorkerStatus]] = defaultdict(list)
    for worker in workers:
        for uid in worker.subscriptions:
            by_uid[uid].append(worker)
    for uid, some in by_uid.items():
        mine = [worker.subscriptions[uid] for worker in some]
        generation = max(one.generation for one in mine)
        owned = {place for one in mine for place in one.partitions}
        whole = next(place for place in itertools.count() if place not in owned)
        state = state_of(
            subscriber_details(replace(_SOME, uid=uid, generation=generation, partitions=whole), some, now), since
        )
        yield uid, generation, whole if state.ready == "True" else -1, state.lag


def _values(records: DataFrame) -> list[bytes]:
    return [row[0].encode() for row in records.collect()]


class _Source:
    """Reads the input of one report, and keeps it in Spark's memory until `close`."""

    def __init__(self, spark: SparkSession, query: TopologyQuery, small: bool) -> None:
        self.spark, self.query = spark, query
        self._small = small
        self._kept: list[DataFrame] = []

    def topic(self, name: str, since_s: float | None = None) -> DataFrame:
        """All records of a topic."""
        return self._few(read_batch(self.spark, self.query.client, [name], since_s=since_s))

    def files(self, files: list[Path]) -> DataFrame:
        """Rows of the traffic tables."""
        near = not _is_remote(self.spark) and str(self.spark.conf.get("spark.master", "")).startswith("local")
        return self._few(read_files(self.spark, files, self.query.since, self.query.until, near))

    def _few(self, rows: DataFrame) -> DataFrame:
        return rows.coalesce(1) if self._small else rows

    def keep(self, sums: DataFrame) -> tuple[DataFrame, Window | None]:
        """Cache sums that are used more than once. Second value: the span of their rows; None = there are none."""
        from pyspark.sql import functions as f

        kept = sums.cache()
        self._kept.append(kept)
        first, last = kept.agg(f.min("first"), f.max("last")).collect()[0]
        return kept.drop("first", "last"), None if first is None else Window(float(first), float(last))

    def close(self) -> None:
        """Release the cached frames."""
        for frame in self._kept:
            frame.unpersist()


def _is_remote(spark: SparkSession) -> bool:
    return "connect" in type(spark).__module__


def _traffic(source: _Source, workers: int, notes: list[str]) -> tuple[DataFrame, Window, Tier]:
    """Choose the source of traffic in the same way as `reading`."""
    query = source.query
    if query.tier in (None, Tier.WINDOWS):
        found = _windows(source)
        if found is not None:
            return *found, Tier.WINDOWS
        why = f"The traffic tables in {query.folder} do not reach to the end of the window."
        if query.tier is Tier.WINDOWS:
            raise PenstockError(why, _MAKE)
        notes.append(why)
    if query.tier in (None, Tier.DELTAS):
        found = _deltas(source, workers)
        if found is not None:
            return *found, Tier.DELTAS
        why = f"The topic {traffic_topic(query.instance)} has no record in the window."
        if query.tier is Tier.DELTAS:
            raise PenstockError(why, "Workers write it while PENSTOCK_TRAFFIC is on.")
        notes.append(why)
    nothing = traffic_frame(source.spark, [])
    if query.tier is Tier.NONE or not workers:
        return nothing, Window(), Tier.NONE
    return nothing, Window(query.now - 60.0, query.now), Tier.STATUS


def _rows(query: TopologyQuery, files: list[Path]) -> int:
    if query.tier is Tier.WINDOWS and not files:
        raise PenstockError(f"There are no traffic tables in {query.folder}.", _MAKE)
    return sum(pq.read_metadata(file).num_rows for file in files)


def _windows(source: _Source) -> tuple[DataFrame, Window] | None:
    query = source.query

    def read(files: list[Path]) -> tuple[DataFrame, Window | None] | None:
        return source.keep(of_windows(source.files(files), query.since, query.until)) if files else None

    found = with_window_files(query.folder, read)
    if found is None:
        return None
    rows, span = found
    if span is None or query.until - span.end > STALE_S:
        return None
    return rows, Window(span.start, min(span.end, query.until))


def _deltas(source: _Source, workers: int) -> tuple[DataFrame, Window] | None:
    topic, query = traffic_topic(source.query.instance), source.query
    with suppress(NoSuchTopicError):
        TopicReader(topic, query.client).close()
        rows, span = source.keep(of_deltas(source.topic(topic, query.since), query.since, query.until))
        if span is not None or workers:
            return rows, Window(query.since if span is None else span.start, query.until)
    return None
