"""What the listeners hear of deliveries against real sockets: metrics, traffic counters and spans, on each path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from agents.offsets.offset_tracker import OffsetTracker
from agents.offsets.partition import PartitionState
from knative.delivery.policy import Addressable, DeliverySpec
from knative.ports import Headers
from knative.tracing import AttemptSpan, ProcessSpan, ReceiveSpan, TracedSubscription
from knative.traffic.counters import TrafficCounters
from tests.contract.serving import HEADERS, feed, serving, subscription_to
from tests.support.checked_state import CheckedDelivery
from tests.support.fakes import CountingObserve, MemoryProduce
from tests.support.scripted_server import ScriptedServer, Step, answer, reply, silence
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio


class SpanLog:
    """Trace: the spans of events, each as a list of what happened to it."""

    def __init__(self) -> None:
        self.spans: list[list[object]] = []

    def receive(self, target: bytes, host: bytes | None, pairs: Sequence[tuple[bytes, bytes]]) -> ReceiveSpan:
        raise AssertionError("nothing is received here")

    def process(
        self, subscription: TracedSubscription, partition: int, offset: int, headers: Headers, value: bytes | None
    ) -> ProcessSpan:
        self.spans.append([])
        return _EventSpan(self.spans[-1])


class _EventSpan:
    def __init__(self, log: list[object]) -> None:
        self.log = log

    def attempt(self, url: str, number: int) -> AttemptSpan:
        return _RequestSpan(self.log, number)

    def ended(self, verdict: str) -> None:
        self.log.append(str(verdict))


class _RequestSpan:
    def __init__(self, log: list[object], number: int) -> None:
        self.log, self.number = log, number

    def headers(self, stored: Headers) -> Headers:
        return [*stored, ("traceparent", b"mine")]

    def ended(self, status: int, problem: str = "") -> None:
        self.log.append((self.number, str(problem) or status))


EVENT = answer(200, b"", "ce-specversion: 1.0", "ce-id: r", "ce-source: /r", "ce-type: r")


@pytest.mark.parametrize(
    ("answers", "spans", "settled", "attempts"),
    [
        ([answer(202)], [(1, 202), "delivered"], "", {}),
        ([answer(503), answer(200)], [(1, 503), (2, 200), "delivered"], "delivered", {503: 1, 200: 1}),
        ([answer(400)], [(1, 400), (1, 204), "dead-lettered"], "dead-lettered", {400: 1}),
        ([answer(503)], [(1, 503), (2, 503), (1, 204), "dead-lettered"], "dead-lettered", {503: 2}),
        ([EVENT], [(1, 200), (1, 204), "delivered"], "delivered", {200: 1}),
        ([answer(503), EVENT], [(1, 503), (2, 200), (2, 204), "delivered"], "delivered", {503: 1, 200: 1}),
    ],
)
async def test_each_listener_hears_of_a_delivery_what_it_counts(
    answers: list[bytes], spans: list[object], settled: str, attempts: dict[int, int]
) -> None:
    """Metrics count attempts at the subscriber; spans also those at the reply's destination and at the sink."""
    observe, trace, counters = CountingObserve(), SpanLog(), TrafficCounters("w")
    async with (
        ScriptedServer(*map(reply, answers)) as subscriber,
        ScriptedServer(reply(answer(204))) as other,
    ):
        delivery = DeliverySpec(retry=1, backoff_delay_s=0.01, dead_letter_sink=Addressable(other.url()))
        wants = replace(subscription_to(subscriber.url(), delivery), reply=Addressable(other.url()))
        async with serving(wants, MemoryProduce(), observe, trace, counters) as runner:
            partition = PartitionState("t", 0, OffsetTracker(0))
            partition.committed = 1_000  # as if its attempts were committed: there is no Kafka here
            runner.dispatcher.scheduler.enqueue(partition, [CheckedDelivery(partition, 0, None, b"x", HEADERS, 1)])
            await until(lambda: partition.tracker.committable == 1)
            [delta] = counters.take(1)
        assert all(b"traceparent: mine" in request for request in (*subscriber.requests, *other.requests))
    assert trace.spans == [spans]
    assert (delta.counts.delivered, delta.counts.dead) == ((0, 1) if settled == "dead-lettered" else (1, 0))
    counted = {key: count for key, count in observe.others.items() if key[0] in ("attempt", "settled", "delivered")}
    expected: dict[tuple[object, ...], int] = {("attempt", "ns/s", status): count for status, count in attempts.items()}
    assert counted == expected | ({("settled", "ns/s", settled): 1} if settled else {("delivered", "ns/s"): 1})


@pytest.mark.parametrize(
    ("answers", "spans"),
    [
        ([silence()], [(1, "closed"), "abandoned"]),
        ([reply(answer(503)), silence()], [(1, 503), (2, "closed"), "abandoned"]),
        ([reply(EVENT)], [(1, 200), (1, "closed"), "abandoned"]),
    ],
)
async def test_revoked_partition_leaves_no_open_span(answers: list[Step], spans: list[object]) -> None:
    trace = SpanLog()
    async with ScriptedServer(*answers) as subscriber, ScriptedServer(silence()) as other:
        delivery = DeliverySpec(retry=5, backoff_delay_s=0.01)
        wants = replace(subscription_to(subscriber.url(), delivery), reply=Addressable(other.url()))
        async with serving(wants, MemoryProduce(), trace=trace) as runner:
            partition = feed(runner, 0, 1)
            partition.committed = 1_000
            await until(lambda: len(subscriber.requests) + len(other.requests) == len(spans) - 1)
            await runner.drain([partition], 0.0)
            await until(lambda: trace.spans == [spans])


async def test_trigger_counts_under_a_name_that_no_subscription_has() -> None:
    observe, counters = CountingObserve(), TrafficCounters("w")
    async with ScriptedServer(reply(answer(202))) as subscriber:
        wants = replace(subscription_to(subscriber.url(), DeliverySpec()), kind="Trigger")
        async with serving(wants, MemoryProduce(), observe, counters=counters) as runner:
            partition = feed(runner, 0, 1)
            await until(lambda: partition.tracker.committable == 1)
            [delta] = [counted for counted in counters.take(1) if counted.subscription]
    assert (delta.namespace, delta.channel, delta.subscription) == ("ns", f"broker:{wants.channel}", "trigger:s")
    assert {key[1] for key in observe.others if key[0] == "delivered"} == {"ns/trigger:s"}


async def test_record_that_is_not_a_cloudevent_has_no_attempt() -> None:
    observe, trace, produce = CountingObserve(), SpanLog(), MemoryProduce()
    async with serving(subscription_to("http://127.0.0.1:1/", DeliverySpec()), produce, observe, trace) as runner:
        partition = PartitionState("t", 0, OffsetTracker(0))
        runner.dispatcher.scheduler.enqueue(
            partition, [CheckedDelivery(partition, 0, None, b"x", [("ce_id", b"1")], 1)]
        )
        await until(lambda: partition.tracker.committable == 1)
    assert trace.spans == [["dead-lettered"]]
    assert len(produce.records) == 1
    assert not [key for key in observe.others if key[0] == "attempt"]
    assert observe.others["settled", "ns/s", "dead-lettered"] == 1
