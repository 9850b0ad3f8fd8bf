"""The traffic job: counts what is new in Kafka, batch by batch, into the days of the tables.

    with spark_session(...) as spark:
        summary = TrafficJob(spark, plan, on_batch=print_batch).run()

    commit 11 + Kafka now -> what to read -> Spark: windows of the batch -> the days they are in, written again
        -> topics and sums are as expected -> commit 12

With `once` the job reads what is there when it starts, then ends. Otherwise it asks for new channels now and then, and
runs until another thread or a signal handler calls `stop`. A span (`since_s`, `until_s`) is counted into tables of its
own, which no run continues.

Raises PenstockError with a hint: Kafka is unavailable (NotReadyError), a topic was deleted, the disk is full. Does not
print, read settings or start Spark.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from analytics.spark.kafka_source import bootstrap, read_ranges
from analytics.spark.rows import frame_of_table
from analytics.spark.sizes import sized
from analytics.traffic.dataset import Ages, Commit, Dataset, Folder
from analytics.traffic.days import write_days
from analytics.traffic.deltas import delta_ranges, delta_rows, fresh_deltas, read_deltas
from analytics.traffic.failures import explain_failure
from analytics.traffic.frames import ROWS, Owner, record_rows
from analytics.traffic.migrate import migrate
from analytics.traffic.seen import Seen
from analytics.traffic.topic_identity import (
    Ranges,
    TopicNow,
    TopicProbe,
    changed,
    count,
    judge,
    positions,
    to_read,
    up_to,
)
from analytics.traffic.totals import Totals, by_day, by_topic, not_empty
from analytics.traffic.windows import SCHEMA, STORED
from knative.traffic.delta import BadDeltaError, decode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS = "records"
DELTAS = "deltas"

#: Called for each batch: the number of the run, what it counted, and how long it took.
BatchListener = Callable[[int, Mapping[str, int], float], None]


@dataclass(frozen=True, slots=True)
class TrafficPlan:
    """What to read and where to write it. Times are Unix seconds."""

    kafka: Mapping[str, Any]  #: librdkafka client settings
    owners: Mapping[str, Owner]  #: topic of a channel -> its namespace and name; empty: deltas only
    traffic_topic: str  #: "" = records only
    folder: Folder
    describe: TopicProbe  #: what topics are there, where they begin and end, and whether they are those of before
    instance: str = "penstock"
    cluster: str = ""  #: Kafka's cluster id: tables of one cluster never continue with data of another
    once: bool = True
    interval_s: float = 10.0  #: to wait when all is counted, unless `once`
    records_max: int = 1_000_000  #: in one batch: what is repeated after a kill
    since_s: float | None = None
    until_s: float | None = None
    channels: frozenset[Owner] | None = None  #: count only what workers report about these; None: about all
    look: Callable[[], tuple[Mapping[str, Owner], str]] | None = None  #: the `owners` and `traffic_topic` of now
    say: Callable[[str], None] | None = None  #: called at once with each sentence of `Summary.notes`

    @property
    def is_span(self) -> bool:
        """Whether this counts a time range."""
        return self.since_s is not None or self.until_s is not None


@dataclass(slots=True)
class Summary:
    """The result of one run."""

    totals: Totals = field(default_factory=Totals)
    counters: Counter[str] = field(default_factory=Counter)  #: `records.late`, `deltas.repeats` and so on
    batches: int = 0
    rows: int = 0  #: windows of a minute, in all batches
    seconds: float = 0.0
    stopped: bool = False  #: the run ended before it had read everything
    notes: list[str] = field(default_factory=list)  #: sentences about topics that were replaced or truncated

    @property
    def records(self) -> int:
        """Records of all topics."""
        return sum(number for name, number in self.counters.items() if name.endswith(".records"))


class TrafficJob:
    """One run of the traffic job."""

    def __init__(self, spark: SparkSession, plan: TrafficPlan, on_batch: BatchListener | None = None) -> None:
        self.summary = Summary()
        self._spark, self._plan, self._on_batch = spark, plan, on_batch
        self._dataset = Dataset(plan.folder)
        self._stop = threading.Event()

    def stop(self) -> None:
        """End soon; the next run repeats a batch that is not finished."""
        self._stop.set()
        # Not in this thread: it may be the one that waits for Spark's answer.
        threading.Thread(target=self._cancel, daemon=True).start()

    def _cancel(self) -> None:
        if "connect" in type(self._spark).__module__:
            self._spark.interruptAll()
        else:
            self._spark.sparkContext.cancelAllJobs()

    def run(self) -> Summary:
        """Run until everything is read, or until `stop`."""
        began = time.monotonic()
        try:
            last = self._dataset.check(self._plan.instance, self._plan.cluster, self._plan.is_span)
            self._dataset.tidy(last)
            last = migrate(self._spark, self._dataset, last, self._plan.traffic_topic, time.time())
            self._follow(replace(last, is_span=self._plan.is_span))
        except Exception as problem:
            if not self._stop.is_set():
                raise explain_failure(problem, str(self._plan.folder), bootstrap(self._plan.kafka)) from problem
            self.summary.stopped = True
        self.summary.seconds = time.monotonic() - began
        return self.summary

    def _follow(self, last: Commit) -> None:
        first: Mapping[str, TopicNow] = {}
        while not self._stop.is_set():
            now = self._plan.describe(self._topics(last), True)
            verdict = judge(last.ids, last.offsets, now)
            first = {**(first or now), **{topic: now[topic] for topic in verdict.replaced}}
            for sentence in verdict.notes:
                self._note(sentence)
            done = {topic: at for topic, at in last.offsets.items() if topic not in verdict.replaced}
            ranges = to_read(up_to(first, now) if self._plan.once else now, done, self._plan.records_max)
            if ranges or last.due(Ages.at(time.time())):
                ids = {**last.ids, **{topic: topic_now.id for topic, topic_now in now.items()}}
                owners = {**last.owners, **self._plan.owners}
                after = replace(
                    last, offsets=positions(done, ranges), ids={t: i for t, i in ids.items() if i}, owners=owners
                )
                last = self._batch(after, *self._new(ranges), count(ranges)) or last
            elif self._plan.once:
                return
            if not self._plan.once and not to_read(now, positions(done, ranges), 1):
                self._stop.wait(self._plan.interval_s)
                self._look_again()
        self.summary.stopped = True

    def _look_again(self) -> None:
        if self._plan.look is not None and not self._stop.is_set():
            owners, traffic_topic = self._plan.look()
            self._plan = replace(self._plan, owners=owners, traffic_topic=traffic_topic)

    def _topics(self, last: Commit) -> list[str]:
        """Adds those that were read before. Without them, a topic that comes back would be counted from its start."""
        plan = self._plan
        channels = {**last.owners, **plan.owners} if plan.owners else {}
        return sorted([*channels, *([plan.traffic_topic] if plan.traffic_topic else [])])

    def _note(self, sentence: str) -> None:
        if sentence not in self.summary.notes:
            self.summary.notes.append(sentence)
            if self._plan.say is not None:
                self._plan.say(sentence)

    # ------------------------------------------------------------------------------------------------ what is read

    def _new(self, ranges: Ranges) -> tuple[DataFrame | None, DataFrame | None]:
        """Returns the records of channels, and those of the traffic topic; None: there are none."""
        deltas = {topic: places for topic, places in ranges.items() if topic == self._plan.traffic_topic}
        records = {topic: places for topic, places in ranges.items() if topic not in deltas}
        kafka = self._plan.kafka
        return (
            self._records_within(read_ranges(self._spark, kafka, records)) if records else None,
            read_ranges(self._spark, kafka, deltas) if deltas else None,
        )

    def _records_within(self, records: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        plan = self._plan
        if plan.since_s is not None:
            records = records.where(f.col("timestamp") >= f.timestamp_millis(f.lit(int(plan.since_s * 1000))))
        if plan.until_s is not None:
            records = records.where(f.col("timestamp") < f.timestamp_millis(f.lit(int(plan.until_s * 1000))))
        return records

    def _deltas_within(self, fresh: DataFrame) -> DataFrame:
        """Returns the deltas of the channels and of the time range, by their own times, and the row of unreadable
        records.

        `fresh` is the result of `fresh_deltas`: a filter on its input would take Spark minutes to plan.
        """
        from pyspark.sql import functions as f

        plan, condition = self._plan, f.lit(True)
        if plan.since_s is not None:
            condition &= f.col("at") >= int(plan.since_s)
        if plan.until_s is not None:
            condition &= f.col("at") < plan.until_s
        if plan.channels is not None:
            names = [f"{namespace}/{channel}" for namespace, channel in plan.channels]
            condition &= f.concat_ws("/", "ns", "channel").isin(names)
        return fresh.where(f.col("by").isNull() | condition)

    # ------------------------------------------------------------------------------------------------ one batch

    def _batch(self, after: Commit, records: DataFrame | None, deltas: DataFrame | None, size: int) -> Commit | None:
        """Count these into the tables; `size` records at most. None: nothing was counted, as a topic was replaced."""
        began, topic = time.monotonic(), self._plan.traffic_topic
        seen, parts = Seen.from_json(after.seen), []
        counters = Counter[str]()
        if records is not None:
            parts.append(record_rows(records, after.owners, after.newest))
        with sized(self._spark, size), ExitStack() as stack:
            if deltas is not None:
                fresh = self._deltas_within(fresh_deltas(read_deltas(deltas), seen.rows())).persist()
                stack.callback(fresh.unpersist)
                counters.update(self._read_of(fresh))
                for delta_range in delta_ranges(fresh).collect():
                    seen.add(delta_range["by"], delta_range["first"], delta_range["last"], delta_range["at"])
                parts.append(delta_rows(fresh, topic, after.newest.get(topic)))
            # The sums are here, so what follows reads nothing from Kafka again, even if an executor is lost.
            rows = ROWS.empty_table()
            if parts:
                rows = (
                    reduce(lambda data_frame, other: data_frame.unionByName(other), parts)
                    .select(ROWS.names)
                    .toArrow()
                    .cast(ROWS)
                )
        # After all of the batch was read and before it is written, so that no commit mixes a topic with the one that
        # replaced it.
        if after.ids and changed(after.ids, self._plan.describe(sorted(after.ids), False)):
            return None
        topics, newest = by_topic(rows), dict(after.newest)
        for row in topics:  # a clock that is ahead makes no event late
            newest[row["topic"]] = max(newest.get(row["topic"], 0), min(row["newest"], int(time.time())))
        seen.forget(newest.get(topic, 0))
        after = replace(after, run=after.run + 1, newest=newest, seen=seen.to_json())
        windows = not_empty(rows).select(SCHEMA.names)
        new = frame_of_table(self._spark, windows) if windows.num_rows else None
        days = write_days(self._spark, self._dataset, after, Ages.at(time.time()), new, windows.num_rows, by_day(rows))
        after = replace(after, days=days)
        self._dataset.write(after)
        self._dataset.tidy(after)
        for row in topics:
            name = RECORDS if row["kind"] == STORED else DELTAS
            counters.update({f"{name}.{counter}": row[counter] for counter in ("late", "folded", "repeats")})
            if name == RECORDS:
                counters[f"{name}.records"] += row["events"]
        self._count(counters, rows, windows.num_rows)
        if self._on_batch is not None:
            self._on_batch(after.run, counters, time.monotonic() - began)
        return after

    def _read_of(self, fresh: DataFrame) -> dict[str, int]:
        """Returns how many records there were; names the first that is not readable."""
        from pyspark.sql import functions as f

        bad = f.col("by").isNull()
        row = fresh.agg(
            f.sum("copies").alias("all"),
            f.sum(f.when(bad, f.col("copies"))).alias("bad"),
            f.min("first").alias("first"),
        ).collect()[0]
        if row["bad"]:
            self._note(_unreadable(self._plan.traffic_topic, *row["first"]))
        return {"deltas.records": row["all"] or 0, "deltas.unreadable": row["bad"] or 0}

    def _count(self, counters: Mapping[str, int], rows: pa.Table, windows: int) -> None:
        self.summary.batches += 1
        self.summary.rows += windows
        self.summary.totals.add(rows)
        self.summary.counters.update(counters)


def _unreadable(topic: str, partition: int, offset: int, value: bytes | None) -> str:
    try:
        decode(value)
        why = ""  # only Spark cannot read it
    except BadDeltaError as problem:
        why = f" {problem}"
    return (
        f"Record {offset} in partition {partition} of topic {topic} is not a valid traffic delta and is not "
        f"counted.{why}"
    )
