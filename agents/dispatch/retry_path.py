"""The retry path: everything that happens to a delivery whose first attempt did not simply succeed.

    first outcome --> retryable? hold the lane, wait (attempts committed first), try again --+
         |                                                                                   |
         |<----------------------------------------------------------------------------------+
         v
    reply? store it at `reply`, or the whole delivery has failed
    failed permanently? a dead letter (`agents/dispatch/dead_letter_path`)
         v
    settled

Each delivery on this path has a task; those on the happy path have none. A dead letter is not settled before it is
acknowledged: while neither sink nor DLQ topic takes it, the event stays unsettled and holds the committable offset.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from agents.dispatch.attempt import Request, with_reply
from agents.dispatch.context import RetryContext
from agents.dispatch.dead_letter_path import DeadLetterPath
from agents.dispatch.further_requests import FurtherRequests, GivenUp
from agents.dispatch.hops import Hops
from agents.dispatch.reply_store import headers_of, store, too_deep
from agents.dispatch.retrying import Caps, rest_s, until_settled
from agents.listeners.base import Hooks
from agents.offsets.partition import Delivery, PartitionState
from knative.contract.records import Subscription
from knative.delivery.attempt import Outcome, Recipient, Settled, Settlement
from knative.delivery.verdicts import DELIVERED, Delivered, Reply
from knative.ports import Clock, Produce

#: What a task of the retry path does until its delivery is settled.
Work = Coroutine[Any, Any, Settlement]


class _FilteredOut(Exception):
    """The filter has changed, and the event that waited for its retry does not pass any more."""


class RetryPath:
    """The retry path of one subscription. Event loop only."""

    def __init__(
        self, context: RetryContext, hooks: Hooks, produce: Produce, clock: Clock, caps: Caps, hops: Hops
    ) -> None:
        self._context = context
        self._produce = produce
        self._hops = hops
        self._hooks = hooks
        self._clock = clock
        self._caps = caps
        self._requests = FurtherRequests(context, hooks, clock, hops)
        self._dead_letters = DeadLetterPath(context, hooks, produce, clock, caps, self._requests)
        self._tasks: dict[Delivery, asyncio.Task[None]] = {}

    # -- entries; the delivery holds a slot

    def failed(self, delivery: Delivery, outcome: Outcome) -> None:
        """The first attempt in this process has failed."""
        self._context.scheduler.judged(False)
        self._context.scheduler.attempt_over(delivery)
        if delivery.partition.owned:
            self._begin(delivery, self._retry(delivery, outcome))
        else:
            self._leave(delivery)

    def inherited(self, delivery: Delivery) -> None:
        """An earlier owner of the partition has attempted it, and the next attempt may not be due yet."""
        self._context.scheduler.release_slot(delivery)
        self._begin(delivery, self._take_up(delivery))

    def given_up(self, delivery: Delivery) -> None:
        """The first attempt had no answer when the subscription got another destination."""
        self._begin(delivery, self._again(delivery), slot=True)

    def replied(self, delivery: Delivery, outcome: Outcome) -> None:
        """The first attempt was answered with an event."""
        if not delivery.partition.owned:
            self._context.scheduler.attempt_over(delivery)
            self._leave(delivery)
            return
        self._begin(delivery, self._reply_first(delivery, outcome), slot=True)

    def not_sent(self, delivery: Delivery, outcome: Outcome) -> None:
        """The first attempt in this process has failed without a request."""
        self._begin(delivery, self._not_sent(delivery, outcome), slot=True)

    def unreadable(self, delivery: Delivery, reason: str) -> None:
        """The record is not a valid CloudEvent."""
        self._begin(delivery, self._dead_letters.take_unreadable(delivery, reason), slot=True)

    def _leave(self, delivery: Delivery) -> None:
        """Abandon it: the partition went to another owner, who reads the record again."""
        self._context.scheduler.abandon(delivery)
        self._hooks.abandoned(delivery)

    def _begin(self, delivery: Delivery, work: Work, *, slot: bool = False) -> None:
        """Run `work` as a task. `slot`: the delivery still holds its slot, and `work` releases it."""
        task = asyncio.get_running_loop().create_task(self._run(delivery, work))
        self._tasks[delivery] = task
        task.add_done_callback(lambda _: self._never_began(delivery, work, slot))

    def _never_began(self, delivery: Delivery, work: Work, slot: bool) -> None:
        """Clean up after a task that was cancelled before its first step: not even its `finally` has run.

        Without this, the slot and the lane would stay taken for ever.
        """
        # `_run` removes the delivery from `_tasks` when it ends, so only a task that never began is still there.
        if self._tasks.pop(delivery, None) is None:
            return
        work.close()  # or Python warns that the coroutine was never awaited
        if slot:
            self._context.scheduler.attempt_over(delivery)
        self._leave(delivery)

    async def _run(self, delivery: Delivery, work: Work) -> None:
        settlement: Settlement | None = None
        try:
            try:
                settlement = await work
            except _FilteredOut:
                settlement = Settlement(Settled.FILTERED)
            self._settle(delivery, settlement)
        except asyncio.CancelledError:
            self._leave(delivery)
        except Exception as problem:  # a bug: the process ends, and nothing more is committed
            if settlement is None:
                self._leave(delivery)
            self._context.fatal(problem)
        finally:
            self._tasks.pop(delivery, None)
            self._requests.forget(delivery)

    def _settle(self, delivery: Delivery, settlement: Settlement) -> None:
        failed = delivery.partition.tracker.attempts.get(delivery.offset, 0)  # before `settle` forgets it
        age_s = self._clock.time() - delivery.timestamp_ms * 0.001
        self._context.scheduler.settle(delivery)
        self._context.schedule_commit()
        self._hooks.settled(delivery, settlement, age_s, failed)

    # -- ends

    def release(self, partitions: Iterable[PartitionState]) -> None:
        """Cancel the deliveries of these partitions that only wait: the offset tracker has their attempts."""
        for delivery in self._requests.waiting(set(partitions)):
            self._tasks[delivery].cancel()

    def busy(self, partitions: Iterable[PartitionState]) -> bool:
        """Returns whether a delivery of these partitions is under way."""
        going = set(partitions)
        return any(delivery.partition in going for delivery in self._tasks)

    def cancel(self, partitions: Iterable[PartitionState]) -> None:
        """Cancel all deliveries of these partitions."""
        going = set(partitions)
        for delivery, task in list(self._tasks.items()):
            if delivery.partition in going:
                task.cancel()

    # -- the path

    async def _reply_first(self, delivery: Delivery, outcome: Outcome) -> Settlement:
        first: Outcome | None = None
        try:
            with suppress(GivenUp):
                first = await self._with_reply(delivery, outcome)
        finally:
            self._context.scheduler.attempt_over(delivery)
        return await self._retry(delivery, first or await self._attempt(delivery))

    async def _again(self, delivery: Delivery) -> Settlement:
        self._context.scheduler.attempt_over(delivery)
        return await self._retry(delivery, await self._attempt(delivery))

    async def _not_sent(self, delivery: Delivery, outcome: Outcome) -> Settlement:
        self._context.scheduler.attempt_over(delivery)
        return await self._retry(delivery, outcome)

    async def _take_up(self, delivery: Delivery) -> Settlement:
        tracker = delivery.partition.tracker
        due = tracker.due[delivery.offset]
        # The wait that was left continues, so a rebalance neither shortens nor restarts it.
        self._hooks.inherited(delivery, tracker.attempts[delivery.offset], due)
        wait_s = rest_s(due, self._clock.time(), self._context.subscription.delivery, self._caps)
        await self._requests.hold(delivery, wait_s)
        return await self._retry(delivery, await self._attempt(delivery))

    async def _retry(self, delivery: Delivery, first: Outcome) -> Settlement:
        failures: list[float] = []

        def note(outcome: Outcome, wait_s: float) -> None:
            failures.append(outcome.at)
            delivery.partition.tracker.failed(delivery.offset, outcome.attempts, outcome.at + wait_s)
            self._hooks.failed(delivery, outcome, wait_s)

        # Functions and not values: the contract may change subscriber and policy between two attempts.
        last = await until_settled(
            first,
            lambda: self._attempt(delivery),
            spec=lambda: self._context.subscription.delivery,
            hold=partial(self._requests.hold, delivery),
            failed=note,
            caps=self._caps,
        )
        if isinstance(last.verdict, Delivered):
            return Settlement(Settled.DELIVERED, last)
        delivery.partition.tracker.failed(delivery.offset, last.attempts)
        self._hooks.failed(delivery, last, None)
        return await self._dead_letters.take(delivery, last, failures[0] if failures else last.at)

    async def _attempt(self, delivery: Delivery) -> Outcome:
        """Make one more attempt: get a slot, send the request, and store the reply if there is one."""
        return await self._requests.in_slot(delivery, partial(self._try, delivery))

    async def _try(self, delivery: Delivery) -> Outcome:
        if not self._context.wants(delivery):
            raise _FilteredOut
        self._hooks.trying(delivery)
        subscription = self._context.subscription
        attempts = delivery.partition.tracker.attempts.get(delivery.offset, 0) + 1
        to, headers = subscription.subscriber, delivery.headers
        request = Request(Recipient.SUBSCRIBER, to, subscription, headers, delivery.value, attempts)
        return await self._with_reply(delivery, await self._requests.post(delivery, request))

    async def _with_reply(self, delivery: Delivery, outcome: Outcome) -> Outcome:
        """Returns the outcome of the whole attempt, after the answer of the subscriber."""
        outcome = await with_reply(
            outcome,
            delivery.headers,
            self._context.subscription,
            partial(self._requests.post, delivery),
            partial(self._store_reply, delivery),
            partial(self._hooks.reply_dropped, delivery),
        )
        self._context.scheduler.judged(isinstance(outcome.verdict, Delivered))
        return outcome

    async def _store_reply(self, delivery: Delivery, subscription: Subscription, reply: Reply, number: int) -> Outcome:
        loop = too_deep(delivery.headers, self._hops.depth_max)
        if loop is not None:
            return Outcome(loop, f"kafka:{subscription.topic}", number, self._clock.time(), 0.0, loop.code)
        headers = headers_of(reply, delivery.headers)
        outcome = await store(self._produce, self._clock, subscription.topic, headers, reply, number)
        if outcome.verdict is DELIVERED:
            self._hooks.reply_stored(delivery, headers, len(reply.value or b""))
        return outcome
