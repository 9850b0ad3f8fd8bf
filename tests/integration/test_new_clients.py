"""Consumers whose credentials change, on a real Kafka: what is known and what is under way outlives the client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

import pytest
from structlog.testing import capture_logs

from agents.config import DeliveryConfig
from agents.consumer import membership
from agents.consumer.consumer import SubscriptionConsumer
from agents.fanout.shared_consumer import SharedConsumer
from agents.ordering.partition import PartitionState
from app.local.kafka import EmbeddedKafka
from tables.kafka.connection.live_settings import LiveSettings
from tests.integration.consumers import LIMIT_S, Settler, committed, fill, settings_of, subscription
from tests.support.fanout import Trigger, until, working
from tests.support.kafka_cluster import Direct, KafkaCluster

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

NEVER_S = 10_000.0


class Draining(Settler):
    """A drain of it lasts until its limit is over."""

    def __init__(self) -> None:
        super().__init__()
        self.limits_s: list[float] = []
        self.while_draining: Callable[[], None] = lambda: None

    async def drain(self, partitions: Sequence[PartitionState], limit_s: float) -> None:
        if partitions:
            self.limits_s.append(limit_s)
            self.while_draining()
            await asyncio.sleep(limit_s)
        await super().drain(partitions, limit_s)


def start(owner: Settler, topic: str, kafka: LiveSettings, drain_s: float) -> SubscriptionConsumer:
    config = DeliveryConfig(kafka, session_timeout_s=6.0, commit_interval_s=0.1, drain_s=drain_s)
    owner.consumer = SubscriptionConsumer(subscription(topic), config, owner, owner.observe)
    owner.consumer.start()
    return owner.consumer


def assigned(consumer: SubscriptionConsumer | SharedConsumer, times: int) -> bool:
    return consumer.rebalances["assigned"] == times


async def test_the_next_client_waits_for_the_rest_of_a_handover(
    kafka: EmbeddedKafka, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what was assigned after Kafka was silent, other members may know more, whichever client it is assigned to."""
    monkeypatch.setattr(membership, "HANDOVER_S", NEVER_S)
    owner, settings = Settler(), settings_of(kafka.bootstrap)
    consumer = start(owner, make_topic(), settings, 1.0)
    consumer._rebalance._lost.joining = True
    try:
        for number in (1, 2, 3):  # so that the second has done all that it does
            await owner.until(partial(assigned, consumer, number))
            settings.replace({"bootstrap.servers": kafka.bootstrap})
        assert owner.partitions == []
    finally:
        await consumer.stop(1.0)


async def test_the_next_client_of_a_fan_out_waits_for_the_rest_of_a_handover(
    kafka: EmbeddedKafka, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership, "HANDOVER_S", NEVER_S)
    topic, settings = make_topic(), settings_of(kafka.bootstrap)
    async with working(kafka, settings=settings) as worker:
        trigger = Trigger(kafka, topic, "a")
        worker.add(trigger)
        consumer = worker.fanouts._fanouts[topic]._consumer
        consumer._joining = True
        for number in (1, 2, 3):
            await until("it is assigned", partial(assigned, consumer, number), worker)
            settings.replace({"bootstrap.servers": kafka.bootstrap})
        assert trigger.opened_count == 0


async def test_a_stop_need_not_wait_for_the_drain_of_a_former_client(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    topic, owner, settings = make_topic(), Draining(), settings_of(kafka.bootstrap)
    consumer = start(owner, topic, settings, NEVER_S)
    fill(kafka, topic, 10)
    await owner.until(lambda: len(owner.got) == 10)
    with capture_logs() as logs:
        settings.replace({"bootstrap.servers": kafka.bootstrap})
        await owner.until(lambda: bool(owner.limits_s))
        await consumer.stop(0.5)
    assert owner.limits_s == [NEVER_S, 0.5]
    assert [line["event"] for line in logs if line["log_level"] == "error"] == []
    assert consumer.partitions == []


async def test_what_a_refused_last_commit_was_about_is_handed_over_to_the_next_owner(
    proxied: KafkaCluster, topic_name: Callable[[], str]
) -> None:
    """Kafka was silent until the session was over, and the next client gets other partitions."""
    topic, owner, settings, next_owner = (
        topic_name(),
        Settler(),
        settings_of(proxied.bootstrap),
        Settler(lambda _: False),
    )
    proxied.create_topic(topic)
    kafka = Direct(proxied.direct)
    fill(kafka, topic, 10)
    owner.settle = lambda record: record.offset != 9
    consumer = start(owner, topic, settings, 1.0)
    heir: SubscriptionConsumer | None = None
    try:
        await owner.until(lambda: len(owner.got) == 10)
        await asyncio.wait_for(consumer.commits.barrier(owner.partitions[0]), LIMIT_S)
        proxied.brokers[0].proxy.blackhole()
        owner.partitions[0].tracker.settle(9)
        consumer.commits.schedule_commit()
        await owner.until(lambda: consumer.commits.silent)
        heir = start(next_owner, topic, settings_of(kafka.bootstrap), 1.0)
        await next_owner.until(lambda: next_owner.got == [(0, 9)])
        settings.replace({"bootstrap.servers": kafka.bootstrap})

        async def handed_over() -> None:
            while (await asyncio.to_thread(committed, kafka, topic))[0] != 10:
                await asyncio.sleep(0.1)

        await asyncio.wait_for(handed_over(), LIMIT_S)
    finally:
        proxied.brokers[0].proxy.forward()
        await consumer.stop(1.0)
        if heir is not None:
            await heir.stop(1.0)


async def test_a_last_commit_that_kafka_does_not_answer_holds_up_no_client(
    proxied: KafkaCluster, topic_name: Callable[[], str]
) -> None:
    """It is given up once the credentials have changed, and what it was about is not delivered again."""
    topic, owner, settings = topic_name(), Draining(), settings_of(proxied.bootstrap)
    proxied.create_topic(topic)
    kafka = Direct(proxied.direct)
    fill(kafka, topic, 10)
    consumer = start(owner, topic, settings, 1.0)
    owner.settle = lambda record: record.offset != 9
    try:
        await owner.until(lambda: len(owner.got) == 10)
        await asyncio.wait_for(consumer.commits.barrier(owner.partitions[0]), LIMIT_S)
        proxied.brokers[0].proxy.blackhole()
        owner.while_draining = lambda: owner.partitions[0].tracker.settle(9)
        settings.replace({"bootstrap.servers": kafka.bootstrap})
        await owner.until(lambda: len(owner.partitions) == 2)
        fill(kafka, topic, 5)
        await owner.until(lambda: len(owner.got) >= 15)
        assert [offset for _, offset in owner.got] == list(range(15))
    finally:
        proxied.brokers[0].proxy.forward()
        await consumer.stop(1.0)
