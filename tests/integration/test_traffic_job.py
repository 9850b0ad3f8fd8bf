"""The traffic job on a real Kafka and a real Spark: its sums are the ledger's, whatever comes twice, late or broken."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from analytics.spark.rows import frame_of
from analytics.traffic.frames import read_deltas
from analytics.traffic.job import TrafficJob, TrafficPlan
from analytics.traffic.read import read_windows
from analytics.traffic.store import BrokenTablesError, wipe
from app.local.kafka import EmbeddedKafka
from knative.traffic.counts import Counts
from knative.traffic.delta import BadDeltaError, Delta, decode, encode
from tests.support.traffic import Sent, shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.integration

BEGIN_S = 1_790_000_040  # a whole minute
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

    one = Sent(
        kafka.bootstrap,
        topic_name(),
        {make_topic(2, retention_ms=-1): ("ns", "a"), make_topic(2, retention_ms=-1): ("ns", "b")},
    )
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(one.traffic_topic, 3, 1, config={"retention.ms": "-1"})])[one.traffic_topic].result(
        30
    )
    return one


def _plan(kafka: EmbeddedKafka, sent: Sent, folder: Path, **changes: object) -> TrafficPlan:
    plan = TrafficPlan(
        {"bootstrap.servers": kafka.bootstrap}, sent.owners, sent.traffic_topic, folder, frozenset(sent.owners)
    )
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
    assert summary.batches >= 4

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
    assert sum(one.late for one in read_windows(folder)) == 50

    assert TrafficJob(spark, plan).run().records == 0
    minutes, hours = read_windows(folder), read_windows(folder, 3600)
    assert sum(one.counts.events for one in hours) == sum(one.counts.events for one in minutes)
    assert {one.start % 3600 for one in hours} == {0}


def test_a_batch_that_was_done_but_not_committed_counts_once(
    spark: SparkSession, kafka: EmbeddedKafka, sent: Sent, tmp_path: Path
) -> None:
    """What a kill between the tables and the commit leaves behind; then what a lost checkpoint would count twice."""
    folder = tmp_path / "traffic"
    a, _ = sent.owners
    sent.records(a, 200, BEGIN_S, 300)
    sent.deltas("w", ("ns", "a"), range(BEGIN_S, BEGIN_S + 60))
    plan = _plan(kafka, sent, folder)
    TrafficJob(spark, plan).run()
    for query in ("records", "deltas"):
        for commit in (folder / query / "checkpoint" / "commits").iterdir():
            commit.unlink()
    sent.records(a, 10, BEGIN_S, 300)

    TrafficJob(spark, plan).run()

    assert shown(read_windows(folder)) == sent.expected()
    (folder / "records" / "checkpoint" / "offsets" / "0").write_text("v1\nnonsense")
    (folder / "records" / "checkpoint" / "offsets" / "1").write_text("v1\nnonsense")
    with pytest.raises(BrokenTablesError, match=r"The checkpoint in .* cannot be read.*--reset"):
        TrafficJob(spark, plan).run()
    (folder / "records" / "checkpoint").rename(tmp_path / "elsewhere")
    with pytest.raises(BrokenTablesError, match=r"do not belong together.*--reset"):
        TrafficJob(spark, plan).run()
    wipe(folder)
    TrafficJob(spark, plan).run()
    assert shown(read_windows(folder)) == sent.expected()


def test_a_span_is_counted_by_itself(spark: SparkSession, kafka: EmbeddedKafka, sent: Sent, tmp_path: Path) -> None:
    """From the first second on and before the last, in events and in what workers report."""
    a, _ = sent.owners
    sent.records(a, 300, BEGIN_S, 600)
    sent.deltas("w", ("ns", "a"), range(BEGIN_S, BEGIN_S + 600, 5))
    since_s, until_s = BEGIN_S + 120, BEGIN_S + 240
    plan = _plan(kafka, sent, tmp_path / "span", since_s=float(since_s), until_s=float(until_s))

    TrafficJob(spark, plan).run()

    assert shown(read_windows(tmp_path / "span")) == [one for one in sent.expected() if since_s <= one[0][0] < until_s]


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
    plan = TrafficPlan({"bootstrap.servers": kafka.bootstrap}, {topic: ("ns", "c")}, "", tmp_path / "t")

    TrafficJob(spark, plan).run()

    windows = read_windows(tmp_path / "t")
    assert (sum(one.counts.events for one in windows), sum(one.counts.bytes for one in windows)) == (600, 600)
    assert len(windows) == 501
    assert next(one for one in windows if one.source == "").counts.events == 100


def test_spark_reads_a_delta_as_decode_does(spark: SparkSession) -> None:
    values = [DELTA, DELTA.replace(b'"v":1', b'"v":1,"newer":[1]'), DELTA.replace(b"/s", "größe".encode()), *BROKEN]
    frame = frame_of(spark, ((value,) for value in values), pa.schema([("value", pa.binary())]))

    def readable(value: bytes | None) -> bool:
        try:
            decode(value)
        except BadDeltaError:
            return False
        return True

    found = [row["readable"] for row in read_deltas(frame).select("readable").collect()]

    assert found == [readable(value) for value in values]
    assert json.loads(DELTA)["latency"] == {"4": 2}
