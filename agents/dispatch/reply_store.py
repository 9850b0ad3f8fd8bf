"""Stores the reply of a Trigger's subscriber in the broker's topic: what it is stored with, and when it must not be.

A reply is an event of the broker like any other: every Trigger judges it, also the one whose subscriber sent it. So
replies can go round for ever. A record header counts how many replies led to an event; subscribers do not see it.
Deliveries to own addresses count too: see `agents/dispatch/hops`.
"""

from __future__ import annotations

from knative.cloudevents.http_binding import REPLY_DEPTH
from knative.cloudevents.trace_context import PARENT, STATE
from knative.delivery.attempt import Outcome, Recipient
from knative.delivery.verdicts import DELIVERED, REPLY_LOOP, FinalFailure, Reply, RetryableFailure, Verdict
from knative.ports import Clock, Headers, Produce, ProduceFailure, ProduceProblem
from knative.produce import send

_TRACE = (PARENT, STATE)


def depth_of(headers: Headers) -> int:
    """Returns how many replies and deliveries to own addresses led to this event."""
    text = next((content for name, content in headers if name == REPLY_DEPTH), None)
    return int(text) if text and text.isdigit() and len(text) < 10 else 0


def headers_of(reply: Reply, original: Headers) -> list[tuple[str, bytes | None]]:
    """Returns the headers to store a reply with: its own, one more reply in the chain, and the trace of the original
    event unless it has a trace of its own."""
    headers = _without_depth(reply)
    if not any(name == PARENT for name, _ in headers):
        headers = [header for header in headers if header[0] not in _TRACE]
        headers += {name.lower(): content for name, content in original if name.lower() in _TRACE}.items()
    return [*headers, (REPLY_DEPTH, b"%d" % (depth_of(original) + 1))]


def posted_headers_of(reply: Reply, original: Headers) -> list[tuple[str, bytes | None]]:
    """Returns the headers to post a reply with: its own, and what led to the original event."""
    return [*_without_depth(reply), *(header for header in original if header[0] == REPLY_DEPTH)]


def _without_depth(reply: Reply) -> list[tuple[str, bytes | None]]:
    """Subscribers cannot say how long a chain is."""
    return [(name, content) for name, content in reply.headers if name != REPLY_DEPTH]


def too_deep(original: Headers, depth_max: int) -> FinalFailure | None:
    """Returns the verdict of an event whose reply would make the chain of replies too long; None = it may be stored."""
    if depth_of(original) < depth_max:
        return None
    return FinalFailure(508, f"more than {depth_max} replies led to this event: {REPLY_LOOP}")


def verdict_of(failure: ProduceFailure | None) -> Verdict:
    """Returns what the answer of Kafka means for the delivery."""
    if failure is None:
        return DELIVERED
    reason = f"the reply was not stored: {failure.message}"
    if failure.problem is ProduceProblem.TOO_LARGE:
        return FinalFailure(413, reason)
    return RetryableFailure(503, reason)


async def store(produce: Produce, clock: Clock, topic: str, headers: Headers, reply: Reply, number: int) -> Outcome:
    """Store a reply; returns when Kafka has acknowledged it, or has not in time. `number`: of the attempt."""
    began = clock.monotonic()
    verdict = verdict_of(await send(produce, topic, reply.value, reply.key, headers))
    seconds = clock.monotonic() - began
    return Outcome(verdict, f"kafka:{topic}", number, clock.time(), seconds, recipient=Recipient.REPLY)
