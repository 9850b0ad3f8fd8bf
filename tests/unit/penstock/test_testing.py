"""The broker in memory: order, retries, filters, replies, dead letters and time are those of a worker."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from knative.cesql import CesqlSyntaxError
from knative.errors import UsageError
from penstock import Reject, Retry, Subscriber
from penstock.testing import Broker, Trigger

_Event = Any


def _ignore(event: _Event) -> None:
    """Its work is done."""


def _attempts(trigger: Trigger) -> list[tuple[str, int]]:
    return [(attempt.event_id, attempt.status) for attempt in trigger.attempts]


def _send(broker: Broker, *ids: str, **attributes: str) -> None:
    for event_id in ids:
        broker.send(**{"id": event_id, "type": "t", "source": "/s", **attributes})


def test_key_waits_for_its_retry_and_other_keys_do_not() -> None:
    broker = Broker()
    failed: list[str] = []

    def handler(event: _Event) -> None:
        if event.get_id() == "a1" and not failed:
            failed.append("a1")
            raise OSError("away")

    trigger = broker.subscribe(handler, order="key-ordered", retry=3)
    for event_id in ("a1", "b1", "a2"):
        _send(broker, event_id, partitionkey=event_id[0])
    broker.run()
    assert _attempts(trigger) == [("a1", 500), ("b1", 204), ("a1", 204), ("a2", 204)]


def test_ordered_trigger_keeps_the_order_of_all_keys() -> None:
    broker = Broker()
    answers = iter([OSError("away"), None, None, None])

    def handler(_: _Event) -> None:
        if (problem := next(answers)) is not None:
            raise problem

    trigger = broker.subscribe(handler, retry=3)
    _send(broker, "a", partitionkey="k")
    _send(broker, "b", partitionkey="l")
    broker.run()
    assert _attempts(trigger) == [("a", 500), ("a", 204), ("b", 204)]


@pytest.mark.parametrize(
    ("policy", "at_s"), [("exponential", [0, 10, 30, 70]), ("linear", [0, 10, 30, 60])], ids=["exponential", "linear"]
)
def test_waits_are_those_of_the_policy_with_up_to_a_tenth_more(policy: str, at_s: list[int]) -> None:
    broker = Broker()

    def handler(_: _Event) -> None:
        raise Retry("not now")

    trigger = broker.subscribe(handler, retry=3, backoff_delay="PT10S", backoff_policy=policy)
    _send(broker, "a")
    broker.run()
    times = [attempt.at_s for attempt in trigger.attempts]
    assert [attempt.number for attempt in trigger.attempts] == [1, 2, 3, 4]
    assert all(least <= time <= least * 1.1 for time, least in zip(times, at_s, strict=True))
    assert broker.now_s == times[-1]
    assert trigger.settled == {"a": "dead-lettered"}


def test_retry_comes_when_the_handler_asks_for_it() -> None:
    broker = Broker()
    answers = iter([Retry("wait", after_s=100.0), None])

    def handler(_: _Event) -> None:
        if (problem := next(answers)) is not None:
            raise problem

    trigger = broker.subscribe(handler, retry=1)
    _send(broker, "a")
    broker.run()
    assert [attempt.status for attempt in trigger.attempts] == [503, 204]
    assert 100 <= trigger.attempts[1].at_s <= 110


def test_rejected_event_is_a_dead_letter_at_once_and_says_why() -> None:
    broker = Broker()

    def handler(_: _Event) -> None:
        raise Reject("no such customer")

    trigger = broker.subscribe(handler, retry=5)
    broker.send(id="a", type="t", source="/s", data={"customer": 7})
    broker.run()
    assert _attempts(trigger) == [("a", 400)]
    (letter,) = broker.dead_letters
    assert letter.get_data() == {"customer": 7}
    assert letter.get_extension("knativeerrorcode") == "400"
    assert letter.get_extension("knativeerrordest") == "memory:trigger-0"
    assert len(broker.events) == 1


def test_filter_decides_before_the_handler() -> None:
    broker = Broker()
    trigger = broker.subscribe(_ignore, filter="type LIKE 'order.%'")
    _send(broker, "a", type="order.created")
    _send(broker, "b", type="invoice.created")
    broker.run()
    assert _attempts(trigger) == [("a", 204)]
    assert trigger.settled == {"a": "delivered", "b": "filtered"}


def test_reply_is_an_event_of_the_broker() -> None:
    broker = Broker()

    def price(event: _Event) -> dict[str, Any]:
        return {"id": f"r-{event.get_id()}", "type": "priced", "source": "/prices", "data": {"amount": 12}}

    received: list[_Event] = []
    broker.subscribe(price, filter="type = 't'")
    broker.subscribe(received.append, filter="type = 'priced'")
    _send(broker, "a")
    broker.run()
    assert [event.get_id() for event in broker.events] == ["a", "r-a"]
    assert [event.get_data() for event in received] == [{"amount": 12}]


def test_loop_of_replies_ends_as_in_a_worker() -> None:
    broker = Broker()
    trigger = broker.subscribe(lambda event: {"type": "t", "source": "/loop"})
    _send(broker, "a")
    broker.run()
    assert len(broker.events) == 65
    assert [letter.get_extension("knativeerrorcode") for letter in broker.dead_letters] == ["508"]
    assert not trigger.waits


def test_async_handler_sleeps_in_no_time_and_has_a_limit() -> None:
    broker = Broker()

    async def handler(event: _Event) -> None:
        await asyncio.sleep(3_600 if event.get_id() == "slow" else 10)

    trigger = broker.subscribe(handler, timeout="PT1M")
    _send(broker, "fast", "slow")
    broker.run()
    assert _attempts(trigger) == [("fast", 204), ("slow", 0)]
    assert trigger.settled == {"fast": "delivered", "slow": "dead-lettered"}
    assert broker.now_s == 70


def test_no_more_calls_are_under_way_than_the_subscription_allows() -> None:
    broker = Broker()
    under_way: list[str] = []
    most = 0

    async def handler(event: _Event) -> None:
        nonlocal most
        under_way.append(event.get_id())
        most = max(most, len(under_way))
        await asyncio.sleep(1)
        under_way.remove(event.get_id())

    broker.subscribe(handler, order="unordered", concurrency=3)
    _send(broker, *(str(number) for number in range(7)))
    broker.run()
    assert (most, broker.now_s) == (3, 3)


def test_subscriber_is_tested_with_its_memory() -> None:
    broker = Broker()
    received: list[_Event] = []
    trigger = broker.subscribe(Subscriber(received.append, remember=10, in_thread=False))
    _send(broker, "a", "a")
    broker.run()
    assert _attempts(trigger) == [("a", 204), ("a", 204)]
    assert len(received) == 1


def test_virtual_time_waits_for_a_handler_that_blocks() -> None:
    """Also for that of a Subscriber, which has threads for such handlers in a server."""
    broker = Broker()

    def handler(_: _Event) -> None:
        time.sleep(0.1)

    trigger = broker.subscribe(Subscriber(handler), timeout="PT1M")
    _send(broker, "a")
    broker.run()
    assert (_attempts(trigger), broker.now_s) == ([("a", 204)], 0)


def test_handler_may_send_and_a_later_trigger_has_later_events() -> None:
    broker = Broker()
    early, late = [], []

    def handler(event: _Event) -> None:
        early.append(event.get_id())
        if event.get_id() == "a":
            _send(broker, "from the handler")

    broker.subscribe(handler)
    _send(broker, "a")
    broker.subscribe(lambda event: late.append(event.get_id()))
    broker.run()
    _send(broker, "b")
    broker.run()
    assert early == ["a", "from the handler", "b"]
    assert late == ["from the handler", "b"]


def test_what_is_not_valid_is_named() -> None:
    broker = Broker()
    with pytest.raises(CesqlSyntaxError):
        broker.subscribe(_ignore, filter="type =")
    with pytest.raises(UsageError, match="'sorted' is not a valid DeliveryOrder"):
        broker.subscribe(_ignore, order="sorted")
    with pytest.raises(UsageError, match="'5' is not a valid ISO-8601 duration"):
        broker.subscribe(_ignore, backoff_delay="5")
    with pytest.raises(UsageError, match="would not accept the event: attribute 'type'"):
        broker.send(type="a\nb", source="/s")
    with pytest.raises(UsageError, match="source"):
        broker.send(type="t")
    assert broker.events == []


def test_what_does_not_end_is_named_after_the_limit() -> None:
    broker = Broker()

    def handler(_: _Event) -> None:
        raise OSError("away")

    broker.subscribe(handler, name="billing", retry=1000, backoff_delay="PT1H")
    _send(broker, "a")
    with pytest.raises(TimeoutError, match="Events of billing are not settled after 60 virtual seconds"):
        broker.run(limit_s=60)


@pytest.mark.asyncio
async def test_run_inside_of_a_loop_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="call it from a test that is not async"):
        Broker().run()
