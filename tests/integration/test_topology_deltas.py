"""Traffic of a window, from the records of a topic in a real Kafka."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from analytics.topology.model.document import Window
from app.local.kafka import EmbeddedKafka
from app.operations.topology.reading import TopologyQuery, deltas_of_topic
from knative.contract.kafka_names import traffic_topic
from knative.traffic.counts import Counts
from knative.traffic.delta import ACCEPTED, Delta, encode, key_of
from tests.integration.topology_inputs import topics

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


def test_records_after_the_window_are_not_read(written: Deltas) -> None:
    """One that a worker wrote some minutes late is."""
    written.write(7000, at=7210)
    written.write(7300)
    written.write(3600, value=b"junk")
    written.write(5)

    counted = deltas_of_topic(written.query(7800, until_ago_s=7200), 1)

    assert [traffic.counts.events for traffic in counted.traffic] == [240]
    assert counted.notes == ()
