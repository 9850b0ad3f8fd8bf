"""DLQ topics of a real Kafka, counted by their offsets: new letters, retention, a topic that is not there."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from app.local.kafka import EmbeddedKafka
from app.worker.dlq_sizes import DlqSizes
from tables.kafka.errors import KafkaFailed, KafkaUnavailable
from tests.integration.cli_fixture import StoredInstallation
from tests.support.processes import free_port, wait_until
from tests.support.waiting import until

pytestmark = pytest.mark.integration


@pytest.mark.asyncio
async def test_topic_has_as_many_letters_as_offsets(kafka: EmbeddedKafka, topic_name: Callable[[], str]) -> None:
    site = StoredInstallation.make(kafka.bootstrap, topic_name())
    subscription, two = site.subscribe("one"), site.subscribe("two")
    sizes = DlqSizes({"bootstrap.servers": site.bootstrap}, list, lambda: True)
    topics = [site.dlq_topic, f"{site.dlq_topic}.none"]

    def counted() -> Mapping[str, int] | None:
        try:
            return sizes.count(topics)
        except KafkaFailed:  # as for a topic that is new
            return None

    wait_until("there are none", lambda: counted() == {site.dlq_topic: 0}, 180)
    site.dead_letters(subscription, ["1", "2", "3"])
    site.dead_letters(two, ["1"])
    wait_until("all are counted", lambda: counted() == {site.dlq_topic: 4}, 180)
    admin = AdminClient({"bootstrap.servers": site.bootstrap})
    for removed in admin.delete_records([TopicPartition(site.dlq_topic, 0, 2)]).values():
        removed.result(180)
    site.dead_letters(two, ["2"])
    wait_until("those that are left are counted", lambda: counted() == {site.dlq_topic: 3}, 180)
    await sizes.stop()


@pytest.mark.asyncio
async def test_only_the_leader_counts(kafka: EmbeddedKafka, topic_name: Callable[[], str]) -> None:
    site = StoredInstallation.make(kafka.bootstrap, topic_name())
    site.dead_letters(site.subscribe("one"), ["1"])
    leads = [True]
    sizes = DlqSizes({"bootstrap.servers": site.bootstrap}, lambda: [site.dlq_topic], lambda: leads[0])
    assert sizes.sizes == {}, "not counted yet"
    sizes.start()
    await until(lambda: sizes.sizes)
    assert sizes.sizes == {site.dlq_topic: 1}
    leads[0] = False
    assert sizes.sizes == {}, "another process counts"
    await sizes.stop()


def test_kafka_that_is_away_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.worker.dlq_sizes.ANSWER_S", 0.5)
    sizes = DlqSizes({"bootstrap.servers": f"127.0.0.1:{free_port()}", "log_level": 0}, list, lambda: True)
    with pytest.raises(KafkaUnavailable):
        sizes.count(["t"])
