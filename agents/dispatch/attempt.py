"""One attempt to deliver an event, as a coroutine: the request to the subscriber, and what to do with its reply.

    subscriber --> delivered, or failed
         | an event in the answer
         v
    `reply`, or the topic of a Trigger's broker --> has taken it: delivered; has not: the whole attempt has failed

Retries and redrive share it, so that both decide in the same way. First attempts need no coroutine unless there is a
reply: `agents/dispatch/dispatcher` makes them with callbacks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from agents.dispatch.hops import Hops, TooManyHops
from agents.dispatch.reply_store import posted_headers_of
from agents.http.pool import ConnectionPool, SendError
from knative.cloudevents.request_plan import planned_json_request, planned_request
from knative.contract.records import TRIGGER, Subscription
from knative.delivery.attempt import Outcome, Recipient
from knative.delivery.policy import Addressable, DeliveryFormat
from knative.delivery.verdicts import DELIVERED, Delivered, Reply, SendProblem, Verdict, decide, decide_error
from knative.ports import Clock, Headers


@dataclass(frozen=True, slots=True)
class Request:
    """One event on its way to one destination."""

    recipient: Recipient
    destination: Addressable
    subscription: Subscription
    headers: Headers
    value: bytes | None
    number: int  #: of the attempt, from 1


#: Makes one request.
Post = Callable[[Request], Awaitable[Outcome]]

#: Stores a reply in the topic of the subscription's broker: the subscription, the reply, number of the attempt.
Store = Callable[[Subscription, Reply, int], Awaitable[Outcome]]


async def post(pool: ConnectionPool, clock: Clock, hops: Hops, request: Request) -> Outcome:
    """Make one request over the pool of its destination. Raises Unreadable if the record is not a CloudEvent."""
    subscription, recipient = request.subscription, request.recipient
    structured = recipient is Recipient.SUBSCRIBER and subscription.delivery.format is DeliveryFormat.JSON
    make = hops.counted(planned_json_request if structured else planned_request, request.destination)
    url, number = request.destination.shown_uri, request.number
    try:
        data = make(pool.prefix(subscription.namespace), request.headers, request.value)
    except TooManyHops as end:
        return Outcome(end.verdict, url, number, clock.time(), 0.0, end.verdict.code, recipient=recipient)
    answer: asyncio.Future[tuple[Verdict, int, SendProblem | None]] = asyncio.get_running_loop().create_future()

    def done(status: int | SendError, pairs: list[tuple[bytes, bytes]] | None, body: bytes) -> None:
        if answer.done():  # cancelled meanwhile
            return
        if isinstance(status, SendError):
            answer.set_result((decide_error(status.problem, status.message), 0, status.problem))
        else:
            answer.set_result((decide(status, pairs, body), status, None))

    began = clock.monotonic()
    pool.post(data, subscription.delivery.timeout_s, done)
    try:
        verdict, status, problem = await answer
    except asyncio.CancelledError:
        pool.abort(lambda other: other is done)  # the answer has no use any more
        raise
    seconds = clock.monotonic() - began
    return Outcome(verdict, url, number, clock.time(), seconds, status, problem, recipient)


async def with_reply(
    outcome: Outcome,
    original: Headers,
    subscription: Subscription,
    post: Post,
    store: Store,
    dropped: Callable[[], None],
) -> Outcome:
    """Returns the outcome of the whole attempt; `outcome` is what the subscriber answered to the event with the headers
    `original`. Only this function decides where an event in its answer goes: a Trigger's into the broker's topic, a
    Subscription's to `reply`, and without one it is `dropped`."""
    reply = outcome.verdict
    if not isinstance(reply, Reply):
        return outcome
    if subscription.kind == TRIGGER:
        stored = await store(subscription, reply, outcome.attempts)
    elif subscription.reply is None:
        dropped()
        return replace(outcome, verdict=DELIVERED)
    else:
        headers, attempts = posted_headers_of(reply, original), outcome.attempts
        stored = await post(Request(Recipient.REPLY, subscription.reply, subscription, headers, reply.value, attempts))
    # An event in the answer of `reply` is not posted again: a reply has no reply.
    if isinstance(stored.verdict, Delivered | Reply):
        return replace(outcome, verdict=DELIVERED, at=stored.at)
    return replace(
        outcome, verdict=stored.verdict, destination=stored.destination, at=stored.at, recipient=Recipient.REPLY
    )
