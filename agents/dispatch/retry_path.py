"""The retry path: everything that happens to a delivery whose first attempt did not simply succeed.

    first outcome --> retryable? hold the lane, wait (attempts committed first), try again --+
         |                                                                                   |
         |<----------------------------------------------------------------------------------+
         v
    reply? store it at `reply`, or the whole delivery has failed
    failed for good? dead letter sink -> DLQ topic, until one of them has taken it
         v
    settled

Each delivery on this path has a task; those on the happy path have none. Does not settle a dead letter before it is
acknowledged: while neither sink nor DLQ topic takes it, the event stays unsettled and holds the committable offset.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any

from agents.dispatch.context import RetryContext
from agents.dispatch.dead_letters import HeaderList, unreadable_versions, versions
from agents.dispatch.dlq_producer import DlqProducer
from agents.dispatch.retrying import Caps, rest_s, until_settled
from agents.http.pool import SendError
from agents.listeners.delivery_log import DeliveryLog
from agents.listeners.failures import Failures
from agents.ordering.partition import Delivery, PartitionState
from knative.cloudevents.kafka_binding import to_request
from knative.contract.records import Subscription
from knative.delivery.attempt import Outcome, Settled
from knative.delivery.policy import Addressable, DeliverySpec, OnRetriesExhausted
from knative.delivery.verdicts import DELIVERED, Delivered, FinalFailure, Reply, Verdict, decide, decide_error
from knative.ports import Clock, Observe, Produce
from knative.tracing import ABANDONED


class RetryPath:
    """The retry path of one subscription. Event loop only."""

    def __init__(
        self, context: RetryContext, produce: Produce, observe: Observe, clock: Clock, caps: Caps, failures: Failures
    ) -> None:
        self._context = context
        self.delivery_log = DeliveryLog(context.subscription.label)
        self._dlq = DlqProducer(context, produce, self._rest, self.delivery_log)
        self._observe = observe
        self._clock = clock
        self._caps = caps
        self._failures = failures
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

    def replied(self, delivery: Delivery, outcome: Outcome) -> None:
        """The first attempt was answered with an event."""
        if not delivery.partition.owned:
            self._context.scheduler.attempt_over(delivery)
            self._leave(delivery)
            return
        self._begin(delivery, self._reply_first(delivery, outcome), slot=True)

    def unreadable(self, delivery: Delivery, reason: str) -> None:
        """The record is not a valid CloudEvent."""
        self._begin(delivery, self._unreadable(delivery, reason), slot=True)

    def _leave(self, delivery: Delivery) -> None:
        """Abandon it: the partition went to another owner, who reads the record again."""
        self._context.scheduler.abandon(delivery)
        self._context.spans.settled(delivery, ABANDONED)

    def _begin(self, delivery: Delivery, work: Coroutine[Any, Any, Settled], *, slot: bool = False) -> None:
        """Run `work` as a task. `slot`: the delivery still holds its slot, and `work` releases it."""
        task = asyncio.get_running_loop().create_task(self._run(delivery, work))
        self._tasks[delivery] = task
        task.add_done_callback(lambda _: self._never_began(delivery, work, slot))

    def _never_began(self, delivery: Delivery, work: Coroutine[Any, Any, Settled], slot: bool) -> None:
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

    async def _run(self, delivery: Delivery, work: Coroutine[Any, Any, Settled]) -> None:
        scheduler = self._context.scheduler
        verdict: str = ABANDONED
        try:
            verdict = settled = await work
        except asyncio.CancelledError:
            scheduler.abandon(delivery)
        except Exception as problem:  # a bug: the process ends, and the event stays unsettled
            scheduler.abandon(delivery)
            self._context.fatal(problem)
        else:
            failed = delivery.partition.tracker.attempts.get(delivery.offset, 0)  # before `settle` forgets it
            scheduler.settle(delivery)
            self._context.schedule_commit()
            self._failures.over(delivery, settled)
            self._context.settled(delivery, settled, failed)
        finally:
            self._failures.over(delivery)
            self._tasks.pop(delivery, None)
            self._holding.discard(delivery)
            self._until.pop(delivery, None)
            self._context.spans.settled(delivery, verdict)

    # -- ends

    def release(self, partitions: Iterable[PartitionState]) -> None:
        """Cancel the deliveries of these partitions that only wait: the offset tracker has their attempts."""
        going = set(partitions)
        for delivery in [delivery for delivery in self._holding if delivery.partition in going]:
            self._tasks[delivery].cancel()

    def busy(self, partitions: Iterable[PartitionState]) -> bool:
        """True while a delivery of these partitions is under way."""
        going = set(partitions)
        return any(delivery.partition in going for delivery in self._tasks)

    def cancel(self, partitions: Iterable[PartitionState]) -> None:
        """Cancel all deliveries of these partitions."""
        going = set(partitions)
        for delivery, task in list(self._tasks.items()):
            if delivery.partition in going:
                task.cancel()

    # -- the path

    async def _reply_first(self, delivery: Delivery, outcome: Outcome) -> Settled:
        try:
            outcome = await self._store_reply(delivery, outcome)
        finally:
            self._context.scheduler.attempt_over(delivery)
        return await self._retry(delivery, outcome)

    async def _take_up(self, delivery: Delivery) -> Settled:
        tracker = delivery.partition.tracker
        due = tracker.due[delivery.offset]
        # The wait that was left continues, so a rebalance neither shortens nor restarts it.
        self._failures.inherited(delivery, tracker.attempts[delivery.offset], due)
        await self._hold(delivery, rest_s(due, self._clock.time(), self._context.subscription.delivery, self._caps))
        return await self._retry(delivery, await self._attempt(delivery))

    async def _retry(self, delivery: Delivery, first: Outcome) -> Settled:
        failures: list[float] = []

        def note(outcome: Outcome, wait_s: float) -> None:
            failures.append(outcome.at)
            delivery.partition.tracker.failed(delivery.offset, outcome.attempts, outcome.at + wait_s)
            self._failures.failed(delivery, outcome, wait_s)
            self.delivery_log.outcome("attempt failed", delivery, outcome, wait_s=round(wait_s, 3))

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
            self.delivery_log.outcome(Settled.DELIVERED, delivery, last)
            return Settled.DELIVERED
        delivery.partition.tracker.failed(delivery.offset, last.attempts)
        self._failures.failed(delivery, last, None)
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
        async with self._slot(delivery):
            self._failures.trying(delivery)
            subscription = self._context.subscription
            attempts = delivery.partition.tracker.attempts.get(delivery.offset, 0) + 1
            outcome = await self._post(
                delivery,
                subscription.subscriber,
                subscription,
                delivery.headers,
                delivery.value,
                attempts,
                observed=True,
            )
            return await self._store_reply(delivery, outcome)

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

    async def _post(
        self,
        delivery: Delivery,
        destination: Addressable,
        subscription: Subscription,
        headers: HeaderList,
        value: bytes | None,
        attempts: int,
        *,
        observed: bool = False,
    ) -> Outcome:
        pool = self._context.pool(destination)
        span = self._context.spans.attempt(delivery, destination.uri, attempts)
        request = to_request(pool.prefix(subscription.namespace), span.headers(headers), value)
        answer: asyncio.Future[tuple[Verdict, int]] = asyncio.get_running_loop().create_future()

        def done(status: int | SendError, pairs: list[tuple[bytes, bytes]] | None, body: bytes) -> None:
            if isinstance(status, SendError):
                span.ended(0, status.problem)
                found: tuple[Verdict, int] = decide_error(status.problem, status.message), 0
            else:
                span.ended(status)
                found = decide(status, pairs, body), status
            if not answer.done():
                answer.set_result(found)

        began = self._clock.monotonic()
        pool.post(request, subscription.delivery.timeout_s, done)
        try:
            verdict, status_seen = await answer
        except asyncio.CancelledError:
            pool.abort(lambda other: other is done)  # the partition was revoked: the answer has no use
            raise
        seconds = self._clock.monotonic() - began
        if observed:
            self._observe.attempt(subscription.label, status_seen, seconds)
        return Outcome(verdict, destination.uri, attempts, self._clock.time(), seconds, status_seen)

    async def _store_reply(self, delivery: Delivery, outcome: Outcome) -> Outcome:
        """Post the event in an answer to `reply`. The delivery has succeeded only if that accepts it."""
        verdict = outcome.verdict
        if not isinstance(verdict, Reply):
            self._context.scheduler.judged(isinstance(verdict, Delivered))
            return outcome
        subscription = self._context.subscription
        if subscription.reply is None:
            self._observe.reply_dropped(subscription.label)
            stored: Verdict = DELIVERED
            destination = outcome.destination
        else:
            answer = await self._post(
                delivery, subscription.reply, subscription, list(verdict.headers), verdict.value, outcome.attempts
            )
            # An event in the answer of `reply` is not posted again: a reply has no reply.
            stored = DELIVERED if isinstance(answer.verdict, Reply) else answer.verdict
            destination = outcome.destination if stored is DELIVERED else answer.destination
        self._context.scheduler.judged(isinstance(stored, Delivered))
        return Outcome(stored, destination, outcome.attempts, self._clock.time(), outcome.seconds, outcome.status)

    # -- dead letters

    async def _dead_letter(self, delivery: Delivery, outcome: Outcome, first_failure: float) -> Settled:
        self._context.scheduler.dead_letter(delivery)
        subscription = self._context.subscription
        choices = versions(delivery, subscription, outcome, first_failure)
        taken_by = await self._to_sink(delivery, choices[0])
        if taken_by:
            self.delivery_log.outcome(Settled.DEAD_LETTERED, delivery, outcome, to=taken_by)
            return Settled.DEAD_LETTERED
        if self._context.subscription.exhausted is OnRetriesExhausted.IGNORE:
            self.delivery_log.outcome(Settled.IGNORED, delivery, outcome)
            return Settled.IGNORED
        await self._dlq.store(delivery, choices)
        self.delivery_log.outcome(Settled.DEAD_LETTERED, delivery, outcome, to=subscription.dlq_topic)
        return Settled.DEAD_LETTERED

    async def _unreadable(self, delivery: Delivery, reason: str) -> Settled:
        self._context.scheduler.dead_letter(delivery)
        self._context.scheduler.attempt_over(delivery)
        subscription = self._context.subscription
        await self._dlq.store(delivery, unreadable_versions(delivery, subscription, reason, self._clock.time()))
        self.delivery_log.unreadable(delivery, reason, subscription.dlq_topic)
        return Settled.DEAD_LETTERED

    async def _to_sink(self, delivery: Delivery, headers: HeaderList) -> str:
        """POST to the dead letter sink by the subscription's retry policy, as both are at each attempt. Returns the URL
        that accepted it; "" when there is no sink or it did not accept it."""
        made = 0

        async def attempt() -> Outcome:
            nonlocal made
            made += 1
            subscription = self._context.subscription
            sink = subscription.delivery.dead_letter_sink
            if sink is None:
                return Outcome(FinalFailure(500, "there is no dead letter sink", b""), "", made, self._clock.time(), 0)
            async with self._slot(delivery):
                return await self._post(delivery, sink, subscription, headers, delivery.value, made)

        def note(outcome: Outcome, wait_s: float) -> None:
            self.delivery_log.outcome("dead letter sink failed", delivery, outcome, wait_s=round(wait_s, 3))

        async def hold(wait_s: float) -> None:
            await self._rest(delivery, wait_s)

        def spec() -> DeliverySpec:
            return self._context.subscription.delivery

        last = await until_settled(await attempt(), attempt, spec=spec, hold=hold, failed=note, caps=self._caps)
        return last.destination if isinstance(last.verdict, Delivered | Reply) else ""

    async def _rest(self, delivery: Delivery, wait_s: float) -> None:
        """Wait between two tries of a dead letter. Ends at once if the partition is or was released."""
        self._holding.add(delivery)
        if not delivery.partition.open:
            raise asyncio.CancelledError("the partition is being released")
        await asyncio.sleep(wait_s)
        self._holding.discard(delivery)
