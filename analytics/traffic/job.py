"""The traffic job: two streaming queries, or one bounded read, that write the tables batch by batch.

    with spark_session(...) as spark:
        summary = TrafficJob(spark, plan, on_batch=print_batch).run()

With `once` the job reads what is there when it starts, then ends. Otherwise it runs until another thread or a signal
handler calls `stop`. A span (`since_s`, `until_s`) is a bounded read into tables of its own and keeps no state.

Raises PenstockError with a hint: Kafka is unavailable (NotReadyError), a topic was deleted, a checkpoint is not
readable, the disk is full. Does not print, read settings or start Spark.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analytics.spark.kafka_source import StreamBounds, bootstrap, read_batch, read_stream
from analytics.traffic import checkpoint, frames
from analytics.traffic.batches import Batch, Owner, of_deltas, of_records
from analytics.traffic.failures import explain_failure
from analytics.traffic.seen import Seen
from analytics.traffic.store import QueryStore, open_tables
from analytics.traffic.topic_identity import TopicNow, TopicProbe, TopicReplacedError, changed, judge
from analytics.traffic.totals import Totals

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

RECORDS = "records"
DELTAS = "deltas"
_DELTAS_MAX = 300_000  #: in one batch: kept in memory, because three queries read them
_SLACK_S = 120.0  #: clocks differ, and a delta comes after the second that it counts: a span is read this much further
_COMPACT_EVERY_S = 300.0
_CHECK_EVERY_S = 10.0  #: between checks of the topics: a batch checks too, but without new records there is no batch

#: Called for each batch: the query's name, its number, what it counted, and how long it took.
BatchListener = Callable[[str, int, Mapping[str, int], float], None]


@dataclass(frozen=True, slots=True)
class TrafficPlan:
    """What to read and where to write it. Times are Unix seconds."""

    kafka: Mapping[str, Any]  #: librdkafka client settings
    owners: Mapping[str, Owner]  #: topic of a channel -> its namespace and name; empty: deltas only
    traffic_topic: str  #: "" = records only
    folder: Path
    topics_there: frozenset[str] = frozenset()  #: in Kafka: a known channel is read as long as its topic exists
    instance: str = "penstock"
    cluster: str = ""  #: Kafka's cluster id: tables of one cluster never continue with data of another
    once: bool = True
    interval_s: float = 10.0  #: between two batches, unless `once`
    records_max: int = 1_000_000  #: in one batch
    since_s: float | None = None
    until_s: float | None = None
    describe: TopicProbe | None = None  #: checks whether topics are those that were read before; None: no check
    say: Callable[[str], None] | None = None  #: called at once with each sentence of `Summary.notes`

    @property
    def is_span(self) -> bool:
        """Whether this is a bounded read without state."""
        return self.since_s is not None or self.until_s is not None


@dataclass(slots=True)
class Summary:
    """The result of one run."""

    totals: Totals = field(default_factory=Totals)
    counters: dict[str, int] = field(default_factory=dict)  #: `records.late`, `deltas.repeats` and so on
    batches: int = 0
    rows: int = 0  #: of the tables, written by this run
    seconds: float = 0.0
    stopped: bool = False  #: the run ended before it had read everything
    notes: list[str] = field(default_factory=list)  #: sentences about topics that were replaced or truncated

    @property
    def records(self) -> int:
        """Records of all topics."""
        return sum(count for name, count in self.counters.items() if name.endswith(".records"))


class TrafficJob:
    """One run."""

    def __init__(self, spark: SparkSession, plan: TrafficPlan, on_batch: BatchListener | None = None) -> None:
        self.summary = Summary()
        self._spark, self._plan, self._on_batch = spark, plan, on_batch
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._owners = dict(plan.owners)
        self._ids: dict[str, Mapping[str, str]] = {}  # query -> topic -> id while it runs

    def stop(self) -> None:
        """End soon; the next run repeats a batch that is not finished."""
        self._stop.set()

    def run(self) -> Summary:
        """Run until everything is read, or until `stop`."""
        began = time.monotonic()
        id_ = open_tables(self._plan.folder, self._plan.instance, self._plan.cluster)
        stores = {name: QueryStore(self._plan.folder / name, id_) for name in self._queries()}
        for store in stores.values():
            store.open()
        if RECORDS in stores:
            self._owners = {**self._known_owners(stores[RECORDS]), **self._owners}
        if self._plan.is_span:
            self._read_span(stores)
        else:
            while not self._stream(stores):
                self._failure = None
        self.summary.seconds = time.monotonic() - began
        return self.summary

    def _queries(self) -> list[str]:
        wanted = ((RECORDS, bool(self._plan.owners)), (DELTAS, bool(self._plan.traffic_topic)))
        return [name for name, is_wanted in wanted if is_wanted]

    def _known_owners(self, store: QueryStore) -> dict[str, Owner]:
        """Owners of topics read before. Without them, a topic that comes back would be counted from its start."""
        before = store.last_facts().get("owners", {})
        return {topic: (found[0], found[1]) for topic, found in before.items() if topic in self._plan.topics_there}

    def _topics(self, name: str) -> list[str]:
        return sorted(self._owners) if name == RECORDS else [self._plan.traffic_topic]

    # ------------------------------------------------------------------------------------------------ streams

    def _stream(self, stores: Mapping[str, QueryStore]) -> bool:
        """Run the queries until everything is read, or `stop`. False: a topic was replaced, so start again."""
        queries: dict[str, StreamingQuery] = {}
        try:
            for name, store in stores.items():
                self._know(name, store)
                queries[name] = self._start(name, store)
            self._wait(list(queries.values()), list(stores.values()))
        except Exception as problem:
            if isinstance(self._failure or problem, TopicReplacedError):
                return False
            raise explain_failure(self._failure or problem, self._plan.folder, bootstrap(self._plan.kafka)) from problem
        finally:
            for query in queries.values():
                self._end(query)
        for store in stores.values():
            store.compact(time.time())
        return True

    def _know(self, name: str, store: QueryStore) -> None:
        """Remember the ids of the topics, and make Spark forget the topics that were replaced since they were read."""
        now = self._describe(self._topics(name), bounds=True)
        done = checkpoint.offsets_of(store.checkpoint, checkpoint.committed(store.checkpoint))
        planned = checkpoint.offsets_of(store.checkpoint, checkpoint.begun(store.checkpoint))
        found = judge(store.last_facts().get("ids", {}), done, planned, now)
        for sentence in found.notes:
            self.summary.notes.append(sentence)
            if self._plan.say is not None:
                self._plan.say(sentence)
        if found.replaced:
            store.forget(found.replaced)
        self._ids[name] = {topic: one.id for topic, one in now.items()}

    def _describe(self, topics: Sequence[str], bounds: bool = False) -> Mapping[str, TopicNow]:
        return self._plan.describe(topics, bounds) if self._plan.describe is not None else {}

    def _same(self, name: str) -> None:
        """Raises TopicReplacedError if a topic was replaced: then the last batch may hold records of either one."""
        expected = self._ids.get(name)
        if expected and (replaced := changed(expected, self._describe(self._topics(name)))):
            raise TopicReplacedError(f"Topic {replaced[0]} was created again.", "Start again.")

    def _start(self, name: str, store: QueryStore) -> StreamingQuery:
        limit = self._plan.records_max if name == RECORDS else min(_DELTAS_MAX, self._plan.records_max)
        stream = read_stream(self._spark, self._plan.kafka, self._topics(name), StreamBounds(limit))
        writer = (
            stream.writeStream.queryName(f"penstock-traffic-{name}")
            .option("checkpointLocation", str(store.checkpoint.absolute()))
            .foreachBatch(lambda frame, number: self._guarded(name, store, frame, number))
        )
        if self._plan.once:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{int(self._plan.interval_s * 1000)} milliseconds").start()

    def _wait(self, queries: Sequence[StreamingQuery], stores: Sequence[QueryStore]) -> None:
        compacted = checked = time.monotonic()
        while not self._stop.is_set():
            for query in queries:
                if (problem := query.exception()) is not None:
                    raise problem
            if not any(query.isActive for query in queries):
                return
            self._stop.wait(0.3)
            if time.monotonic() - checked > _CHECK_EVERY_S:
                for name in self._ids:
                    self._same(name)
                checked = time.monotonic()
            if time.monotonic() - compacted > _COMPACT_EVERY_S:
                compacted = time.monotonic()
                for store in stores:
                    store.compact(time.time())
        self.summary.stopped = any(query.isActive for query in queries)

    def _end(self, query: StreamingQuery) -> None:
        """Stop the query. A batch that waits for Kafka ends with the session, which does not wait for it."""
        try:
            query.stop()
        except Exception:
            self.summary.stopped = True

    def _guarded(self, name: str, store: QueryStore, frame: DataFrame, number: int) -> None:
        """Run one batch and keep its exception, of which the JVM makes pages of text. The query must fail too, or the
        batch would count.
        """
        try:
            self._take(name, store, frame, number)
        except BaseException as problem:
            self._failure = self._failure or problem
            raise RuntimeError(f"batch {number} of {name}") from None

    # ------------------------------------------------------------------------------------------------ batches

    def _read_span(self, stores: Mapping[str, QueryStore]) -> None:
        plan = self._plan
        for name, store in stores.items():
            until_s = None if plan.until_s is None else plan.until_s + _SLACK_S
            try:
                frame = read_batch(self._spark, plan.kafka, self._topics(name), plan.since_s, until_s)
                self._take(name, store, frame, 0)
            except Exception as problem:
                raise explain_failure(problem, plan.folder, bootstrap(plan.kafka)) from problem

    def _take(self, name: str, store: QueryStore, frame: DataFrame, number: int) -> None:
        began = time.monotonic()
        state = store.state_before(number)
        batch = self._records(frame, state) if name == RECORDS else self._deltas(frame, state)
        # After all of the batch was read and before it is written, so that no stored batch mixes a topic with the one
        # that replaced it.
        self._same(name)
        ids = {**state.get("ids", {}), **self._ids.get(name, {})}
        store.write(number, batch.table, {**batch.facts, "ids": {topic: id_ for topic, id_ in ids.items() if id_}})
        self._count(name, batch)
        if self._on_batch is not None:
            self._on_batch(name, number, batch.counters, time.monotonic() - began)

    def _records(self, frame: DataFrame, state: Mapping[str, Any]) -> Batch:
        from pyspark.sql import functions as f

        plan = self._plan
        if plan.since_s is not None:
            frame = frame.where(f.col("timestamp") >= f.timestamp_millis(f.lit(int(plan.since_s * 1000))))
        if plan.until_s is not None:
            frame = frame.where(f.col("timestamp") < f.timestamp_millis(f.lit(int(plan.until_s * 1000))))
        return of_records(frames.record_sums(frame).toArrow(), self._owners, state, time.time())

    def _deltas(self, frame: DataFrame, state: Mapping[str, Any]) -> Batch:
        from pyspark.sql import functions as f

        plan = self._plan
        deltas = frames.read_deltas(frame)
        if plan.since_s is not None:
            deltas = deltas.where(f.expr("at is null") | (f.col("at") >= int(plan.since_s)))
        if plan.until_s is not None:
            deltas = deltas.where(f.expr("at is null") | (f.col("at") < plan.until_s))
        deltas = deltas.persist()
        try:
            counted = deltas.agg(f.count(f.lit(1)).alias("all"), f.count_if("readable").alias("readable")).collect()[0]
            records, unreadable = counted["all"], counted["all"] - counted["readable"]
            # What one task sums: without this, every step would be a shuffle of almost nothing.
            few = deltas.coalesce(1) if records <= 20_000 else deltas
            fresh = frames.fresh_deltas(few, Seen.from_json(state.get("seen", {})).rows())
            sums = frames.delta_sums(fresh).toArrow()
            ranges = frames.delta_ranges(fresh).toArrow().to_pylist()
        finally:
            deltas.unpersist()
        return of_deltas(sums, ranges, records, unreadable, state, time.time())

    def _count(self, name: str, batch: Batch) -> None:
        with self._lock:  # the queries run side by side
            self.summary.batches += 1
            self.summary.rows += batch.table.num_rows
            for counter, count in batch.counters.items():
                key = f"{name}.{counter}"
                self.summary.counters[key] = self.summary.counters.get(key, 0) + count
            self.summary.totals.add(batch.table)
