"""The DLQ topic as the last to take a dead letter: tried until it does, smaller when the broker finds it too large.

Returns only when Kafka has acknowledged the letter, so that nobody settles its event before. Refuses to know what a
dead letter looks like (`agents/dispatch/dead_letters`), and to give one up: its caller may be cancelled, the event
then stays unsettled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from agents.dispatch.dead_letters import HeaderList
from agents.listeners.delivery_log import DeliveryLog
from agents.ordering.partition import Delivery
from knative.contract.records import Subscription
from knative.ports import Produce, ProduceFailure, ProduceProblem

_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 30.0


class DlqListener(Protocol):
    """Whose events they are; it may change between two tries."""

    subscription: Subscription


class DlqProducer:
    """Of one subscription. Event loop only."""

    def __init__(
        self,
        owner: DlqListener,
        produce: Produce,
        rest: Callable[[Delivery, float], Awaitable[None]],
        delivery_log: DeliveryLog,
    ) -> None:
        """`rest(record, seconds)` waits between two tries; it may be cancelled."""
        self._listener = owner
        self._produce = produce
        self._rest = rest
        self._delivery_log = delivery_log

    async def store(self, delivery: Delivery, choices: Iterable[HeaderList]) -> None:
        """Store it; `choices`: its headers, each smaller than the ones before."""
        remaining = list(choices)
        wait_s = _FIRST_WAIT_S
        told = False
        while True:
            topic = self._listener.subscription.dlq_topic
            failure = await self._store(topic, delivery, remaining[0])
            if failure is None:
                return
            if failure.problem is ProduceProblem.TOO_LARGE and len(remaining) > 1:
                remaining.pop(0)
                continue
            if not told:
                told = True
                self._delivery_log.not_stored(delivery, topic, failure.message)
            await self._rest(delivery, wait_s)
            wait_s = min(wait_s * 2, _LONGEST_WAIT_S)

    async def _store(self, topic: str, delivery: Delivery, headers: HeaderList) -> ProduceFailure | None:
        stored: asyncio.Future[ProduceFailure | None] = asyncio.get_running_loop().create_future()

        def done(failure: ProduceFailure | None) -> None:
            if not stored.done():
                stored.set_result(failure)

        self._produce.send(topic, delivery.value, delivery.key, headers, done)
        return await stored
