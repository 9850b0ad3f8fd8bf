"""What `penstock seek` finds in Kafka where no controller runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

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
from knative.errors import NotReadyError
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


def in_kafka(kafka: EmbeddedKafka, topic: str) -> tuple[Installation, Subscription]:
    """Returns an installation of its own for a topic, with the topics that a direct seek reads, and a Trigger."""
    at = Installation({"bootstrap.servers": kafka.bootstrap}, f"i-{topic}")
    for name in (topic, contract_topic(at.instance), status_topic(at.instance)):
        at.admin.create_topic(name, 1, 1, {})
    subscription = Subscription(
        *("u", 1, "ns", "billing", "c", "orders", topic, f"{topic}.dlq", 1, f"kafka.{topic}"), Addressable("http://h/"),
        kind=TRIGGER,
    )  # fmt: skip
    return at, subscription


def test_what_workers_that_are_gone_have_reported_does_not_undo_it(
    kafka: EmbeddedKafka, topic_name: Callable[[], str]
) -> None:
    """The next worker would begin at the offset that the last owner has reported."""
    at, subscription = in_kafka(kafka, topic_name())
    stats = {"u": SubscriptionStats(committed=((0, 488),), offsets_of=subscription.offsets_of)}
    gone = WorkerStatus("gone", time.time() - 60, "all", stats=stats)
    store_requests(at.client, at.instance, [(b"gone", encode_status(gone))])
    contract = read_contract(at.client, at.instance)
    assert reported_offsets(subscription, contract.workers) == {0: 488}
    seek_directly(at, contract, subscription, Start.EARLIEST)
    assert at.admin.groups.committed(subscription.group)[subscription.topic, 0].offset == 0
    assert reported_offsets(subscription, read_contract(at.client, at.instance).workers) == {}


class _Disturbed(Installation):
    """A worker starts just before the offsets are moved."""

    def forget(self, workers: Iterable[WorkerStatus]) -> None:
        super().forget(workers)
        store_requests(self.client, self.instance, [(b"w", encode_status(WorkerStatus("w", time.time(), "all")))])


def test_worker_that_starts_during_a_direct_seek_is_named_with_what_was_moved(
    kafka: EmbeddedKafka, topic_name: Callable[[], str]
) -> None:
    at, subscription = in_kafka(kafka, topic_name())
    at = _Disturbed(at.client, at.instance)
    with pytest.raises(NotReadyError) as raised:
        seek_directly(at, read_contract(at.client, at.instance), subscription, Start.EARLIEST)
    assert raised.value.what == (
        "The offsets of Trigger/ns/billing were moved, but others may move them again: "
        "Worker w runs, but no controller."
    )
    assert "`penstock lag`" in raised.value.hint
    assert at.admin.groups.committed(subscription.group)[subscription.topic, 0].offset == 0
