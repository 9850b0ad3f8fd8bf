"""The feed against a real Kafka when it must wait: bounded memory, paused partitions, and none that is forgotten."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, TopicPartition
from structlog.testing import capture_logs

from agents.config import DeliveryConfig
from agents.consumer import stall_detector
from agents.consumer.commits import Commits
from agents.consumer.consumer import SubscriptionConsumer
from agents.ordering.partition import Batch
from app.local.kafka import EmbeddedKafka
from app.observability.metrics import Metrics
from tests.integration.consumers import LIMIT_S, Settler, feeding, fill, subscription, tight
from tests.support.processes import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]


async def test_memory_is_bounded_and_a_stuck_partition_does_not_hold_up_the_others(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(2)
    fill(kafka, topic, 20_000, 2)
    config = tight(kafka)

    class Stuck(Settler):
        def enqueue(self, batches: list[Batch]) -> None:
            for partition, records, _ in batches:
                for record in records:
                    partition.tracker.add(record.offset)
                    if partition.number == 1:
                        self.got.append((partition.number, record.offset))
                        partition.tracker.settle(record.offset)
                        partition.released += 1
                        partition.released_bytes += record.size
            self.consumer.batches_enqueued()

    owner = Stuck()
    owner.consumer = SubscriptionConsumer(subscription(topic, 2), config, owner, Metrics())
    owner.consumer.start()
    try:
        await owner.until(lambda: len(owner.got) == 10_000)
        stuck = next(p for p in owner.partitions if p.number == 0)
        batch_bytes = 1000 * (1024 + 100)
        assert 0 < stuck.held_bytes <= config.buffer_bytes_max + batch_bytes
    finally:
        await owner.consumer.stop(0.1)


async def test_a_paused_partition_that_goes_away_and_comes_back_is_read_again(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    """The client keeps a pause over assignments, and would never fetch the partition again."""
    topic = make_topic(2)
    fill(kafka, topic, 20_000, 2)
    config = tight(kafka)

    class Stuck(Settler):
        stuck = True

        def enqueue(self, batches: list[Batch]) -> None:
            if not self.stuck:
                super().enqueue(batches)
                return
            for partition, records, _ in batches:
                for record in records:
                    partition.tracker.add(record.offset)
            self.consumer.batches_enqueued()

    one, two = Stuck(), Stuck()
    one.consumer = SubscriptionConsumer(subscription(topic, 2), config, one, Metrics())
    one.consumer.start()
    try:
        await one.until(lambda: len(one.consumer._backpressure.budget.paused) == 2)
        async with feeding(kafka, topic, two, 2):
            await two.until(lambda: len(two.consumer.partitions) == len(one.consumer.partitions) == 1)
        one.stuck = False
        await one.until(lambda: len(one.partitions) == 3)
        back = one.partitions[2].number
        await one.until(lambda: len([number for number, _ in one.got if number == back]) == 10_000)
    finally:
        await one.consumer.stop(0.1)


async def test_a_partition_without_fetches_is_assigned_again(
    kafka: EmbeddedKafka, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic()
    monkeypatch.setattr(stall_detector, "STALL_S", 0.5)
    fill(kafka, topic, 10)
    owner = Settler()
    lost = threading.Event()

    send_requested = Commits.send_requested

    def lose(commits: Commits, consumer: Consumer, wait: bool = False) -> None:  # in its own thread, behind our back
        send_requested(commits, consumer, wait)
        if len(owner.got) >= 10 and not lost.is_set():
            consumer.pause([TopicPartition(topic, 0)])
            lost.set()

    monkeypatch.setattr(Commits, "send_requested", lose)
    async with feeding(kafka, topic, owner) as consumer:
        await owner.until(lost.is_set)
        fill(kafka, topic, 10)
        # A fetch that was under way brings the new end, but only if the records are stored before it returns.
        consumer.partitions[0].log_end_offset = 20
        await owner.until(lambda: len(owner.got) == 20)
    assert owner.got == [(0, offset) for offset in range(20)]


async def test_a_client_that_cannot_join_is_replaced(
    kafka: EmbeddedKafka, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member that does not answer the rebalance holds up all that join. A new client tries again, until it can."""
    topic = make_topic()
    monkeypatch.setattr(DeliveryConfig, "join_limit_s", 2.0)
    fill(kafka, topic, 10)
    silent = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": f"g-{topic}", "group.instance.id": "silent",
                       "partition.assignment.strategy": "cooperative-sticky", "enable.auto.commit": False})  # fmt: skip
    silent.subscribe([topic])
    wait_until("it is a member", lambda: not silent.poll(0.1) and bool(silent.assignment()), LIMIT_S)
    owner = Settler()
    with capture_logs() as logs:
        async with feeding(kafka, topic, owner):
            await owner.until(lambda: any("a new one replaces it" in line["event"] for line in logs))
            assert owner.got == []
            silent.unsubscribe()
            silent.close()
            await owner.until(lambda: len(owner.got) == 10)
