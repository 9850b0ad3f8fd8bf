"""A subscription is changed while requests hang: they are given up, and their events go where they go now."""

from __future__ import annotations

from dataclasses import replace

import pytest

from knative.contract.records import TRIGGER
from knative.delivery.policy import Addressable, DeliverySpec
from knative.filters import from_json
from tests.contract.serving import feed, serving, subscription_to
from tests.support.fakes import MemoryProduce
from tests.support.scripted_server import OK, ScriptedServer, answer, reply, silence
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio

EVENT = ["ce-specversion: 1.0", "ce-id: r1", "ce-source: /subscriber", "ce-type: reply", "content-type: text/plain"]
SOON_S = 0.05


async def test_attempts_that_hang_at_a_former_subscriber_are_made_at_the_new_one() -> None:
    """They do not count: without retries, one that counted would be a dead letter."""
    produce = MemoryProduce()
    async with ScriptedServer(silence()) as former, ScriptedServer(reply(OK)) as present:
        before = subscription_to(former.url(), DeliverySpec(retry=0), concurrency=4)
        async with serving(before, produce, revoke_drain_s=SOON_S) as runner:
            partition = feed(runner, 0, 6)
            await until(lambda: len(former.requests) == 4)
            runner.update(replace(before, generation=2, subscriber=Addressable(present.url())))
            await until(lambda: partition.tracker.committable == 6)
            assert (len(former.requests), len(present.requests)) == (4, 6)
            assert (produce.records, partition.tracker.attempts) == ([], {})
            scheduler = runner.dispatcher.scheduler
            assert (scheduler.in_flight, scheduler.started, partition.in_flight) == (0, set(), 0)


async def test_answer_within_the_grace_time_counts() -> None:
    async with ScriptedServer(silence()) as former, ScriptedServer(reply(OK)) as present:
        before = subscription_to(former.url(), DeliverySpec(retry=0))
        async with serving(before, MemoryProduce(), revoke_drain_s=60.0) as runner:
            partition = feed(runner, 0, 1)
            await until(lambda: len(former.requests) == 1)
            runner.update(replace(before, generation=2, subscriber=Addressable(present.url())))
            former.push(0, OK)
            await until(lambda: partition.tracker.committable == 1)
            assert present.requests == []


async def test_retry_that_hangs_at_a_former_subscriber_is_made_again_and_counted_once() -> None:
    produce = MemoryProduce()
    delivery = DeliverySpec(retry=1, backoff_delay_s=0.01)
    async with ScriptedServer(reply(answer(500)), silence()) as former, ScriptedServer(reply(answer(503))) as present:
        before = subscription_to(former.url(), delivery)
        async with serving(before, produce, revoke_drain_s=SOON_S) as runner:
            partition = feed(runner, 0, 1)
            partition.committed = 1_000  # as if its attempts were committed: there is no Kafka here
            await until(lambda: len(former.requests) == 2)
            runner.update(replace(before, generation=2, subscriber=Addressable(present.url())))
            await until(lambda: partition.tracker.committable == 1)
            assert len(present.requests) == 1
            (letter,) = produce.records
            assert letter.headers["penstock-attempts"] == b"2"
            assert (letter.headers["ce_knativeerrordest"], letter.headers["ce_knativeerrorcode"]) == (
                present.url().encode(),
                b"503",
            )


async def test_reply_that_hangs_at_its_former_destination_is_asked_for_again() -> None:
    async with (
        ScriptedServer(reply(answer(200, b"pong", *EVENT))) as subscriber,
        ScriptedServer(silence()) as former,
        ScriptedServer(reply(OK)) as present,
    ):
        before = replace(subscription_to(subscriber.url(), DeliverySpec(retry=0)), reply=Addressable(former.url()))
        async with serving(before, produce := MemoryProduce(), revoke_drain_s=SOON_S) as runner:
            partition = feed(runner, 0, 1)
            await until(lambda: len(former.requests) == 1)
            runner.update(replace(before, generation=2, reply=Addressable(present.url())))
            await until(lambda: partition.tracker.committable == 1)
            assert (len(subscriber.requests), len(present.requests), produce.records) == (2, 1, [])


async def test_dead_letter_that_hangs_at_a_former_sink_goes_to_the_new_one() -> None:
    async with (
        ScriptedServer(reply(answer(400))) as subscriber,
        ScriptedServer(silence()) as former,
        ScriptedServer(reply(OK)) as present,
    ):
        delivery = DeliverySpec(dead_letter_sink=Addressable(former.url()))
        before = subscription_to(subscriber.url(), delivery)
        async with serving(before, produce := MemoryProduce(), revoke_drain_s=SOON_S) as runner:
            partition = feed(runner, 0, 1)
            await until(lambda: len(former.requests) == 1)
            delivery = replace(delivery, dead_letter_sink=Addressable(present.url()))
            runner.update(replace(before, generation=2, delivery=delivery))
            await until(lambda: partition.tracker.committable == 1)
            assert (len(subscriber.requests), len(present.requests), produce.records) == (1, 1, [])


async def test_shorter_time_limit_ends_attempts_that_hang() -> None:
    """They have failed by the limit that counts now."""
    produce = MemoryProduce()
    async with ScriptedServer(silence()) as server:
        before = subscription_to(server.url(), DeliverySpec(retry=1, backoff_delay_s=0.01, timeout_s=300.0))
        async with serving(before, produce) as runner:
            partition = feed(runner, 0, 3)
            partition.committed = 1_000
            await until(lambda: len(server.requests) == 3)
            runner.update(replace(before, generation=2, delivery=replace(before.delivery, timeout_s=SOON_S)))
            await until(lambda: partition.tracker.committable == 3)
            assert len(server.requests) == 6
            assert {letter.headers["penstock-attempts"] for letter in produce.records} == {b"2"}
            assert all(b"timeout" in (letter.headers["penstock-reason"] or b"") for letter in produce.records)


async def test_event_that_hangs_is_dropped_if_the_new_filter_does_not_want_it() -> None:
    async with ScriptedServer(silence()) as former, ScriptedServer(reply(OK)) as present:
        before = replace(subscription_to(former.url(), DeliverySpec(retry=0)), kind=TRIGGER)
        async with serving(before, produce := MemoryProduce(), revoke_drain_s=SOON_S) as runner:
            partition = feed(runner, 0, 1)
            await until(lambda: len(former.requests) == 1)
            other = from_json({"exact": {"type": "another"}})
            runner.update(replace(before, generation=2, subscriber=Addressable(present.url()), filter=other))
            await until(lambda: partition.tracker.committable == 1)
            assert (present.requests, produce.records) == ([], [])


async def test_partition_that_is_lost_meanwhile_is_left_to_its_next_owner() -> None:
    async with ScriptedServer(silence()) as former, ScriptedServer(reply(OK)) as present:
        before = subscription_to(former.url(), DeliverySpec(retry=0))
        async with serving(before, produce := MemoryProduce(), revoke_drain_s=60.0) as runner:
            partition = feed(runner, 0, 2)
            await until(lambda: len(former.requests) == 2)
            runner.update(replace(before, generation=2, subscriber=Addressable(present.url())))
            runner.dispatcher.abandon([partition])
            await until(lambda: runner.dispatcher.scheduler.in_flight == 0)
            assert (partition.tracker.committable, present.requests, produce.records) == (0, [], [])
