"""The traffic job on a real Kafka and a real Spark: its sums are the ledger's, whatever comes twice, late or broken."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, settings

from analytics.spark.rows import frame_of
from analytics.traffic.dataset import BrokenTablesError, Dataset
from analytics.traffic.deltas import read_deltas
from analytics.traffic.job import TrafficJob, TrafficPlan
from analytics.traffic.read import count_rows, read_windows
from analytics.traffic.topic_identity import TopicNow
from analytics.traffic.windows import Window
from app.local.kafka import EmbeddedKafka
from app.operations.traffic_topics import KafkaTopics
from knative.errors import PenstockError, UsageError
from knative.traffic.counts import NAMES, Counts
from knative.traffic.delta import BadDeltaError, Delta, decode, encode
from tests.integration.odd_deltas import ODD, odd_deltas
from tests.support.traffic import Sent, shown
from tests.support.traffic_tables import rows_of, write_former, write_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.integration

_FIELDS = ("by", "n", "at", "kind", "ns", "channel", "sub", "type", "source")
BEGIN_S = int(time.time()) // 86_400 * 86_400 - 86_400 + 3600  # a whole hour of yesterday, which is in minutes
DELTA = encode(Delta("w", 0, BEGIN_S, "settled", "ns", "a", "sub", "t", "/s", Counts(3, 30, 2, 1, 1), {4: 2}))
BROKEN: list[bytes | None] = [
    None, b"", b"junk", b"[]", b'"x"', b"{}", b"\xff\xfe",
    DELTA.replace(b'"v":1', b'"v":2'), DELTA.replace(b'"v":1,', b""), DELTA.replace(b"settled", b"other"),
    DELTA.replace(b'"events":3', b'"events":-3'), DELTA.replace(b'"events":3', b'"events":"3"'),
    DELTA.replace(b'"events":3', b'"events":1.5'), DELTA.replace(b'"events":3', b'"events":true'),
    DELTA.replace(b'"by":"w",', b""), DELTA.replace(b'"n":0', b'"n":-1'),
    DELTA.replace(b'"n":0,', b""), DELTA.replace(b'"4":2', b'"999":2'), DELTA.replace(b'"4":2', b'"x":2'),
    DELTA.replace(b'"4":2', b'"4":0'), DELTA.replace(b'{"4":2}', b"[1]"), DELTA.replace(b'"ns":"ns",', b""), DELTA[:-3],
]  # fmt: skip


@pytest.fixture
def sent(kafka: EmbeddedKafka, make_topic: Callable[..., str], topic_name: Callable[[], str]) -> Sent:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    event = Sent(
        kafka.bootstrap,
        topic_name(),
        {make_topic(2, retention_ms=-1): ("ns", "a"), make_topic(2, retention_ms=-1): ("ns", "b")},
    )
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(event.traffic_topic, 3, 1, config={"retention.ms": "-1"})])[
        event.traffic_topic
    ].result(180)
    return event


def _plan(kafka: EmbeddedKafka, sent: Sent, folder: Path, **changes: object) -> TrafficPlan:
    client = {"bootstrap.servers": kafka.bootstrap}
    plan = TrafficPlan(client, sent.owners, sent.traffic_topic, folder, KafkaTopics(client).describe)
    return replace(plan, **changes)  # type: ignore[arg-type]


def test_sums_are_the_ledgers(spark: SparkSession, kafka: EmbeddedKafka, sent: Sent, tmp_path: Path) -> None:
    """Over runs and batches: duplicates in a batch and between them, late ones, junk, a channel that is new."""
    a, b = sent.owners
    folder = tmp_path / "traffic"
    sent.records(a, 700, BEGIN_S, 1200)
    values = sent.deltas("w1", ("ns", "a"), range(BEGIN_S, BEGIN_S + 300, 7), copies=2)
    first = _plan(kafka, sent, folder, owners={a: sent.owners[a]}, records_max=300)

    summary = TrafficJob(spark, first).run()

    assert shown(read_windows(folder)) == sent.expected()
    assert summary.counters["records.records"] == 700
    assert summary.counters["deltas.repeats"] == len(values)
    assert summary.batches >= 3

    sent.records(b, 100, BEGIN_S + 600, 600)
    sent.records(a, 50, BEGIN_S, 60)  # ten minutes and more after their window was over
    sent.raw([*values, *BROKEN])
    sent.deltas("w2", ("ns", "b"), [BEGIN_S + 301, BEGIN_S + 100])
    plan = _plan(kafka, sent, folder)

    summary = TrafficJob(spark, plan).run()

    assert shown(read_windows(folder)) == sent.expected()
    assert {name: count for name, count in summary.counters.items() if count} == {
        "records.records": 150,
        "records.late": 50,
        "deltas.records": len(values) + len(BROKEN) + 2,
        "deltas.repeats": len(values),
        "deltas.unreadable": len(BROKEN),
    }
    assert sum(window.late for window in read_windows(folder)) == 50
    [note] = summary.notes
    assert f"of topic {sent.traffic_topic} is not a valid traffic delta and is not counted. A traffic record" in note

    assert TrafficJob(spark, plan).run().records == 0
    minutes, hours, days = (read_windows(folder, size) for size in (60, 3600, 86_400))
    assert [len({window.start for window in hours}), len({window.start for window in days})] == [1, 1]
    for coarse in (hours, days):
        assert sum(window.counts.events for window in coarse) == sum(window.counts.events for window in minutes)
    assert count_rows(folder) == len(minutes)
    assert len(list((folder / "windows").rglob("*.parquet"))) == 1, "one day, and no file of a run before"


@pytest.mark.parametrize("step", ["files_of", "write", "tidy"])
def test_run_that_is_killed_counts_once(
    step: str, spark: SparkSession, kafka: EmbeddedKafka, sent: Sent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When Spark has written the days, before the commit, and when files of former runs go; in the first run, later."""
    a, _ = sent.owners
    plan = _plan(kafka, sent, tmp_path)

    for _ in range(2):
        sent.records(a, 100, BEGIN_S, 300)
        sent.deltas("w", ("ns", "a"), range(BEGIN_S, BEGIN_S + 60))
        calls = iter([False, True] if step == "tidy" else [True])  # a run begins with tidying, too
        monkeypatch.setattr(Dataset, step, lambda *_, calls=calls: _end(calls))
        with pytest.raises(KeyboardInterrupt):
            TrafficJob(spark, plan).run()
        monkeypatch.undo()
        TrafficJob(spark, plan).run()
        assert shown(read_windows(tmp_path)) == sent.expected()


def test_run_that_ends_does_so_while_records_come(
    spark: SparkSession, kafka: EmbeddedKafka, sent: Sent, tmp_path: Path
) -> None:
    """It counts what was there when it began, in batches; the next run counts what came meanwhile."""
    a, _ = sent.owners
    sent.records(a, 100, BEGIN_S, 300)
    sent.deltas("w", ("ns", "a"), range(BEGIN_S, BEGIN_S + 60))
    looks: list[float] = []

    def describe(topics: Collection[str], bounds: bool) -> Mapping[str, TopicNow]:
        now = plan.describe(topics, bounds)
        if bounds and len(looks) < 5:  # a run that does not end by itself ends then, with more records
            looks.append(time.monotonic())
            sent.records(a, 10, BEGIN_S, 300)
        return now

    plan = _plan(kafka, sent, tmp_path, records_max=90)
    first = TrafficJob(spark, replace(plan, describe=describe)).run()

    assert (first.records, first.counters["records.records"]) == (160, 100)
    assert TrafficJob(spark, plan).run().counters["records.records"] == 10 * len(looks)
    assert shown(read_windows(tmp_path)) == sent.expected()


def test_run_that_follows_counts_a_channel_that_comes_later(
    spark: SparkSession, kafka: EmbeddedKafka, sent: Sent, tmp_path: Path
) -> None:
    """And the traffic topic, which the first worker creates."""
    a, b = sent.owners
    sent.records(a, 10, BEGIN_S, 60)
    sent.records(b, 20, BEGIN_S, 60)
    sent.deltas("w", ("ns", "b"), range(BEGIN_S, BEGIN_S + 5))
    plan = _plan(kafka, sent, tmp_path, owners={a: ("ns", "a")}, traffic_topic="", once=False, interval_s=0.1)
    plan = replace(plan, look=lambda: (sent.owners, sent.traffic_topic))

    def batch(run: int, _counters: Mapping[str, int], _seconds: float) -> None:
        if run == 2:
            job.stop()

    job = TrafficJob(spark, plan, on_batch=batch)
    end = threading.Timer(180, job.stop)  # it does not end by itself
    end.start()
    job.run()
    end.cancel()

    assert shown(read_windows(tmp_path)) == sent.expected()


def _end(calls: Iterator[bool]) -> None:
    if next(calls):
        raise KeyboardInterrupt


def test_broken_commit_is_named(spark: SparkSession, kafka: EmbeddedKafka, sent: Sent, tmp_path: Path) -> None:
    sent.records(next(iter(sent.owners)), 10, BEGIN_S, 60)
    plan, folder = _plan(kafka, sent, tmp_path / "t"), tmp_path / "t"
    TrafficJob(spark, plan).run()
    [commit] = (folder / "commits").glob("*.json")
    commit.write_text("nonsense")
    with pytest.raises(BrokenTablesError, match=r"cannot be read.*--reset"):
        TrafficJob(spark, plan).run()
    Dataset(folder).wipe()
    TrafficJob(spark, plan).run()
    assert shown(read_windows(folder)) == sent.expected()


def test_what_spark_does_not_write_is_not_committed(
    spark: SparkSession, kafka: EmbeddedKafka, sent: Sent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where workers write to disks of their own: no file of theirs is here."""
    sent.records(next(iter(sent.owners)), 10, BEGIN_S, 60)
    plan = _plan(kafka, sent, tmp_path)
    monkeypatch.setattr(Dataset, "files_of", lambda self, run: {})

    with pytest.raises(PenstockError, match=r"10 events .* but 0 are there. None was counted.*s3a://"):
        TrafficJob(spark, plan).run()

    monkeypatch.undo()
    TrafficJob(spark, plan).run()
    assert shown(read_windows(tmp_path)) == sent.expected()


def test_what_deltas_say_never_stops_the_job(
    spark: SparkSession, kafka: EmbeddedKafka, sent: Sent, tmp_path: Path
) -> None:
    """Counts whose sum exceeds 64 bits, and a time after all calendars: named, not counted, and the job goes on."""
    evil = [
        DELTA.replace(b'"n":0', b'"n":%d' % number).replace(b'"events":3', b'"events":4611686018427387904')
        for number in (1, 2)
    ]
    sent.raw([*evil, DELTA.replace(b'"at":%d' % BEGIN_S, b'"at":9223372036854775807')])
    sent.deltas("w", ("ns", "a"), [BEGIN_S])
    plan = _plan(kafka, sent, tmp_path)

    summary = TrafficJob(spark, plan).run()

    assert summary.counters["deltas.unreadable"] == 3
    assert "4611686018427387904" in summary.notes[0] or "9223372036854775807" in summary.notes[0]
    sent.deltas("w", ("ns", "a"), [BEGIN_S + 1])
    assert TrafficJob(spark, plan).run().counters["deltas.records"] == 1
    assert shown(read_windows(tmp_path)) == sent.expected()


def test_days_become_coarser_and_go(spark: SparkSession, tmp_path: Path) -> None:
    """A run without anything new: 2 days old, 10, 100 and 500; then a late delta for one that is in hours."""
    today = int(time.time()) // 86_400 * 86_400
    ages_days = (2, 10, 100, 500)
    windows = [
        Window(today - age * 86_400 + second, 60, "settled", "ns", "a", "s", counts=Counts(2, 20), latency={3: 1, 9: 1})
        for age in ages_days
        for second in (0, 60, 7200)
    ]
    write_tables(tmp_path, windows)
    plan = TrafficPlan({"bootstrap.servers": "nowhere"}, {}, "", tmp_path, lambda *_: {}, "penstock", "cluster")

    summary = TrafficJob(spark, plan).run()

    assert (summary.batches, summary.records) == (1, 0)
    rows = [(window.start - today, window.size, window.counts.events, window.latency) for window in rows_of(tmp_path)]
    assert rows == [
        (-100 * 86_400, 86_400, 6, {3: 3, 9: 3}),
        (-10 * 86_400, 3600, 4, {3: 2, 9: 2}),
        (-10 * 86_400 + 7200, 3600, 2, {3: 1, 9: 1}),
        *((-2 * 86_400 + second, 60, 2, {3: 1, 9: 1}) for second in (0, 60, 7200)),
    ]
    assert [(window.size, window.counts.events) for window in read_windows(tmp_path, 86_400)] == [(86_400, 6)] * 3
    assert TrafficJob(spark, plan).run().batches == 0


def test_tables_of_the_former_format_go_on(
    spark: SparkSession, kafka: EmbeddedKafka, sent: Sent, tmp_path: Path
) -> None:
    """A compaction, a batch after it, and one that Spark had not committed; then what came since is counted once."""
    a, b = sent.owners
    sent.records(a, 60, BEGIN_S, 600)
    sent.deltas("w", ("ns", "a"), range(BEGIN_S, BEGIN_S + 20))
    plan = _plan(kafka, sent, tmp_path / "new")
    TrafficJob(spark, plan).run()
    former = tmp_path / "former"
    write_former(former, read_windows(tmp_path / "new"), Dataset(tmp_path / "new").last())
    sent.records(b, 30, BEGIN_S, 600)
    sent.deltas("w", ("ns", "b"), range(BEGIN_S + 20, BEGIN_S + 30))

    summary = TrafficJob(spark, replace(plan, folder=former)).run()

    assert summary.records == 40
    assert shown(read_windows(former)) == sent.expected()
    assert {path.name for path in former.iterdir()} == {"commits", "windows"}
    write_former(tmp_path / "broken", [], None)
    with pytest.raises(BrokenTablesError, match=r"are of an older version, and cannot be read.*--reset"):
        TrafficJob(spark, replace(plan, folder=tmp_path / "broken")).run()
    with pytest.raises(UsageError, match="another Kafka"):
        TrafficJob(spark, replace(plan, folder=tmp_path / "broken", cluster="other")).run()


def test_span_is_counted_by_itself(spark: SparkSession, kafka: EmbeddedKafka, sent: Sent, tmp_path: Path) -> None:
    """From the first second on and before the last, in events and in what workers report."""
    a, _ = sent.owners
    sent.records(a, 300, BEGIN_S, 600)
    sent.deltas("w", ("ns", "a"), range(BEGIN_S, BEGIN_S + 600, 5))
    since_s, until_s = BEGIN_S + 120, BEGIN_S + 240
    plan = _plan(kafka, sent, tmp_path / "span", since_s=float(since_s), until_s=float(until_s), records_max=40)
    plan = replace(plan, describe=KafkaTopics(plan.kafka, plan.since_s, plan.until_s).describe)

    summary = TrafficJob(spark, plan).run()

    expected = [row for row in sent.expected() if since_s <= row[0][0] < until_s]
    assert shown(read_windows(tmp_path / "span")) == expected
    assert summary.batches >= 3, "it does not take more memory than a run without end"
    assert summary.records < 300, "only what can be of the range is read"


def test_count_of_a_channel_has_no_other_ones(
    spark: SparkSession, kafka: EmbeddedKafka, sent: Sent, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        sent.deltas(f"w{name}", ("ns", name), range(BEGIN_S, BEGIN_S + 20))
    plan = _plan(kafka, sent, tmp_path, since_s=float(BEGIN_S), channels=frozenset([("ns", "b")]))

    TrafficJob(spark, plan).run()

    assert shown(read_windows(tmp_path)) == [row for row in sent.expected() if row[0][3] == "b"]


def test_too_many_sources_are_summed_without_names(
    spark: SparkSession, kafka: EmbeddedKafka, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    from confluent_kafka import Producer

    topic = make_topic(1, retention_ms=-1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number in range(600):
        headers = [("ce_type", b"t"), ("ce_source", b"\xff%d" % number if number % 2 else b"%d" % number)]
        producer.produce(topic, b"x", None, 0, headers=headers, timestamp=BEGIN_S * 1000)  # type: ignore[arg-type]
    assert producer.flush(180) == 0
    client = {"bootstrap.servers": kafka.bootstrap}
    plan = TrafficPlan(client, {topic: ("ns", "c")}, "", tmp_path / "t", KafkaTopics(client).describe)

    TrafficJob(spark, plan).run()

    windows = read_windows(tmp_path / "t")
    assert (sum(window.counts.events for window in windows), sum(window.counts.bytes for window in windows)) == (
        600,
        600,
    )
    assert len(windows) == 501
    assert next(window for window in windows if window.source == "").counts.events == 100


def test_spark_reads_a_delta_as_decode_does(spark: SparkSession) -> None:
    """Whatever a record says, in one job over what Hypothesis makes of deltas."""
    values: list[bytes | None] = [DELTA, DELTA.replace(b"/s", "größe".encode()), *BROKEN, *ODD]

    @settings(max_examples=1500, database=None)
    @given(odd_deltas)
    def add(value: bytes) -> None:
        values.append(value)

    add()
    frame = frame_of(spark, ((value,) for value in values), pa.schema([("value", pa.binary())]))
    read = read_deltas(frame).select("value", "readable", *_FIELDS, *NAMES, "latency").toArrow().to_pylist()

    assert len(read) == len(values)
    assert sum(row["readable"] for row in read) > 100
    assert [row for row in read if row["readable"] != (_decoded(row["value"]) is not None)] == []
    for row in read:
        delta = _decoded(row["value"])
        if delta is None:
            continue
        text = tuple(row[name] for name in _FIELDS)
        assert text == (
            delta.by, delta.number, delta.at, delta.kind, delta.namespace, delta.channel, delta.subscription,
            delta.type, delta.source,
        )  # fmt: skip
        assert tuple(row[name] for name in NAMES) == delta.counts.values()
        assert {entry["bucket"]: entry["count"] for entry in row["latency"] or ()} == delta.latency


def _decoded(value: bytes | None) -> Delta | None:
    try:
        return decode(value)
    except BadDeltaError:
        return None
