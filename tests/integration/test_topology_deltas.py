"""Traffic of a window, by one process and by Spark: from the records of a topic in a real Kafka, and from tables."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from analytics.topology.model.document import Window
from analytics.traffic.windows import MINUTE_S
from analytics.traffic.windows import Window as Row
from app.local.kafka import EmbeddedKafka
from app.operations.topology.job import _Source
from app.operations.topology.reading import TopologyQuery, deltas_of_topic, windows_of_tables
from knative.contract.kafka_names import traffic_topic
from knative.traffic.counts import Counts
from knative.traffic.delta import ACCEPTED, Delta, encode, key_of
from tests.integration.topology_inputs import topics
from tests.support.traffic_tables import write_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.integration


class Deltas:
    """Writes records of 120 events each, as a worker did at some time."""

    def __init__(self, kafka: EmbeddedKafka, instance: str) -> None:
        self.client, self.instance, self.now = {"bootstrap.servers": kafka.bootstrap}, instance, time.time()
        self._count = 0
        topics(kafka.bootstrap, instance)

    def write(self, ago_s: float, at: float | None = None, value: bytes | None = None) -> int:
        """Counted `at` seconds ago, by default when it was written. Returns the second of it."""
        written, at = int(self.now - ago_s), int(self.now - (ago_s if at is None else at))
        delta = Delta("w", self._count, at, ACCEPTED, "n", "c", "", "t", "/a", Counts(120, 120))
        self._count += 1
        producer = Producer(self.client)
        producer.produce(traffic_topic(self.instance), value or encode(delta), key_of(delta), timestamp=written * 1000)
        assert producer.flush(180) == 0
        return at

    def query(self, since_ago_s: float, until_ago_s: float = 0.0) -> TopologyQuery:
        return TopologyQuery(self.client, self.instance, self.now, self.now - since_ago_s, self.now - until_ago_s)


@pytest.fixture
def written(kafka: EmbeddedKafka, topic_name: Callable[[], str]) -> Deltas:
    return Deltas(kafka, f"i{topic_name()}")


@pytest.mark.parametrize("older", [True, False])
def test_quiet_time_before_the_first_event_belongs_to_the_window(written: Deltas, older: bool) -> None:
    """Unless counting began with this event."""
    if older:
        written.write(1200)
    first = written.write(5)

    counted = deltas_of_topic(written.query(600), 1)

    assert counted.window == Window(written.now - 600 if older else first, written.now)
    assert [traffic.counts.events for traffic in counted.traffic] == [120]


def test_records_after_the_window_are_not_read(written: Deltas, spark: SparkSession) -> None:
    """One that a worker wrote some minutes late is. Spark adds up the same."""
    written.write(7000, at=7210)
    written.write(7300)
    written.write(3600, value=b"junk")
    written.write(5)

    counted = deltas_of_topic(written.query(7800, until_ago_s=7200), 1)

    assert [traffic.counts.events for traffic in counted.traffic] == [240]
    assert counted.notes == ()
    by_spark = _Source(spark, small=True).deltas(written.query(7800, until_ago_s=7200), 1)
    assert (by_spark.traffic, by_spark.window) == (counted.traffic, counted.window)


def test_spark_reads_the_same_window_of_tables(spark: SparkSession, tmp_path: Path) -> None:
    """Quiet time belongs to it, up to the newest record."""
    begin = 1_790_000_040
    rows = [
        Row(start, MINUTE_S, "accepted", "n", "c", "", "t", "/a", Counts(10, 100)) for start in (begin, begin + 600)
    ]
    write_tables(tmp_path, rows, newest={"i.traffic": begin + 630})
    query = TopologyQuery({}, "i", begin + 700, begin + 120, begin + 700, folder=tmp_path)

    counted = windows_of_tables(query, 1)

    assert counted.window == Window(begin + 120, begin + 631)
    by_spark = _Source(spark, small=True).windows(query, 1)
    assert (by_spark.traffic, by_spark.window) == (counted.traffic, counted.window)
