"""What `penstock seek` finds in Kafka where no controller runs."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from app.local.kafka import EmbeddedKafka
from app.operations.contract_snapshot import read_contract
from app.operations.requests import store_requests
from app.operations.seek import Installation, planned_moves, seek_directly
from knative.contract.kafka_names import contract_topic, status_topic
from knative.contract.records import TRIGGER, Subscription, WorkerStatus
from knative.contract.seeks import Move
from knative.contract.subscription_stats import SubscriptionStats
from knative.delivery.policy import Addressable
from knative.resources.values import Start
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.status_parts import encode_status
from tables.status_table import reported_offsets

pytestmark = pytest.mark.integration


def test_partitions_count_that_the_contract_does_not_have_yet(
    kafka: EmbeddedKafka, topic_name: Callable[[], str]
) -> None:
    client, topic = {"bootstrap.servers": kafka.bootstrap}, topic_name()
    KafkaAdmin(client).create_topic(topic, 3, 1, {})
    subscription = Subscription(
        *("u", 1, "ns", "billing", "c", "orders", topic, f"{topic}.dlq", 1, f"kafka.{topic}"), Addressable("http://h/")
    )
    moves = planned_moves(Installation(client, "penstock"), subscription, Start.LATEST)
    assert moves == tuple(Move(partition, -1, 0) for partition in range(3))


def test_what_workers_that_are_gone_have_reported_does_not_undo_it(
    kafka: EmbeddedKafka, topic_name: Callable[[], str]
) -> None:
    """The next worker would begin at the offset that the last owner has reported."""
    client, topic = {"bootstrap.servers": kafka.bootstrap}, topic_name()
    instance, group = f"i-{topic}", f"kafka.{topic}"
    admin = KafkaAdmin(client)
    for name in (topic, contract_topic(instance), status_topic(instance)):
        admin.create_topic(name, 1, 1, {})
    subscription = Subscription(
        *("u", 1, "ns", "billing", "c", "orders", topic, f"{topic}.dlq", 1, group), Addressable("http://h/"),
        kind=TRIGGER,
    )  # fmt: skip
    stats = {"u": SubscriptionStats(committed=((0, 488),), offsets_of=subscription.offsets_of)}
    gone = WorkerStatus("gone", time.time() - 60, "all", stats=stats)
    store_requests(client, instance, [(b"gone", encode_status(gone))])
    at, contract = Installation(client, instance), read_contract(client, instance)
    assert reported_offsets(subscription, contract.workers) == {0: 488}
    seek_directly(at, contract, subscription, Start.EARLIEST)
    assert admin.groups.committed(group)[topic, 0].offset == 0
    assert reported_offsets(subscription, read_contract(client, instance).workers) == {}
