"""Stores dead letters in the DLQ topic: tries until Kafka acknowledges, with smaller headers if it is too large.

It returns only after the acknowledgement, so the event is not settled before. Does not give up after some tries: that
would lose the event. When its caller is cancelled, the event stays unsettled.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from agents.dispatch.dead_letters import HeaderList
from agents.offsets.partition import Delivery
from knative.backoff import doubling_s
from knative.contract.records import Subscription
from knative.ports import Produce, ProduceProblem
from knative.produce import send


class DlqListener(Protocol):
    """The subscription of the events. It may change between two tries."""

    subscription: Subscription


class DlqProducer:
    """Stores the dead letters of one subscription. Event loop only."""

    def __init__(
        self,
        owner: DlqListener,
        produce: Produce,
        rest: Callable[[Delivery, float], Awaitable[None]],
        not_stored: Callable[[Delivery, str, str], None],
    ) -> None:
        """`rest(delivery, seconds)` waits between two tries; it may be cancelled. `not_stored(delivery, topic, reason)`
        is called at the first failure."""
        self._listener = owner
        self._produce = produce
        self._rest = rest
        self._not_stored = not_stored

    async def store(self, delivery: Delivery, choices: Iterable[HeaderList]) -> None:
        """Store the dead letter. `choices`: its headers in several sizes, the largest first."""
        remaining = list(choices)
        waits_s = doubling_s(0.5, 30.0)
        reported = False
        while True:
            topic = self._listener.subscription.dlq_topic
            failure = await send(self._produce, topic, delivery.value, delivery.key, remaining[0])
            if failure is None:
                return
            if failure.problem is ProduceProblem.TOO_LARGE and len(remaining) > 1:
                remaining.pop(0)
                continue
            if not reported:
                reported = True
                self._not_stored(delivery, topic, failure.message)
            await self._rest(delivery, next(waits_s))
