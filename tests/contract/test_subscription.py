"""One subscription against real sockets, without its feed: what is let go lets go of everything it holds."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from agents.offsets.offset_metadata import STARTED_MAX, OffsetMetadata, read
from agents.offsets.offset_tracker import OffsetTracker
from agents.offsets.partition import PartitionState
from knative.delivery.policy import Addressable, DeliverySpec, OnRetriesExhausted
from knative.ports import ProduceProblem
from tests.contract.serving import HEADERS, LIMIT_S, feed, serving, subscription_to
from tests.support.checked_state import CheckedDelivery
from tests.support.fakes import CountingObserve, MemoryProduce
from tests.support.scripted_server import ScriptedServer, answer, reply, silence
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio


async def test_requests_of_a_revoked_partition_give_their_slots_back() -> None:
    """A hanging subscriber must not keep a process from serving the partitions that it still has."""
    async with (
        ScriptedServer(silence()) as server,
        serving(subscription_to(server.url(), DeliverySpec(retry=5), concurrency=2), MemoryProduce()) as runner,
    ):
        gone = feed(runner, 0, 2)
        await until(lambda: len(server.requests) == 2)
        await runner.drain([gone], 0.05)
        assert runner.dispatcher.scheduler.in_flight == 0
        assert runner.dispatcher.scheduler.started == set()
        feed(runner, 1, 2)
        await until(lambda: len(server.requests) == 4)
        assert gone.tracker.committable == 0


async def test_retry_of_a_revoked_partition_leaves_no_request_behind() -> None:
    delivery = DeliverySpec(retry=5, backoff_delay_s=0.01)
    async with (
        ScriptedServer(reply(answer(500)), silence()) as server,
        serving(subscription_to(server.url(), delivery), MemoryProduce()) as runner,
    ):
        gone = feed(runner, 0, 1)
        gone.committed = 1_000  # as if its attempts were committed: there is no Kafka here
        await until(lambda: len(server.requests) == 2)
        await runner.drain([gone], 0.05)
        sender = runner.dispatcher.pool(Addressable(server.url()))
        await until(lambda: sender.in_flight == 0 and runner.dispatcher.scheduler.in_flight == 0)


async def test_changed_dead_letter_sink_counts_from_the_next_try_on() -> None:
    async with (
        ScriptedServer(reply(answer(400))) as subscriber,
        ScriptedServer(reply(answer(503))) as wrong,
        ScriptedServer(reply(answer(200))) as right,
    ):
        delivery = DeliverySpec(retry=1_000, backoff_delay_s=0.01, dead_letter_sink=Addressable(wrong.url()))
        before = subscription_to(subscriber.url(), delivery)
        async with serving(before, MemoryProduce()) as runner:
            partition = feed(runner, 0, 1)
            await until(lambda: len(wrong.requests) >= 2)
            delivery = replace(delivery, dead_letter_sink=Addressable(right.url()))
            runner.update(replace(before, generation=2, delivery=delivery))
            await until(lambda: partition.tracker.committable == 1)
            assert len(right.requests) == 1


async def test_dead_letter_that_waits_for_a_slot_goes_to_the_sink_that_counts_when_it_has_one() -> None:
    judge, let_go = asyncio.Event(), asyncio.Event()

    async def judging(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        await judge.wait()
        writer.write(answer(400))
        return True

    async def holding(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        await let_go.wait()
        writer.write(answer(200))
        return True

    async with (
        ScriptedServer(judging) as subscriber,
        ScriptedServer(holding) as former,
        ScriptedServer(reply(answer(200))) as present,
    ):
        delivery = DeliverySpec(dead_letter_sink=Addressable(former.url()))
        before = subscription_to(subscriber.url(), delivery, concurrency=2)
        async with serving(before, MemoryProduce()) as runner:
            partition = feed(runner, 0, 2)
            await until(lambda: len(subscriber.requests) == 2)
            runner.update(narrow := replace(before, generation=2, concurrency=1))
            judge.set()
            await until(lambda: len(former.requests) == 1 and len(runner.dispatcher.scheduler.ready) == 1)
            delivery = replace(delivery, dead_letter_sink=Addressable(present.url()))
            runner.update(replace(narrow, generation=3, delivery=delivery))
            let_go.set()
            await until(lambda: partition.tracker.committable == 2)
            assert (len(former.requests), len(present.requests)) == (1, 1)


async def test_drain_does_not_wait_for_an_unstorable_dead_letter() -> None:
    produce = MemoryProduce()
    produce.failing = ProduceProblem.UNAVAILABLE
    async with (
        ScriptedServer(reply(answer(400))) as server,
        serving(subscription_to(server.url(), DeliverySpec(retry=0)), produce) as runner,
    ):
        partition = feed(runner, 0, 3)
        await until(lambda: len(server.requests) == 3)
        await asyncio.wait_for(runner.drain([partition], 300.0), LIMIT_S)
        assert partition.tracker.committable == 0


async def test_next_owner_waits_for_what_is_left_of_a_retry() -> None:
    delivery = DeliverySpec(retry=3, backoff_delay_s=0.4)
    async with (
        ScriptedServer(reply(answer(503))) as server,
        serving(subscription_to(server.url(), delivery), MemoryProduce()) as runner,
    ):
        gone = feed(runner, 0, 1)
        await until(lambda: 0 in gone.tracker.due)
        await runner.drain([gone], 0.0)
        metadata = read(gone.tracker.committable, gone.tracker.metadata())
    assert metadata.attempts == {0: 1}
    async with (
        ScriptedServer(reply(answer(200))) as server,
        serving(subscription_to(server.url(), delivery), MemoryProduce()) as runner,
    ):
        partition = PartitionState("t", 0, OffsetTracker(0, metadata))
        records = [CheckedDelivery(partition, at, None, b"%d" % at, HEADERS, 1) for at in range(2)]
        runner.dispatcher.scheduler.enqueue(partition, records)
        await until(lambda: partition.tracker.settled == {1})  # the other one does not wait
        [head] = runner.view.stats().heads
        assert (head.offset, head.attempts, head.next_attempt) == (0, 1, metadata.due[0])
        await until(lambda: partition.tracker.committable == 2)
        assert time.time() >= metadata.due[0]
        assert [request[-1:] for request in server.requests] == [b"1", b"0"]


async def test_as_many_inherited_waits_as_a_partition_may_have() -> None:
    """They are all taken up in one turn, one after the other and not one within the other."""
    due = time.time() + 0.5
    metadata = OffsetMetadata(attempts=dict.fromkeys(range(STARTED_MAX), 1), due=dict.fromkeys(range(STARTED_MAX), due))
    async with (
        ScriptedServer(reply(answer(200))) as server,
        serving(subscription_to(server.url(), DeliverySpec(retry=3)), MemoryProduce()) as runner,
    ):
        partition = PartitionState("t", 0, OffsetTracker(0, metadata))
        runner.dispatcher.scheduler.enqueue(
            partition, [CheckedDelivery(partition, at, None, b"x", HEADERS, 1) for at in range(STARTED_MAX)]
        )
        assert (runner.dispatcher.scheduler.in_flight, len(runner.dispatcher.scheduler.started)) == (0, STARTED_MAX)
        await until(lambda: partition.tracker.committable == STARTED_MAX)


@pytest.mark.parametrize("lets_go", ["lost", "drained"])
async def test_what_is_let_go_before_its_first_step_gives_its_slot_back(lets_go: str) -> None:
    async with (
        ScriptedServer(silence()) as server,
        serving(subscription_to(server.url(), DeliverySpec(), concurrency=1), MemoryProduce()) as runner,
    ):
        gone = PartitionState("t", 0, OffsetTracker(0))
        not_an_event = CheckedDelivery(gone, 0, None, b"x", [("ce_id", b"1")], 1)
        runner.dispatcher.scheduler.enqueue(gone, [not_an_event])
        if lets_go == "lost":
            runner.dispatcher.abandon([gone])
        else:
            await runner.drain([gone], 0.0)
        await until(lambda: runner.dispatcher.scheduler.in_flight == 0 and not runner.dispatcher.scheduler.started)
        feed(runner, 1, 1)
        await until(lambda: len(server.requests) == 1)


async def test_ignore_is_for_what_no_sink_has_taken() -> None:
    produce, observe = MemoryProduce(), CountingObserve()
    async with (
        ScriptedServer(reply(answer(400))) as subscriber,
        ScriptedServer(reply(answer(200)), reply(answer(400))) as sink,
    ):
        delivery = DeliverySpec(dead_letter_sink=Addressable(sink.url()))
        ignoring = replace(
            subscription_to(subscriber.url(), delivery, concurrency=1), exhausted=OnRetriesExhausted.IGNORE
        )
        async with serving(ignoring, produce, observe) as runner:
            partition = feed(runner, 0, 2)
            await until(lambda: partition.tracker.committable == 2)
            assert len(sink.requests) == 2
    assert observe.others["settled", "ns/s", "dead-lettered"] == observe.others["settled", "ns/s", "ignored"] == 1
    assert produce.records == []


async def test_no_more_than_the_cap_is_in_flight_to_a_dead_letter_sink() -> None:
    async with (
        ScriptedServer(reply(answer(400))) as subscriber,
        ScriptedServer(silence()) as sink,
    ):
        delivery = DeliverySpec(dead_letter_sink=Addressable(sink.url()))
        async with serving(subscription_to(subscriber.url(), delivery, concurrency=3), MemoryProduce()) as runner:
            feed(runner, 0, 20)
            await until(lambda: len(sink.requests) == 3)
            await asyncio.sleep(0.2)
            assert (len(sink.requests), runner.dispatcher.scheduler.in_flight) == (3, 3)


async def test_drain_ends_what_had_begun_dead_letters_within_the_cap_too() -> None:
    """They are not left to the next owner, who would ask the subscriber once more."""
    busy, most = 0, 0

    async def slowly(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        nonlocal busy, most
        busy, most = busy + 1, max(most, busy + 1)
        await asyncio.sleep(0.01)
        busy -= 1
        writer.write(answer(200))
        return True

    async with ScriptedServer(reply(answer(400))) as subscriber, ScriptedServer(slowly) as sink:
        delivery = DeliverySpec(dead_letter_sink=Addressable(sink.url()))
        async with serving(subscription_to(subscriber.url(), delivery, concurrency=2), MemoryProduce()) as runner:
            partition = feed(runner, 0, 20)
            await until(lambda: len(subscriber.requests) == 20)
            assert partition.tracker.committable < 20
            await runner.drain([partition], LIMIT_S)
            assert partition.tracker.committable == 20
            assert (len(sink.requests), most, runner.dispatcher.scheduler.in_flight) == (20, 2, 0)


async def test_what_waits_for_a_slot_and_is_lost_leaves_none_behind() -> None:
    async with ScriptedServer(reply(answer(400))) as subscriber, ScriptedServer(silence()) as sink:
        delivery = DeliverySpec(dead_letter_sink=Addressable(sink.url()))
        async with serving(subscription_to(subscriber.url(), delivery, concurrency=2), MemoryProduce()) as runner:
            gone = feed(runner, 0, 20)
            await until(lambda: len(sink.requests) == 2)
            runner.dispatcher.abandon([gone])
            await until(lambda: runner.dispatcher.scheduler.in_flight == 0 and not runner.dispatcher.scheduler.started)
            assert not runner.dispatcher.scheduler.ready
            feed(runner, 1, 2)
            await until(lambda: len(sink.requests) == 4)


async def test_dead_letter_names_the_url_that_was_asked() -> None:
    produce, answered = MemoryProduce(), asyncio.Event()

    async def later(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        await answered.wait()
        writer.write(answer(400))
        return True

    async with ScriptedServer(later) as server:
        before = subscription_to(server.url(), DeliverySpec())
        async with serving(before, produce) as runner:
            partition = feed(runner, 0, 1)
            await until(lambda: len(server.requests) == 1)
            runner.update(replace(before, generation=2, subscriber=Addressable("http://127.0.0.1:9/other")))
            answered.set()
            await until(lambda: partition.tracker.committable == 1)
    [letter] = produce.records
    assert letter.headers["ce_knativeerrordest"] == server.url().encode()


async def test_runner_that_never_started_stops() -> None:
    """SIGTERM may come while it is being added."""
    async with serving(subscription_to("http://127.0.0.1:1/", DeliverySpec()), MemoryProduce()) as runner:
        await runner.on_stop()
