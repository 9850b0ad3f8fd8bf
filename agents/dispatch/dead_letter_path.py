"""The path of a dead letter: the dead letter sink, and if that does not accept it, the DLQ topic.

It returns only when one of them has taken the dead letter, so the event is not settled before. Does not give up the
DLQ topic after some tries: that would lose the event. When its caller is cancelled, the event stays unsettled.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from agents.dispatch.attempt import Request
from agents.dispatch.context import RetryContext
from agents.dispatch.dead_letters import HeaderList, unreadable_versions, versions
from agents.dispatch.further_requests import FurtherRequests
from agents.dispatch.retrying import Caps, until_settled
from agents.listeners.base import Hooks
from agents.offsets.partition import Delivery
from knative.backoff import doubling_s
from knative.delivery.attempt import Outcome, Recipient, Settled, Settlement
from knative.delivery.policy import OnRetriesExhausted
from knative.delivery.verdicts import Delivered, FinalFailure, Reply
from knative.ports import Clock, Produce, ProduceProblem
from knative.produce import send


class DeadLetterPath:
    """The path of one subscription's dead letters. Event loop only."""

    def __init__(
        self, context: RetryContext, hooks: Hooks, produce: Produce, clock: Clock, caps: Caps, requests: FurtherRequests
    ) -> None:
        self._context = context
        self._hooks = hooks
        self._produce = produce
        self._clock = clock
        self._caps = caps
        self._requests = requests

    async def take(self, delivery: Delivery, outcome: Outcome, first_failure: float) -> Settlement:
        """Take an event that has failed permanently. It holds no slot."""
        self._context.scheduler.dead_letter(delivery)
        choices = versions(delivery, self._context.subscription, outcome, first_failure)
        taken_by = await self._to_sink(delivery, choices[0])
        if taken_by is None:
            if self._context.subscription.exhausted is OnRetriesExhausted.IGNORE:
                return Settlement(Settled.IGNORED, outcome)
            taken_by = await self._to_topic(delivery, choices)
        return Settlement(Settled.DEAD_LETTERED, outcome, taken_by)

    async def take_unreadable(self, delivery: Delivery, reason: str) -> Settlement:
        """Take a record that is not a valid CloudEvent. It holds a slot, which this releases."""
        self._context.scheduler.dead_letter(delivery)
        self._context.scheduler.attempt_over(delivery)
        choices = unreadable_versions(delivery, self._context.subscription, reason, self._clock.time())
        return Settlement(Settled.DEAD_LETTERED, to=await self._to_topic(delivery, choices), reason=reason)

    async def _to_sink(self, delivery: Delivery, headers: HeaderList) -> str | None:
        """POST to the dead letter sink by the subscription's retry policy, as both are at each attempt. Returns the URL
        that accepted it; None when there is no sink or it did not accept it."""
        if self._context.subscription.delivery.dead_letter_sink is None:
            return None
        made = 0

        async def attempt() -> Outcome:
            nonlocal made
            made += 1
            return await self._requests.in_slot(delivery, partial(self._try, delivery, headers, made))

        last = await until_settled(
            await attempt(),
            attempt,
            spec=lambda: self._context.subscription.delivery,
            hold=partial(self._requests.rest, delivery),
            failed=partial(self._hooks.failed, delivery),
            caps=self._caps,
        )
        return last.destination if isinstance(last.verdict, Delivered | Reply) else None

    async def _try(self, delivery: Delivery, headers: HeaderList, number: int) -> Outcome:
        subscription = self._context.subscription  # only now: the contract may change while it waits for the slot
        sink = subscription.delivery.dead_letter_sink
        if sink is None:
            verdict = FinalFailure(500, "there is no dead letter sink", b"")
            return Outcome(verdict, "", number, self._clock.time(), 0)
        request = Request(Recipient.DEAD_LETTER_SINK, sink, subscription, headers, delivery.value, number)
        return await self._requests.post(delivery, request)

    async def _to_topic(self, delivery: Delivery, choices: Iterable[HeaderList]) -> str:
        """Store it in the DLQ topic, with smaller headers if it is too large, and return the topic. `choices`: its
        headers in several sizes, the largest first."""
        remaining = list(choices)
        waits_s = doubling_s(0.5, 30.0)
        reported = False
        while True:
            topic = self._context.subscription.dlq_topic
            failure = await send(self._produce, topic, delivery.value, delivery.key, remaining[0])
            if failure is None:
                return topic
            if failure.problem is ProduceProblem.TOO_LARGE and len(remaining) > 1:
                remaining.pop(0)
                continue
            if not reported:
                reported = True
                self._hooks.not_stored(delivery, topic, failure.message)
            await self._requests.rest(delivery, next(waits_s))
