"""Triggers of one topic on a real Kafka, with agents that settle at once or wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from agents.config import DeliveryConfig
from agents.offsets.partition import Batch, Delivery, PartitionState
from agents.reader.readers import Readers
from agents.reader.topic_reader import TopicReader
from knative.contract.records import TRIGGER, Subscription
from knative.delivery.policy import Addressable
from tables.kafka.admin.answers import GroupOffset
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tests.support.fakes import CountingObserve
from tests.support.kafka_cluster import Bootstrap
from tests.support.settling_listener import SettlingListener, settle

LIMIT_S = 180.0
SESSION_S = 10.0


class Trigger(SettlingListener):
    """A Trigger whose events are settled at once if it `settles` them, or kept while it is `slow`."""

    def __init__(
        self,
        kafka: Bootstrap,
        topic: str,
        name: str,
        type_: str = "",
        settles: Callable[[Delivery], bool] = lambda _: True,
    ) -> None:
        super().__init__(type_)
        self.slow = False
        self.settles = settles
        self.got: list[tuple[int, int]] = []
        self.kept: list[Delivery] = []
        self.filtered_count = 0
        self.opened_states: list[PartitionState] = []
        self.stopped = 0
        self.problems: list[BaseException] = []
        self.while_draining: Callable[[], None] = lambda: None
        self.subscription = Subscription(
            f"{topic}-{name}", 1, "ns", name, "c", "b", topic, f"{topic}.dlq", 1, f"g-{topic}-{name}",
            Addressable("http://x/"), kind=TRIGGER,
        )  # fmt: skip

    def opened(self, partitions: Sequence[PartitionState]) -> None:
        self.opened_states.extend(partitions)

    @property
    def opened_count(self) -> int:
        return len(self.opened_states)

    def failing(self) -> None:
        self.stopped += 1

    def filtered(self, headers: object) -> None:
        self.filtered_count += 1

    def enqueue(self, batches: list[Batch]) -> None:
        for delivery in self.take(batches):
            self.got.append((delivery.partition.number, delivery.offset))
            if self.settles(delivery):
                self.kept.append(delivery)
        if not self.slow:
            self.settle()

    def settle(self) -> None:
        for delivery in self.kept:
            settle(delivery)
        self.kept.clear()
        self.member.commits.schedule_commit()

    async def drain(self, partitions: Sequence[PartitionState], limit_s: float) -> None:
        await asyncio.to_thread(self.while_draining)
        await super().drain(partitions, limit_s)

    def fatal(self, problem: BaseException) -> None:
        self.problems.append(problem)


class Worker:
    """The fan-outs of one process, and its Triggers."""

    def __init__(
        self,
        kafka: Bootstrap,
        *,
        buffer_bytes: int = 4 * 1_048_576,
        settings: Mapping[str, str] | None = None,
        session_timeout_s: float = SESSION_S,
        reported: Mapping[int, int] | None = None,
        **options: Any,
    ) -> None:
        """`settings`: how clients connect, if not as usual. `reported`: the offsets of partitions, by former owners.
        `options`: of `DeliveryConfig`."""
        config = DeliveryConfig(
            settings or {"bootstrap.servers": kafka.bootstrap}, commit_interval_s=0.1,
            session_timeout_s=session_timeout_s, buffer_bytes_max=buffer_bytes, **options,
        )  # fmt: skip
        self.observe = CountingObserve()
        self.problems: list[BaseException] = []
        self.readers = Readers(config, self.observe, self.problems.append, lambda _: reported or {})
        self.triggers: list[Trigger] = []

    def add(self, *triggers: Trigger) -> None:
        for trigger in triggers:
            trigger.problems = self.problems
            trigger.member = self.readers.member(trigger.subscription, trigger)
            trigger.member.start()
            self.triggers.append(trigger)

    def reader(self, topic: str) -> TopicReader:
        return self.readers._topics[topic]._reader

    async def remove(self, trigger: Trigger, drain_s: float = 1.0) -> None:
        self.triggers.remove(trigger)
        await trigger.member.stop(drain_s)

    async def stop(self) -> None:
        await asyncio.gather(*(self.remove(trigger) for trigger in list(self.triggers)))
        await self.readers.stop()


@asynccontextmanager
async def working(kafka: Bootstrap, **options: Any) -> AsyncIterator[Worker]:
    worker = Worker(kafka, **options)
    try:
        yield worker
    finally:
        await worker.stop()
    assert worker.problems == []


async def until(what: str, condition: Callable[[], bool], *workers: Worker) -> None:
    try:
        async with asyncio.timeout(LIMIT_S):
            while not condition():
                assert not [problem for worker in workers for problem in worker.problems]
                await asyncio.sleep(0.02)
    except TimeoutError:
        pytest.fail(f"not within {LIMIT_S:g} s: {what}")


def fill(kafka: Bootstrap, topic: str, types: Sequence[str], partitions: int = 1, size: int = 10) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 20})
    for number, type_ in enumerate(types):
        headers = [("ce_id", b"1"), ("ce_source", b"/s"), ("ce_type", type_.encode()), ("ce_specversion", b"1.0")]
        producer.produce(topic, b"x" * size, b"k", number % partitions, headers=list(headers))
        if number % 10_000 == 9_999:
            producer.flush(60)
    assert producer.flush(60) == 0


def committed_offsets(kafka: Bootstrap, trigger: Trigger) -> dict[int, GroupOffset]:
    """Partition -> what the Trigger's group has committed."""
    admin = KafkaAdmin({"bootstrap.servers": kafka.bootstrap})
    return {number: offset for (_, number), offset in admin.groups.committed(trigger.subscription.group).items()}


def committed(kafka: Bootstrap, trigger: Trigger) -> int:
    """The sum of what the Trigger's group has committed."""
    return sum(offset.offset for offset in committed_offsets(kafka, trigger).values())


def commit(kafka: Bootstrap, trigger: Trigger, offset: int) -> None:
    """For partition 0, as somebody else."""
    groups = KafkaAdmin({"bootstrap.servers": kafka.bootstrap}).groups
    groups.commit(trigger.subscription.group, {(trigger.subscription.topic, 0): offset})


def expire(kafka: Bootstrap, topic: str, low: int) -> None:
    """The log of partition 0 begins here from now on."""
    client, where = AdminClient({"bootstrap.servers": kafka.bootstrap}), TopicPartition(topic, 0, low)
    client.delete_records([where])[where].result(LIMIT_S)


def add_partitions(kafka: Bootstrap, topic: str, partitions: int) -> None:
    """Until the topic has so many."""
    client = AdminClient({"bootstrap.servers": kafka.bootstrap})
    client.create_partitions([NewPartitions(topic, partitions)], operation_timeout=120)[topic].result(LIMIT_S)


def settings_of(bootstrap: str) -> dict[str, Any]:
    return {"bootstrap.servers": bootstrap, "log_level": 0}  # a client that cannot connect tries for ever


async def commits_reach(kafka: Bootstrap, trigger: Trigger, offset: int, *workers: Worker) -> None:
    def reached() -> bool:
        return committed(kafka, trigger) == offset

    async with asyncio.timeout(LIMIT_S):
        while not await asyncio.to_thread(reached):
            await asyncio.sleep(0.1)


def offsets_of(trigger: Trigger, partition: int = 0) -> list[int]:
    return [offset for number, offset in trigger.got if number == partition]
