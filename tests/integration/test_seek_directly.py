"""What `penstock seek` finds in Kafka where no controller runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.local.kafka import EmbeddedKafka
from app.operations.seek import Installation, planned_moves
from knative.contract.records import Subscription
from knative.contract.seeks import Move
from knative.delivery.policy import Addressable
from knative.resources.values import Start
from tables.kafka.admin.kafka_admin import KafkaAdmin

pytestmark = pytest.mark.integration


def test_partitions_count_that_the_contract_does_not_have_yet(
    kafka: EmbeddedKafka, topic_name: Callable[[], str]
) -> None:
    client, topic = {"bootstrap.servers": kafka.bootstrap}, topic_name()
    KafkaAdmin(client).create_topic(topic, 3, 1, {})
    one = Subscription(
        *("u", 1, "ns", "billing", "c", "orders", topic, f"{topic}.dlq", 1, f"kafka.{topic}"), Addressable("http://h/")
    )
    moves = planned_moves(Installation(client, "penstock"), one, Start.LATEST)
    assert moves == tuple(Move(partition, -1, 0) for partition in range(3))
