"""What an attempt comes to as a whole, after the event in the answer of the subscriber."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from agents.dispatch.attempt import Request, with_reply
from knative.cloudevents.http_binding import REPLY_DEPTH
from knative.contract.records import Subscription
from knative.delivery.attempt import Outcome, Recipient
from knative.delivery.policy import Addressable
from knative.delivery.verdicts import DELIVERED, FinalFailure, Reply, RetryableFailure, Verdict
from knative.ports import Headers

SUBSCRIPTION = Subscription(
    "u", 1, "ns", "s", "c", "ch", "t", "t.dlq", 1, "g", Addressable("http://s/"), reply=Addressable("http://r/")
)
EVENT = Reply([("ce_id", b"r"), (REPLY_DEPTH, b"0")], b"key", b"value")
ORIGINAL: Headers = [("ce_id", b"1"), (REPLY_DEPTH, b"7")]


def _answered(verdict: Verdict) -> Outcome:
    return Outcome(verdict, "http://s/", 3, 100.0, 0.5, 200)


def _whole(verdict: Verdict, subscription: Subscription, stored: Verdict) -> tuple[Outcome, list[object], int]:
    """The outcome, what was posted, and how many events were dropped. The reply's destination answers `stored`."""
    posted: list[object] = []
    dropped: list[None] = []

    async def post(request: Request) -> Outcome:
        uri = request.destination.uri
        posted.append((request.recipient, uri, request.headers, request.value, request.number))
        return Outcome(stored, uri, request.number, 101.0, 0.25, 500, None, request.recipient)

    async def store(subscription: Subscription, reply: Reply, number: int) -> Outcome:
        posted.append((Recipient.REPLY, f"kafka:{subscription.topic}", reply.headers, reply.value, number))
        return Outcome(stored, f"kafka:{subscription.topic}", number, 101.0, 0.25, 500, None, Recipient.REPLY)

    outcome = asyncio.run(
        with_reply(_answered(verdict), ORIGINAL, subscription, post, store, lambda: dropped.append(None))
    )
    return outcome, posted, len(dropped)


@pytest.mark.parametrize("verdict", [DELIVERED, RetryableFailure(503, "busy"), FinalFailure(400, "no")])
def test_without_an_event_in_the_answer_nothing_is_posted(verdict: Verdict) -> None:
    assert _whole(verdict, SUBSCRIPTION, DELIVERED) == (_answered(verdict), [], 0)


@pytest.mark.parametrize("stored", [DELIVERED, EVENT])
def test_reply_that_is_taken_delivers_the_event_and_has_no_reply_itself(stored: Verdict) -> None:
    outcome, posted, dropped = _whole(EVENT, SUBSCRIPTION, stored)

    assert outcome == replace(_answered(DELIVERED), at=101.0)
    assert posted == [(Recipient.REPLY, "http://r/", [("ce_id", b"r"), (REPLY_DEPTH, b"7")], b"value", 3)]
    assert dropped == 0


@pytest.mark.parametrize("stored", [RetryableFailure(503, "busy"), FinalFailure(400, "no")])
def test_reply_that_is_not_taken_fails_the_whole_attempt(stored: Verdict) -> None:
    outcome, posted, _ = _whole(EVENT, SUBSCRIPTION, stored)

    assert len(posted) == 1
    assert outcome == Outcome(stored, "http://r/", 3, 101.0, 0.5, 200, None, Recipient.REPLY)


def test_without_a_destination_the_reply_is_dropped() -> None:
    outcome, posted, dropped = _whole(EVENT, replace(SUBSCRIPTION, reply=None), FinalFailure(400, "no"))

    assert (outcome, posted, dropped) == (_answered(DELIVERED), [], 1)
