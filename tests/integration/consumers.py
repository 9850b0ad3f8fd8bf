"""A consumer on a real Kafka, and a listener for it that settles what the test asks for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from agents.config import DeliveryConfig
from agents.consumer.consumer import SubscriptionConsumer
from agents.ordering.partition import Batch, Delivery, PartitionState
from app.local.kafka import EmbeddedKafka
from knative.contract.records import Subscription
from knative.delivery.policy import Addressable
from tests.support.fakes import CountingObserve
from tests.support.kafka_cluster import Bootstrap

LIMIT_S = 180.0


class Settler:
    """Settles what the test asks for, and keeps what it received."""

    def __init__(self, settle: Callable[[Delivery], bool] = lambda _: True) -> None:
        self.settle = settle
        self.got: list[tuple[int, int]] = []
        self.partitions: list[PartitionState] = []
        self.problems: list[BaseException] = []
        self.waits: list[bool] = []
        self.stopped = 0
        self.observe = CountingObserve()
        self.consumer: SubscriptionConsumer

    def opened(self, partitions: Sequence[PartitionState]) -> None:
        self.partitions.extend(partitions)

    def enqueue(self, batches: list[Batch]) -> None:
        for partition, records, _ in batches:
            for record in records:
                if partition.open and partition.tracker.add(record.offset):
                    self.got.append((partition.number, record.offset))
                    if self.settle(record):
                        partition.tracker.settle(record.offset)
                partition.released += 1
                partition.released_bytes += record.size
        self.consumer.batches_enqueued()
        self.consumer.commits.schedule_commit()

    async def drain(self, partitions: Sequence[PartitionState], limit_s: float) -> None:
        for partition in partitions:
            partition.open = partition.owned = False

    def dropped(self, partitions: Sequence[PartitionState]) -> None:
        for partition in partitions:
            partition.open = partition.owned = False

    def waiting_for_kafka(self, waiting: bool) -> None:
        self.waits.append(waiting)

    def failing(self) -> None:
        self.stopped += 1

    def fatal(self, problem: BaseException) -> None:
        self.problems.append(problem)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not condition() and not self.problems:
                await asyncio.sleep(0.01)
        assert not self.problems


def settings_of(bootstrap: str) -> dict[str, Any]:
    """How to connect."""
    return {"bootstrap.servers": bootstrap, "log_level": 0}  # a client that cannot connect tries for ever


def subscription(topic: str, partitions: int = 1) -> Subscription:
    return Subscription(
        "u", 1, "ns", "s", "c", "ch", topic, f"{topic}.dlq", partitions, f"g-{topic}", Addressable("http://x/")
    )


@asynccontextmanager
async def feeding(
    kafka: EmbeddedKafka, topic: str, owner: Settler, partitions: int = 1
) -> AsyncIterator[SubscriptionConsumer]:
    config = DeliveryConfig(
        {"bootstrap.servers": kafka.bootstrap}, session_timeout_s=6.0, commit_interval_s=0.1,
        client={"topic.metadata.refresh.interval.ms": 1_000},
    )  # fmt: skip
    owner.consumer = SubscriptionConsumer(subscription(topic, partitions), config, owner, owner.observe)
    owner.consumer.start()
    try:
        yield owner.consumer
    finally:
        await owner.consumer.stop(1.0)


def tight(kafka: EmbeddedKafka) -> DeliveryConfig:
    """So little memory that partitions are soon paused."""
    return DeliveryConfig(
        {"bootstrap.servers": kafka.bootstrap}, buffer_bytes_max=400_000, fetch_bytes=200_000, session_timeout_s=6.0
    )


def fill(kafka: Bootstrap, topic: str, count: int, partitions: int = 1) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number in range(count):
        producer.produce(topic, b"x" * 100, b"k", number % partitions)
    assert producer.flush(180) == 0


def committed(kafka: Bootstrap, topic: str, partition: int = 0) -> tuple[int, str]:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": f"g-{topic}"})
    found = consumer.committed([TopicPartition(topic, partition)], timeout=180)[0]
    consumer.close()
    return found.offset, found.metadata or ""


def commit(kafka: EmbeddedKafka, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": f"g-{topic}"})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def add_partitions(kafka: EmbeddedKafka, topic: str, partitions: int) -> None:
    """Until the topic has so many."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_partitions([NewPartitions(topic, partitions)], operation_timeout=120)[topic].result(180)
