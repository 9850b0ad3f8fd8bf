"""A worker that was frozen while its group went on without it moves no offset of a Trigger back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Message
from confluent_kafka.admin import AdminClient

from agents.reader.fetch import Fetcher
from app.local.kafka import EmbeddedKafka
from knative.contract.kafka_names import fanout_group
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tests.integration.reading import (
    LIMIT_S,
    SESSION_S,
    Trigger,
    commits_reach,
    committed,
    fill,
    offsets_of,
    until,
    working,
)
from tests.support.processes import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]


def expel(kafka: EmbeddedKafka, topic: str, *further: tuple[Trigger, int]) -> Callable[[], None]:
    """What happens to a worker that is frozen while it drains: the group goes on without it, and these Triggers are
    committed further. Made while it is the only member."""
    admin, group = AdminClient({"bootstrap.servers": kafka.bootstrap}), fanout_group("penstock", topic)

    def members() -> dict[str, str]:
        about = admin.describe_consumer_groups([group])[group].result(LIMIT_S)
        return {consumer.group_instance_id: consumer.member_id for consumer in about.members}

    ((instance, member),) = members().items()
    done: list[int] = []
    places = {
        trigger.subscription.group: [(topic, number) for number in trigger.member.states] for trigger, _ in further
    }

    def carry_out() -> None:
        if done:
            return
        done.append(1)
        heir = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group, "group.instance.id": instance,
                         "partition.assignment.strategy": "cooperative-sticky",
                         "session.timeout.ms": 6_000})  # fmt: skip
        heir.subscribe([topic])

        def replaced() -> bool:
            heir.consume(500, 0.1)  # joins the group; what it reads does not matter
            return members()[instance] != member

        wait_until("it is replaced", replaced, LIMIT_S)
        time.sleep(SESSION_S)  # as long as it takes otherwise, and as a confirmation may be relied on
        for trigger, offset in further:
            own = trigger.subscription.group
            KafkaAdmin({"bootstrap.servers": kafka.bootstrap}).groups.commit(own, dict.fromkeys(places[own], offset))
        threading.Thread(target=heir.close, daemon=True).start()

    return carry_out


async def test_who_was_expelled_while_it_drained_commits_nothing(
    kafka: EmbeddedKafka, make_topic: Callable[..., str]
) -> None:
    """A rebalance asks for a partition, and the worker is frozen before its last commit: others own it by then."""
    topic = make_topic(2)
    async with working(kafka) as worker:
        first = Trigger(kafka, topic, "a")
        worker.add(first)
        fill(kafka, topic, ["a"] * 200, 2)
        await until("all is read", lambda: len(first.got) == 200, worker)
        await commits_reach(kafka, first, 200)
        first.slow = True
        fill(kafka, topic, ["a"] * 200, 2)
        await until("the rest is in flight", lambda: len(first.kept) == 200, worker)
        go_on = expel(kafka, topic, (first, 150))

        def drain() -> None:
            for number in (0, 1):
                for delivery in [kept for kept in first.kept if kept.partition.number == number][:10]:
                    delivery.partition.tracker.settle(delivery.offset)
            go_on()

        first.while_draining = drain
        async with working(kafka) as two:
            second = Trigger(kafka, topic, "a")
            two.add(second)
            await until("each has one", lambda: len(first.member.states) == len(second.member.states) == 1, worker, two)
            (moved,) = second.member.states
            await until("the rest is read", lambda: len(offsets_of(second, moved)) >= 50, two)
            assert offsets_of(second, moved) == list(range(150, 200))


async def test_who_was_expelled_and_stops_commits_nothing(
    kafka: EmbeddedKafka, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker wakes and stops before its consumer has heard that it was expelled."""
    topic, frozen, fetch = make_topic(1), threading.Event(), Fetcher.fetch

    def fetch_unless_frozen(self: Fetcher, consumer: Consumer, wait_s: float) -> list[Message]:
        while frozen.is_set():
            time.sleep(0.01)
        return fetch(self, consumer, wait_s)

    monkeypatch.setattr(Fetcher, "fetch", fetch_unless_frozen)
    async with working(kafka) as worker:
        trigger = Trigger(kafka, topic, "a")
        worker.add(trigger)
        fill(kafka, topic, ["a"] * 100)
        await until("all is read", lambda: len(trigger.got) == 100, worker)
        await commits_reach(kafka, trigger, 100)
        trigger.slow = True
        fill(kafka, topic, ["a"] * 100)
        await until("the rest is in flight", lambda: len(trigger.kept) == 100, worker)
        go_on = expel(kafka, topic, (trigger, 150))

        def drain() -> None:
            frozen.set()
            for delivery in trigger.kept[:10]:
                delivery.partition.tracker.settle(delivery.offset)
            go_on()

        trigger.while_draining = drain
        await worker.remove(trigger)
        assert committed(kafka, trigger) == 150
        frozen.clear()
