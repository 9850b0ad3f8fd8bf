"""The traffic job and topics that are recreated, on a real Kafka and a real Spark: totals stay correct."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from analytics.traffic.job import TrafficJob, TrafficPlan
from analytics.traffic.read import read_windows
from analytics.traffic.topic_identity import TopicNow
from app.local.kafka import EmbeddedKafka
from app.operations.traffic_topics import KafkaTopics
from knative.errors import NotReadyError
from tables.kafka.admin.answers import TopicAndPartition
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tests.support.processes import wait_until
from tests.support.traffic import Sent, shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.integration

BEGIN_S = int(time.time()) // 86_400 * 86_400 - 86_400 + 3600  # a whole hour of yesterday, which is in minutes
_LIMIT_S = 180.0


def _recreate(kafka: EmbeddedKafka, topic: str) -> None:
    admin, topics = (
        AdminClient({"bootstrap.servers": kafka.bootstrap}),
        KafkaTopics({"bootstrap.servers": kafka.bootstrap}),
    )
    former = topics.describe([topic], False)[topic].id
    admin.delete_topics([topic])[topic].result(_LIMIT_S)

    def created() -> bool:
        try:
            admin.create_topics([NewTopic(topic, 2, 1, config={"retention.ms": "-1"})])[topic].result(_LIMIT_S)
        except KafkaException:  # the old one is not quite gone
            return False
        return True

    def served() -> bool:
        """A broker learns of both later than the controller. Until then it appends to the old log, and acknowledges."""
        try:
            now = topics.describe([topic], True).get(topic)
        except NotReadyError:  # it leads the partitions of neither
            return False
        return now is not None and now.id != former and all(end == 0 for _, end in now.bounds.values())

    wait_until("the topic is created", created, _LIMIT_S)
    wait_until("the new log is served", served, _LIMIT_S)


def test_topic_that_is_removed_while_it_is_described_is_left_out(
    kafka: EmbeddedKafka, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stays, goes = make_topic(1), make_topic(1)
    client = {"bootstrap.servers": kafka.bootstrap}
    admin, topics = KafkaAdmin(client), KafkaTopics(client)
    first_offsets = KafkaAdmin.first_offsets

    def after_its_removal(self: KafkaAdmin, places: Sequence[TopicAndPartition]) -> dict[TopicAndPartition, int]:
        if places[0][0] == goes:
            assert admin.delete_topics([goes]) == {}
            wait_until("it is gone", lambda: goes not in admin.cluster().topics, _LIMIT_S)
        return first_offsets(self, places)

    monkeypatch.setattr(KafkaAdmin, "first_offsets", after_its_removal)
    states = topics.describe([stays, goes], True)
    assert {name: topic.bounds for name, topic in states.items()} == {stays: {0: (0, 0)}}


def test_topics_recreated_between_runs_and_within_one(
    spark: SparkSession,
    kafka: EmbeddedKafka,
    make_topic: Callable[..., str],
    topic_name: Callable[[], str],
    tmp_path: Path,
) -> None:
    """By their ids; in the middle of a batch; and, where Kafka gives no ids, by ends below what was read."""
    folder = tmp_path / "traffic"
    a, b = make_topic(2, retention_ms=-1), make_topic(2, retention_ms=-1)
    sent = Sent(kafka.bootstrap, topic_name(), {a: ("ns", "a"), b: ("ns", "b")})
    sent.make_traffic_topic(**{"retention.ms": "-1"})
    client = {"bootstrap.servers": kafka.bootstrap}
    describe = KafkaTopics(client).describe
    plan = TrafficPlan(
        {"bootstrap.servers": kafka.bootstrap},
        sent.owners,
        sent.traffic_topic,
        folder,
        describe,
    )
    sent.records(a, 100, BEGIN_S, 300)
    sent.records(b, 30, BEGIN_S, 300)
    sent.deltas("w", ("ns", "a"), range(BEGIN_S, BEGIN_S + 40))
    assert not TrafficJob(spark, plan).run().notes

    for topic in (a, sent.traffic_topic):
        _recreate(kafka, topic)
    sent.records(a, 40, BEGIN_S + 300, 300)
    sent.records(b, 5, BEGIN_S + 300, 300)
    sent.deltas("w", ("ns", "a"), range(BEGIN_S + 300, BEGIN_S + 310))
    notes = TrafficJob(spark, plan).run().notes
    assert [sum(f"Topic {topic} " in note for note in notes) for topic in (a, sent.traffic_topic, b)] == [1, 1, 0]
    assert shown(read_windows(folder)) == sent.expected()

    # It is created again, and grows past where it was, after a batch was planned and before its sums are written.
    Sent(kafka.bootstrap, topic_name(), sent.owners, seed=2).records(a, 20, BEGIN_S + 600, 60)  # gone uncounted
    times: list[int] = []

    def too_late(topics: Collection[str], bounds: bool) -> Mapping[str, TopicNow]:
        if a in topics and not bounds and not times:
            times.append(1)
            _recreate(kafka, a)
            sent.records(a, 90, BEGIN_S + 600, 60)
        return describe(topics, bounds)

    summary = TrafficJob(spark, replace(plan, describe=too_late)).run()
    assert (times, len(summary.notes), summary.counters["records.records"]) == ([1], 1, 90)
    assert shown(read_windows(folder)) == sent.expected()

    def without_ids(topics: Collection[str], bounds: bool) -> Mapping[str, TopicNow]:
        return {topic: replace(topic_now, id="") for topic, topic_now in describe(topics, bounds).items()}

    _recreate(kafka, a)
    sent.records(a, 7, BEGIN_S + 900, 60)
    summary = TrafficJob(spark, replace(plan, describe=without_ids)).run()
    assert [("ends before the last offset that was read" in note) for note in summary.notes] == [True]
    assert shown(read_windows(folder)) == sent.expected()
    assert TrafficJob(spark, plan).run().records == 0
