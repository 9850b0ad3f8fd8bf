"""The retry path: everything that happens to a delivery whose first attempt did not simply succeed.

    first outcome --> retryable? hold the lane, wait (attempts committed first), try again --+
         |                                                                                   |
         |<----------------------------------------------------------------------------------+
         v
    reply? store it at `reply`, or the whole delivery has failed
    failed permanently? dead letter sink -> DLQ topic, until one of them has taken it
         v
    settled

Each delivery on this path has a task; those on the happy path have none. Does not settle a dead letter before it is
acknowledged: while neither sink nor DLQ topic takes it, the event stays unsettled and holds the committable offset.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from agents.dispatch.attempt import Request, post, with_reply
from agents.dispatch.context import RetryContext
from agents.dispatch.dead_letters import HeaderList, unreadable_versions, versions
from agents.dispatch.dlq_producer import DlqProducer
from agents.dispatch.hops import Hops
from agents.dispatch.reply_store import headers_of, store, too_deep
from agents.dispatch.retrying import Caps, rest_s, until_settled
from agents.listeners.base import Hooks
from agents.offsets.partition import Delivery, PartitionState
from knative.contract.records import Subscription
from knative.delivery.attempt import Outcome, Recipient, Settled, Settlement
from knative.delivery.policy import DeliverySpec, OnRetriesExhausted
from knative.delivery.verdicts import DELIVERED, Delivered, FinalFailure, Reply, SendProblem
from knative.ports import Clock, Produce

#: What a task of the retry path does until its delivery is settled.
Work = Coroutine[Any, Any, Settlement]


class _GivenUp(Exception):
    """The request was given up, because the subscription has another destination now. It does not count."""


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
        self._dlq = DlqProducer(context, produce, self._rest, hooks.not_stored)
        self._clock = clock
        self._caps = caps
        self._tasks: dict[Delivery, asyncio.Task[None]] = {}
        self._holding: set[Delivery] = set()  # these only wait, so `release` may cancel them
        self._until: dict[Delivery, float] = {}  # loop time before which no slot is requested

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
        self._begin(delivery, self._unreadable(delivery, reason), slot=True)

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
            self._holding.discard(delivery)
            self._until.pop(delivery, None)

    def _settle(self, delivery: Delivery, settlement: Settlement) -> None:
        failed = delivery.partition.tracker.attempts.get(delivery.offset, 0)  # before `settle` forgets it
        age_s = self._clock.time() - delivery.timestamp_ms * 0.001
        self._context.scheduler.settle(delivery)
        self._context.schedule_commit()
        self._hooks.settled(delivery, settlement, age_s, failed)

    # -- ends

    def release(self, partitions: Iterable[PartitionState]) -> None:
        """Cancel the deliveries of these partitions that only wait: the offset tracker has their attempts."""
        going = set(partitions)
        for delivery in [delivery for delivery in self._holding if delivery.partition in going]:
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
        try:
            outcome = await self._with_reply(delivery, outcome)
        except _GivenUp:
            return await self._again(delivery)
        except BaseException:
            self._context.scheduler.attempt_over(delivery)
            raise
        self._context.scheduler.attempt_over(delivery)
        return await self._retry(delivery, outcome)

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
        await self._hold(delivery, rest_s(due, self._clock.time(), self._context.subscription.delivery, self._caps))
        return await self._retry(delivery, await self._attempt(delivery))

    async def _retry(self, delivery: Delivery, first: Outcome) -> Settlement:
        failures: list[float] = []

        def note(outcome: Outcome, wait_s: float) -> None:
            failures.append(outcome.at)
            delivery.partition.tracker.failed(delivery.offset, outcome.attempts, outcome.at + wait_s)
            self._hooks.failed(delivery, outcome, wait_s)

        async def hold(wait_s: float) -> None:
            await self._hold(delivery, wait_s)

        # Functions and not values: the contract may change subscriber and policy between two attempts.
        last = await until_settled(
            first,
            lambda: self._attempt(delivery),
            spec=lambda: self._context.subscription.delivery,
            hold=hold,
            failed=note,
            caps=self._caps,
        )
        if isinstance(last.verdict, Delivered):
            return Settlement(Settled.DELIVERED, last)
        delivery.partition.tracker.failed(delivery.offset, last.attempts)
        self._hooks.failed(delivery, last, None)
        return await self._dead_letter(delivery, last, failures[0] if failures else last.at)

    async def _hold(self, delivery: Delivery, wait_s: float) -> None:
        """Set the time of the next attempt, and wait until the attempts so far are committed. Holds the lane, no slot.

        `_slot` waits for the time itself, together with the slot. If each task slept here, thousands of deliveries that
        are due at once would wake as many tasks in one turn of the loop.
        """
        self._until[delivery] = asyncio.get_running_loop().time() + wait_s
        self._holding.add(delivery)
        # `release` has already cancelled those that were holding; one that begins to hold after it must end by itself.
        if not delivery.partition.open:
            raise asyncio.CancelledError("the partition is being released")
        await self._context.barrier(delivery.partition)

    async def _attempt(self, delivery: Delivery) -> Outcome:
        """Make one more attempt: get a slot, send the request, and store the reply if there is one."""
        while True:
            with suppress(_GivenUp):
                async with self._slot(delivery):
                    return await self._try(delivery)

    async def _try(self, delivery: Delivery) -> Outcome:
        if not self._context.wants(delivery):
            raise _FilteredOut
        self._hooks.trying(delivery)
        subscription = self._context.subscription
        attempts = delivery.partition.tracker.attempts.get(delivery.offset, 0) + 1
        to, headers = subscription.subscriber, delivery.headers
        request = Request(Recipient.SUBSCRIBER, to, subscription, headers, delivery.value, attempts)
        return await self._with_reply(delivery, await self._post(delivery, request))

    @asynccontextmanager
    async def _slot(self, delivery: Delivery) -> AsyncIterator[None]:
        """Hold one of the subscription's slots, once the next attempt is due. Retries come before first attempts.

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
        self._holding.discard(delivery)  # from here a request is in flight: a drain waits for it
        try:
            yield
        finally:
            scheduler.attempt_over(delivery)

    def _ask_for_slot(self, delivery: Delivery, granted: Callable[[], None]) -> None:
        try:
            self._context.scheduler.retry(delivery, granted)
        except Exception as problem:  # the loop only logs what a timer raises
            self._context.fatal(problem)

    async def _post(self, delivery: Delivery, request: Request) -> Outcome:
        hooks, pool = self._hooks, self._context.pool(request.destination)
        if hooks.request is not None:
            headers = hooks.request(delivery, request.destination.shown, request.number, request.headers)
            request = replace(request, headers=headers)
        try:
            outcome = await post(pool, self._clock, self._hops, request)
        except asyncio.CancelledError:
            hooks.aborted(delivery)
            raise
        if outcome.problem is SendProblem.GIVEN_UP:
            hooks.aborted(delivery)
            raise _GivenUp
        hooks.attempt(delivery, outcome)
        return outcome

    async def _with_reply(self, delivery: Delivery, outcome: Outcome) -> Outcome:
        """Returns the outcome of the whole attempt, after the answer of the subscriber."""
        outcome = await with_reply(
            outcome,
            delivery.headers,
            self._context.subscription,
            partial(self._post, delivery),
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

    # -- dead letters

    async def _dead_letter(self, delivery: Delivery, outcome: Outcome, first_failure: float) -> Settlement:
        self._context.scheduler.dead_letter(delivery)
        subscription = self._context.subscription
        choices = versions(delivery, subscription, outcome, first_failure)
        taken_by = await self._to_sink(delivery, choices[0])
        if taken_by is not None:
            return Settlement(Settled.DEAD_LETTERED, outcome, taken_by)
        if self._context.subscription.exhausted is OnRetriesExhausted.IGNORE:
            return Settlement(Settled.IGNORED, outcome)
        await self._dlq.store(delivery, choices)
        return Settlement(Settled.DEAD_LETTERED, outcome, subscription.dlq_topic)

    async def _unreadable(self, delivery: Delivery, reason: str) -> Settlement:
        self._context.scheduler.dead_letter(delivery)
        self._context.scheduler.attempt_over(delivery)
        subscription = self._context.subscription
        await self._dlq.store(delivery, unreadable_versions(delivery, subscription, reason, self._clock.time()))
        return Settlement(Settled.DEAD_LETTERED, to=subscription.dlq_topic, reason=reason)

    async def _to_sink(self, delivery: Delivery, headers: HeaderList) -> str | None:
        """POST to the dead letter sink by the subscription's retry policy, as both are at each attempt. Returns the URL
        that accepted it; None when there is no sink or it did not accept it."""
        made = 0

        async def attempt() -> Outcome:
            nonlocal made
            made += 1
            while self._context.subscription.delivery.dead_letter_sink is not None:
                with suppress(_GivenUp):
                    async with self._slot(delivery):
                        # Only now: the contract may change while it waits for the slot.
                        subscription, value = self._context.subscription, delivery.value
                        if (sink := subscription.delivery.dead_letter_sink) is not None:
                            request = Request(Recipient.DEAD_LETTER_SINK, sink, subscription, headers, value, made)
                            return await self._post(delivery, request)
            return Outcome(FinalFailure(500, "there is no dead letter sink", b""), "", made, self._clock.time(), 0)

        def note(outcome: Outcome, wait_s: float) -> None:
            self._hooks.failed(delivery, outcome, wait_s)

        async def hold(wait_s: float) -> None:
            await self._rest(delivery, wait_s)

        def spec() -> DeliverySpec:
            return self._context.subscription.delivery

        last = await until_settled(await attempt(), attempt, spec=spec, hold=hold, failed=note, caps=self._caps)
        return last.destination if isinstance(last.verdict, Delivered | Reply) else None

    async def _rest(self, delivery: Delivery, wait_s: float) -> None:
        """Wait between two tries of a dead letter. Ends at once if the partition is or was released."""
        self._holding.add(delivery)
        if not delivery.partition.open:
            raise asyncio.CancelledError("the partition is being released")
        await asyncio.sleep(wait_s)
        self._holding.discard(delivery)
