"""DLQ topics of a real Kafka, counted by subscription: new letters, retention, a topic that was made again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from app.local.kafka import EmbeddedKafka
from app.worker.dlq_sizes import DlqSizes
from tests.integration.cli_fixture import Looked
from tests.support.processes import free_port, wait_until

pytestmark = pytest.mark.integration


def test_letters_are_counted_once_each(kafka: EmbeddedKafka, topic_name: Callable[[], str]) -> None:
    looked = Looked.make(kafka.bootstrap, topic_name())
    one, two = looked.subscribe("one"), looked.subscribe("two")
    leads = [True]
    sizes = DlqSizes({"bootstrap.servers": looked.bootstrap}, lambda: [looked.dlq_topic], lambda: leads[0])
    topics = [looked.dlq_topic, f"{looked.dlq_topic}.none"]
    assert not sizes.sizes, "not looked yet"

    def counted() -> dict[str, int] | None:  # None while Kafka cannot say, as for a topic that is new
        sizes.refresh(topics)
        return sizes.sizes

    wait_until("there are none", lambda: counted() == {}, 180)
    looked.dead_letters(one, ["1", "2", "3"])
    looked.dead_letters(two, ["1"])
    wait_until("all are counted", lambda: counted() == {"ns/one": 3, "ns/two": 1}, 180)
    admin = AdminClient({"bootstrap.servers": looked.bootstrap})
    for removed in admin.delete_records([TopicPartition(looked.dlq_topic, 0, 2)]).values():
        removed.result(180)
    looked.dead_letters(two, ["2"])
    wait_until("those that are left are counted", lambda: counted() == {"ns/one": 1, "ns/two": 2}, 180)
    assert sizes.sizes is not None
    assert sizes.sizes["ns/one"] == looked.json("dlq", "list", "--subscription", "ns/one")[0]["count"]
    leads[0] = False
    assert sizes.sizes is None, "another process counts"


def test_a_kafka_that_is_away_is_waited_for(kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.worker.dlq_sizes.ANSWER_S", 0.5)
    sizes = DlqSizes({"bootstrap.servers": f"127.0.0.1:{free_port()}", "log_level": 0}, lambda: ["t"], lambda: True)
    sizes.refresh(["t"])
    assert sizes.sizes is None
