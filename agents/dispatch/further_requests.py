"""Requests after the first one, of retries and dead letters: waits until one is due, gets it a slot, and makes it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace

from agents.dispatch.attempt import Request, post
from agents.dispatch.context import RetryContext
from agents.dispatch.hops import Hops
from agents.listeners.base import Hooks
from agents.offsets.partition import Delivery, PartitionState
from knative.delivery.attempt import Outcome
from knative.delivery.verdicts import SendProblem
from knative.ports import Clock


class GivenUp(Exception):
    """The request was given up, because the subscription has another destination now. It does not count."""


class FurtherRequests:
    """Those of one subscription. Event loop only."""

    def __init__(self, context: RetryContext, hooks: Hooks, clock: Clock, hops: Hops) -> None:
        self._context = context
        self._hooks = hooks
        self._clock = clock
        self._hops = hops
        self._waiting: set[Delivery] = set()
        self._until: dict[Delivery, float] = {}  # loop time before which no slot is requested

    def waiting(self, partitions: Collection[PartitionState]) -> list[Delivery]:
        """Returns the deliveries of these partitions that only wait, so that they may be cancelled."""
        return [delivery for delivery in self._waiting if delivery.partition in partitions]

    def forget(self, delivery: Delivery) -> None:
        """The delivery has ended."""
        self._waiting.discard(delivery)
        self._until.pop(delivery, None)

    async def hold(self, delivery: Delivery, wait_s: float) -> None:
        """Set the time of the next attempt, and wait until the attempts so far are committed. Holds the lane, no slot.

        `_slot` waits for the time itself, together with the slot. If each task slept here, thousands of deliveries that
        are due at once would wake as many tasks in one turn of the loop.
        """
        self._until[delivery] = asyncio.get_running_loop().time() + wait_s
        self._begin_wait(delivery)
        await self._context.barrier(delivery.partition)

    async def rest(self, delivery: Delivery, wait_s: float) -> None:
        """Wait between two tries of a dead letter. Ends at once if the partition is or was released."""
        self._begin_wait(delivery)
        await asyncio.sleep(wait_s)
        self._waiting.discard(delivery)

    def _begin_wait(self, delivery: Delivery) -> None:
        self._waiting.add(delivery)
        # A release has already cancelled those that waited; one that begins to wait after it must end by itself.
        if not delivery.partition.open:
            raise asyncio.CancelledError("the partition is being released")

    async def in_slot(self, delivery: Delivery, attempt: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """Call `attempt` with one of the subscription's slots, in another slot again if its request was given up."""
        while True:
            await self._slot(delivery)
            try:
                return await attempt()
            except GivenUp:
                continue
            finally:
                self._context.scheduler.attempt_over(delivery)

    async def _slot(self, delivery: Delivery) -> None:
        """Get a slot, once the next attempt is due. Retries come before first attempts.

        A timer and a callback lead to the slot, so the task is woken once. Cancellation can come at three moments:
        while the timer runs, while the scheduler has the request, and after the slot was granted but before it runs.
        """
        scheduler, loop = self._context.scheduler, asyncio.get_running_loop()
        slot: asyncio.Future[None] = loop.create_future()

        def granted() -> None:
            if slot.done():  # the task was cancelled in this turn and has not run yet: it will not release the slot
                scheduler.release_slot(delivery)
            else:
                slot.set_result(None)

        due: asyncio.TimerHandle | None = None
        if (until := self._until.pop(delivery, 0.0)) > loop.time():
            due = loop.call_at(until, self._ask_for_slot, delivery, granted)
        else:
            scheduler.retry(delivery, granted)
        try:
            await slot
        except asyncio.CancelledError:
            if due is not None:
                due.cancel()
            if slot.done() and not slot.cancelled():
                scheduler.attempt_over(delivery)  # granted in the same turn: give it back
            else:
                scheduler.cancel_retry(delivery)  # does nothing if the timer had not fired
            raise
        self._waiting.discard(delivery)  # from here a request is in flight: a drain waits for it

    def _ask_for_slot(self, delivery: Delivery, granted: Callable[[], None]) -> None:
        try:
            self._context.scheduler.retry(delivery, granted)
        except Exception as problem:  # the loop only logs what a timer raises
            self._context.fatal(problem)

    async def post(self, delivery: Delivery, request: Request) -> Outcome:
        """Make one request. Raises GivenUp."""
        hooks, pool = self._hooks, self._context.pool(request.destination)
        if hooks.request is not None:
            headers = hooks.request(delivery, request.destination.shown_uri, request.number, request.headers)
            request = replace(request, headers=headers)
        try:
            outcome = await post(pool, self._clock, self._hops, request)
        except asyncio.CancelledError:
            hooks.aborted(delivery)
            raise
        if outcome.problem is SendProblem.GIVEN_UP:
            hooks.aborted(delivery)
            raise GivenUp
        hooks.attempt(delivery, outcome)
        return outcome
