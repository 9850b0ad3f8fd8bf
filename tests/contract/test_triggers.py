"""Triggers against real sockets, without a consumer: filters, replies into the broker's topic, structured delivery."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from agents.dispatch.hops import OwnAddresses
from agents.dispatch.runner import SubscriptionRunner
from agents.offsets.offset_tracker import OffsetTracker
from agents.offsets.partition import Delivery, PartitionState
from knative.cloudevents.http_binding import REPLY_DEPTH
from knative.contract.records import BROKER, TRIGGER, Channel, Subscription
from knative.delivery.policy import Addressable, DeliveryFormat, DeliveryOrder, DeliverySpec
from knative.filters import Filter, from_json
from knative.ports import ProduceProblem
from knative.traffic.counters import TrafficCounters
from tests.contract.serving import serving, subscription_to
from tests.support.checked_state import CheckedDelivery
from tests.support.fakes import CountingObserve, MemoryProduce
from tests.support.scripted_server import OK, ScriptedServer, answer, reply, silence
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio

TRACE = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
EVENT = ["ce-specversion: 1.0", "ce-id: r1", "ce-source: /subscriber", "ce-type: reply", "content-type: text/plain"]


def trigger(url: str, filter_: Filter, **delivery: object) -> Subscription:
    spec = DeliverySpec(**delivery)  # type: ignore[arg-type]
    return replace(subscription_to(url, spec), kind=TRIGGER, filter=filter_, topic="b", dlq_topic="b.dlq")


def record(
    type_: str, offset: int, partition: PartitionState, *more: tuple[str, bytes], key: bytes | None = None
) -> Delivery:
    headers = [("ce_specversion", b"1.0"), ("ce_id", b"%d" % offset), ("ce_source", b"/s"), ("ce_type", type_.encode())]
    return CheckedDelivery(partition, offset, key, b"x", [*headers, *more], 1)


def feed_types(runner: SubscriptionRunner, *types: str, key: bytes | None = None) -> PartitionState:
    partition = PartitionState("b", 0, OffsetTracker(0))
    records = [record(type_, offset, partition, key=key) for offset, type_ in enumerate(types)]
    runner.dispatcher.scheduler.enqueue(partition, records)
    return partition


EXACT_A = from_json({"exact": {"type": "a"}})


async def test_only_events_that_pass_are_sent_and_all_are_settled() -> None:
    observe, counters = CountingObserve(), TrafficCounters("me")
    async with (
        ScriptedServer(reply(OK)) as server,
        serving(trigger(server.url(), EXACT_A), MemoryProduce(), observe, counters=counters) as runner,
    ):
        partition = feed_types(runner, "b", "a", "b", "b", "a", "b")
        await until(lambda: partition.tracker.committable == 6)
        assert [b"ce-type: a\r\n" in request for request in server.requests] == [True, True]
        assert partition.released == 6
        assert observe.others["filtered", "ns/trigger:s"] == 4
        counts = {delta.type: delta.counts for delta in counters.take(1)}
        assert (counts["a"].delivered, counts["b"].filtered) == (2, 4)


async def test_filtered_event_waits_for_no_retry_and_no_slot() -> None:
    filter_ = from_json({"exact": {"type": "a"}})
    async with (
        ScriptedServer(silence()) as server,
        serving(replace(trigger(server.url(), filter_), concurrency=1), MemoryProduce()) as runner,
    ):
        partition = feed_types(runner, "a", "b", "b")
        await until(lambda: len(server.requests) == 1)
        assert partition.tracker.settled == {1, 2}
        assert partition.tracker.committable == 0


async def test_changed_filter_applies_to_what_waits_and_to_retries() -> None:
    both = from_json({"any": [{"exact": {"type": "a"}}, {"exact": {"type": "b"}}]})
    produce = MemoryProduce()
    async with (
        ScriptedServer(reply(answer(500)), reply(OK)) as server,
        serving(
            replace(trigger(server.url(), both, retry=5, backoff_delay_s=0.01), order=DeliveryOrder.ORDERED), produce
        ) as runner,
    ):
        partition = feed_types(runner, "a", "b", "a", "b")
        partition.committed = 1_000  # as if its attempts were committed: there is no Kafka here
        await until(lambda: len(server.requests) == 1)  # the first one fails; the others wait behind it
        only_b = replace(runner.subscription, filter=from_json({"exact": {"type": "b"}}), generation=2)
        runner.dispatcher.update(only_b, [partition])
        await until(lambda: partition.tracker.committable == 4)
        assert [b"ce-type: b\r\n" in request for request in server.requests] == [False, True, True]
        assert produce.records == []


async def test_what_has_passed_the_filter_is_not_judged_again_until_the_filter_changes() -> None:
    """The fan-out has judged it before it made the delivery."""
    async with (
        ScriptedServer(silence()) as server,
        serving(replace(trigger(server.url(), EXACT_A), concurrency=1), MemoryProduce()) as runner,
    ):
        partition = PartitionState("b", 0, OffsetTracker(0))
        passed, waiting, other = (record("b", offset, partition) for offset in range(3))
        passed.judged = waiting.judged = runner.matcher
        runner.dispatcher.scheduler.enqueue(partition, [passed, waiting, other])
        await until(lambda: len(server.requests) == 1)
        assert partition.tracker.settled == {2}
        only_c = replace(runner.subscription, filter=from_json({"exact": {"type": "c"}}), generation=2)
        assert runner.dispatcher.update(only_c, [partition]) is not None
        assert partition.tracker.settled == {1, 2}


HEAVY = from_json({"cesql": " OR ".join(["a LIKE '%b%'"] * 100)})


async def test_filter_that_would_judge_too_many_waiting_events_is_not_applied_in_place() -> None:
    async with (
        ScriptedServer(silence()) as server,
        serving(replace(trigger(server.url(), EXACT_A), concurrency=1), MemoryProduce()) as runner,
    ):
        partition = feed_types(runner, "a", "a")
        await until(lambda: len(server.requests) == 1)
        heavy = replace(runner.subscription, filter=HEAVY, generation=2)
        partition.fetched_count = 4096
        before = runner.matcher
        assert runner.dispatcher.update(heavy, [partition]) is None
        assert (runner.subscription.generation, runner.matcher) == (1, before)
        partition.fetched_count = 1
        assert runner.dispatcher.update(heavy, [partition]) is not None
        assert runner.subscription.generation == 2


async def test_filter_that_exceeds_its_limits_is_counted_and_reported_until_it_changes() -> None:
    observe = CountingObserve()
    async with (
        ScriptedServer(reply(OK)) as server,
        serving(trigger(server.url(), from_json({"cesql": "LOWER(a) = 'x'"})), MemoryProduce(), observe) as runner,
    ):
        partition = PartitionState("b", 0, OffsetTracker(0))
        events = [record("a", offset, partition, ("ce_a", b"a" * 70_000)) for offset in range(3)]
        runner.dispatcher.scheduler.enqueue(partition, events)
        assert partition.tracker.committable == 3
        assert observe.others["filter_exceeded", "ns/trigger:s"] == observe.others["filtered", "ns/trigger:s"] == 3
        assert runner.view.status().filter_problem == "LOWER: a text has 70,000 characters, more than 65,536"
        runner.update(replace(runner.subscription, concurrency=7, generation=2))
        assert runner.view.status().filter_problem != ""
        runner.update(replace(runner.subscription, filter=EXACT_A, generation=3))
        assert runner.view.status().filter_problem == ""


async def test_record_that_is_not_an_event_becomes_a_dead_letter_whatever_the_filter() -> None:
    produce = MemoryProduce()
    async with (
        ScriptedServer(reply(OK)) as server,
        serving(trigger(server.url(), EXACT_A), produce) as runner,
    ):
        partition = PartitionState("b", 0, OffsetTracker(0))
        runner.dispatcher.scheduler.enqueue(
            partition, [CheckedDelivery(partition, 0, None, b"x", [("ce_id", b"1")], 1)]
        )
        await until(lambda: partition.tracker.committable == 1)
        assert [produced.topic for produced in produce.records] == ["b.dlq"]


async def test_reply_is_stored_in_the_brokers_topic_before_the_event_is_settled() -> None:
    produce, observe, counters = MemoryProduce(), CountingObserve(), TrafficCounters("me")
    produce.holding = True
    async with (
        ScriptedServer(reply(answer(200, b"pong", *EVENT, "ce-subject: s1"))) as server,
        serving(trigger(server.url(), EXACT_A), produce, observe, counters=counters) as runner,
    ):
        partition = PartitionState("b", 0, OffsetTracker(0))
        delivery = record("a", 0, partition, ("traceparent", TRACE), (REPLY_DEPTH, b"3"))
        runner.dispatcher.scheduler.enqueue(partition, [delivery])
        await until(lambda: len(produce.records) == 1)
        assert partition.tracker.committable == 0
        produce.release()
        await until(lambda: partition.tracker.committable == 1)
        stored = produce.records[0]
        assert (stored.topic, stored.key, stored.value) == ("b", b"s1", b"pong")
        assert stored.headers["ce_type"] == b"reply"
        assert stored.headers["traceparent"] == TRACE
        assert stored.headers[REPLY_DEPTH] == b"4"
        assert REPLY_DEPTH.encode() not in server.requests[0]
        assert observe.others["reply_stored", "ns/trigger:s"] == 1
        assert [(d.type, d.counts.events) for d in counters.take(1) if not d.subscription] == [("reply", 1)]


async def test_reply_that_cannot_be_stored_makes_the_delivery_retry() -> None:
    produce = MemoryProduce()
    produce.failing = ProduceProblem.UNAVAILABLE
    async with (
        ScriptedServer(reply(answer(200, b"pong", *EVENT))) as server,
        serving(trigger(server.url(), EXACT_A, retry=9, backoff_delay_s=0.01), produce) as runner,
    ):
        partition = feed_types(runner, "a")
        partition.committed = 1_000
        await until(lambda: len(server.requests) >= 2)
        produce.failing = None
        await until(lambda: partition.tracker.committable == 1)
        assert [produced.topic for produced in produce.records] == ["b"]


async def test_chain_of_replies_that_is_too_long_is_dead_lettered_with_the_reason() -> None:
    produce = MemoryProduce()
    async with (
        ScriptedServer(reply(answer(200, b"pong", *EVENT))) as server,
        serving(trigger(server.url(), EXACT_A, retry=3), produce) as runner,
    ):
        partition = PartitionState("b", 0, OffsetTracker(0))
        runner.dispatcher.scheduler.enqueue(partition, [record("a", 0, partition, (REPLY_DEPTH, b"64"))])
        await until(lambda: partition.tracker.committable == 1)
        (letter,) = produce.records
        assert (letter.topic, letter.headers["ce_knativeerrorcode"]) == ("b.dlq", b"508")
        assert b"loop" in (letter.headers["penstock-reason"] or b"")
        assert len(server.requests) == 1


MAIN = Channel("b", 1, "ns", "main", "b", "b.dlq", 1, kind=BROKER)


async def test_deliveries_to_own_addresses_make_the_chain_longer_until_it_ends() -> None:
    """As subscriber, as reply and as dead letter sink; the address is known only after the start."""
    produce, addresses = MemoryProduce(), OwnAddresses()
    async with ScriptedServer(reply(answer(400, b"no"))) as server:
        own = Addressable(server.url("/ns/main"))
        spec = replace(trigger(server.url("/ns/main"), EXACT_A), delivery=DeliverySpec(retry=3, dead_letter_sink=own))
        async with serving(spec, produce, addresses=addresses) as runner:
            addresses.use([MAIN])
            partition = PartitionState("b", 0, OffsetTracker(0))
            depths = [[], [(REPLY_DEPTH, b"63")], [(REPLY_DEPTH, b"64")]]
            records = [record("a", offset, partition, *more) for offset, more in enumerate(depths)]
            runner.dispatcher.scheduler.enqueue(partition, records)
            await until(lambda: partition.tracker.committable == 3)
        sent = [re.findall(rb"penstock-reply-depth: (\d+)\r\n", request) for request in server.requests]
        # The subscriber and the sink for each of two, neither for the one whose chain is at its end.
        assert sorted(sent) == [[b"1"], [b"1"], [b"64"], [b"64"]]
        letters = {letter.headers["ce_id"]: letter.headers for letter in produce.records}
        assert {id_: letter["ce_knativeerrorcode"] for id_, letter in letters.items()} == {
            b"0": b"400",
            b"1": b"400",
            b"2": b"508",
        }
        last = letters[b"2"]
        assert (last["ce_knativeerrordest"], last[REPLY_DEPTH]) == (own.uri.encode(), b"64")
        assert b"come back" in (last["penstock-reason"] or b"")
        assert last["penstock-attempts"] == b"1"


@pytest.mark.parametrize(
    ("status", "headers", "body", "stored"),
    [
        (202, EVENT, b"pong", 0),  # a 202 never carries a reply
        (200, ["content-type: text/plain"], b"pong", 0),
        (200, ["ce-specversion: 0.3", *EVENT[1:]], b"pong", 1),
        (
            200,
            ["content-type: application/cloudevents+json"],
            b'{"specversion":"1.0","id":"r","source":"/x","type":"reply","data":{"a":1.10}}',
            1,
        ),
        (200, EVENT, b"x" * 1_048_576, 1),
    ],
)
async def test_answers_that_are_and_are_not_replies(status: int, headers: list[str], body: bytes, stored: int) -> None:
    produce = MemoryProduce()
    async with (
        ScriptedServer(reply(answer(status, body, *headers))) as server,
        serving(trigger(server.url(), EXACT_A), produce) as runner,
    ):
        partition = feed_types(runner, "a")
        await until(lambda: partition.tracker.committable == 1)
        assert [produced.topic for produced in produce.records] == ["b"] * stored
        if stored and body.startswith(b"{"):
            assert produce.records[0].value == b'{"a":1.10}'


async def test_reply_with_a_bad_body_is_a_failed_attempt() -> None:
    produce = MemoryProduce()
    bad = answer(200, b"{", "content-type: application/cloudevents+json")
    async with (
        ScriptedServer(reply(bad), reply(OK)) as server,
        serving(trigger(server.url(), EXACT_A, retry=2, backoff_delay_s=0.01), produce) as runner,
    ):
        partition = feed_types(runner, "a")
        partition.committed = 1_000
        await until(lambda: partition.tracker.committable == 1)
        assert len(server.requests) == 2
        assert produce.records == []


async def test_structured_delivery_sends_one_json_object_also_on_a_retry() -> None:
    async with (
        ScriptedServer(reply(answer(503)), reply(OK)) as server,
        serving(
            trigger(server.url(), EXACT_A, format=DeliveryFormat.JSON, retry=2, backoff_delay_s=0.01), MemoryProduce()
        ) as runner,
    ):
        partition = feed_types(runner, "a")
        partition.committed = 1_000
        await until(lambda: partition.tracker.committable == 1)
        for request in server.requests:
            head, _, body = request.partition(b"\r\n\r\n")
            assert b"content-type: application/cloudevents+json" in head
            assert json.loads(body)["type"] == "a"
            assert b"ce-type" not in head
