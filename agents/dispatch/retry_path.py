"""The slow path: everything that happens to an event whose first attempt was no plain success.

    first outcome --> retryable? hold the lane, wait (attempts committed first), try again --+
         |                                                                                   |
         |<----------------------------------------------------------------------------------+
         v
    reply? store it at `reply`, or the whole delivery has failed
    failed for good? dead letter sink -> DLQ topic, until one of them has taken it
         v
    settled

One task per event on this path, none on the other. Does not settle what nobody has acknowledged: while neither sink
nor DLQ topic takes a dead letter, the event stays unsettled and holds the committable offset.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, Protocol

from agents.dispatch.dead_letters import HeaderList, unreadable_versions, versions
from agents.dispatch.dlq_producer import DlqProducer
from agents.dispatch.retrying import Caps, rest_s, until_settled
from agents.http.pool import ConnectionPool, SendError
from agents.listeners.delivery_log import DeliveryLog
from agents.listeners.failures import Failures
from agents.listeners.spans import ABANDONED, Spans
from agents.ordering.partition import Delivery, PartitionState
from agents.ordering.scheduler import Scheduler
from knative.cloudevents.kafka_binding import to_request
from knative.contract.records import Subscription
from knative.delivery.attempt import Outcome
from knative.delivery.policy import Addressable, DeliverySpec, OnRetriesExhausted
from knative.delivery.verdicts import DELIVERED, Delivered, FinalFailure, Reply, Verdict, decide, decide_error
from knative.ports import Clock, Observe, Produce


class RetryContext(Protocol):
    """What the slow path needs of its subscription; everything may change between two attempts."""

    subscription: Subscription
    scheduler: Scheduler
    spans: Spans

    def pool(self, destination: Addressable) -> ConnectionPool:
        """The pool for a destination."""

    def settled(self, delivery: Delivery, verdict: str, failed: int) -> None:
        """Count it."""

    def schedule_commit(self) -> None:
        """Something is to be committed."""

    async def barrier(self, partition: PartitionState) -> None:
        """Returns when the attempts known now are committed."""

    def fatal(self, problem: BaseException) -> None:
        """Ends the process."""


class RetryPath:
    """All slow-path events of one subscription. Event loop only."""

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
        self._holding: set[Delivery] = set()
        self._until: dict[Delivery, float] = {}  # the event loop's time before which no slot is asked for

    # -- beginnings; the record holds a slot

    def failed(self, delivery: Delivery, outcome: Outcome) -> None:
        """The first attempt here has failed."""
        self._context.scheduler.judged(False)
        self._context.scheduler.attempt_over(delivery)
        if delivery.partition.owned:
            self._begin(delivery, self._go_on(delivery, outcome))
        else:
            self._leave(delivery)

    def inherited(self, delivery: Delivery) -> None:
        """An owner before this one has attempted it, and the time of the next attempt may not have come."""
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
        """The record is no CloudEvent."""
        self._begin(delivery, self._unreadable(delivery, reason), slot=True)

    def _leave(self, delivery: Delivery) -> None:
        """The partition has gone to another owner, who reads this record again."""
        self._context.scheduler.abandon(delivery)
        self._context.spans.settled(delivery, ABANDONED)

    def _begin(self, delivery: Delivery, work: Coroutine[Any, Any, str], *, slot: bool = False) -> None:
        """`slot`: the record still has its slot, and `work` gives it back."""
        task = asyncio.get_running_loop().create_task(self._run(delivery, work))
        self._tasks[delivery] = task
        task.add_done_callback(lambda _: self._never_began(delivery, work, slot))

    def _never_began(self, delivery: Delivery, work: Coroutine[Any, Any, str], slot: bool) -> None:
        """A task that is cancelled before its first step runs not even its `finally`."""
        if self._tasks.pop(delivery, None) is None:
            return
        work.close()
        if slot:
            self._context.scheduler.attempt_over(delivery)
        self._leave(delivery)

    async def _run(self, delivery: Delivery, work: Coroutine[Any, Any, str]) -> None:
        scheduler = self._context.scheduler
        verdict = ABANDONED
        try:
            verdict = await work
        except asyncio.CancelledError:
            scheduler.abandon(delivery)
        except Exception as problem:  # a fault of ours: the owner ends the process, the event stays unsettled
            scheduler.abandon(delivery)
            self._context.fatal(problem)
        else:
            failed = delivery.partition.tracker.attempts.get(delivery.offset, 0)
            scheduler.settle(delivery)
            self._context.schedule_commit()
            self._failures.over(delivery, verdict)
            self._context.settled(delivery, verdict, failed)
        finally:
            self._failures.over(delivery)
            self._tasks.pop(delivery, None)
            self._holding.discard(delivery)
            self._until.pop(delivery, None)
            self._context.spans.settled(delivery, verdict)

    # -- ends

    def release(self, partitions: Iterable[PartitionState]) -> None:
        """These partitions go: whoever only waits stops waiting, its attempts are in the watermark."""
        going = set(partitions)
        for delivery in [delivery for delivery in self._holding if delivery.partition in going]:
            self._tasks[delivery].cancel()

    def busy(self, partitions: Iterable[PartitionState]) -> bool:
        """True while something of these partitions is still under way."""
        going = set(partitions)
        return any(delivery.partition in going for delivery in self._tasks)

    def cancel(self, partitions: Iterable[PartitionState]) -> None:
        """Let go of everything of these partitions."""
        going = set(partitions)
        for delivery, task in list(self._tasks.items()):
            if delivery.partition in going:
                task.cancel()

    # -- the path

    async def _reply_first(self, delivery: Delivery, outcome: Outcome) -> str:
        try:
            outcome = await self._store_reply(delivery, outcome)
        finally:
            self._context.scheduler.attempt_over(delivery)
        return await self._go_on(delivery, outcome)

    async def _take_up(self, delivery: Delivery) -> str:
        tracker = delivery.partition.tracker
        due = tracker.due[delivery.offset]
        self._failures.inherited(delivery, tracker.attempts[delivery.offset], due)
        await self._hold(delivery, rest_s(due, self._clock.time(), self._context.subscription.delivery, self._caps))
        return await self._go_on(delivery, await self._attempt(delivery))

    async def _go_on(self, delivery: Delivery, first: Outcome) -> str:
        failures: list[float] = []

        def note(outcome: Outcome, wait_s: float) -> None:
            failures.append(outcome.at)
            delivery.partition.tracker.failed(delivery.offset, outcome.attempts, outcome.at + wait_s)
            self._failures.failed(delivery, outcome, wait_s)
            self.delivery_log.outcome("attempt failed", delivery, outcome, wait_s=round(wait_s, 3))

        async def hold(wait_s: float) -> None:
            await self._hold(delivery, wait_s)

        last = await until_settled(
            first,
            lambda: self._attempt(delivery),
            spec=lambda: self._context.subscription.delivery,
            hold=hold,
            failed=note,
            caps=self._caps,
        )
        if isinstance(last.verdict, Delivered):
            self.delivery_log.outcome("delivered", delivery, last)
            return "delivered"
        delivery.partition.tracker.failed(delivery.offset, last.attempts)
        self._failures.failed(delivery, last, None)
        return await self._dead_letter(delivery, last, failures[0] if failures else last.at)

    async def _hold(self, delivery: Delivery, wait_s: float) -> None:
        """The lane is held for `wait_s`, no slot is; attempts made so far are committed before the next one. The time
        itself is waited for with the slot: thousands that are due at once would wake as many tasks in one turn."""
        self._until[delivery] = asyncio.get_running_loop().time() + wait_s
        self._holding.add(delivery)
        if not delivery.partition.open:
            raise asyncio.CancelledError("the partition is going")
        await self._context.barrier(delivery.partition)

    async def _attempt(self, delivery: Delivery) -> Outcome:
        """One more attempt: a slot, the request, the answer, and the reply if there is one."""
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
        """One of the requests that the subscription may have in flight, when it is time for it; before anything new is
        started."""
        scheduler, loop = self._context.scheduler, asyncio.get_running_loop()
        slot: asyncio.Future[None] = loop.create_future()

        def granted() -> None:
            if slot.done():  # its task has been cancelled, and will hear of it in a moment
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
                scheduler.attempt_over(delivery)  # the slot came at the very moment of being let go
            else:
                scheduler.cancel_retry(delivery)
            raise
        self._holding.discard(delivery)
        try:
            yield
        finally:
            scheduler.attempt_over(delivery)

    def _ask_for_slot(self, delivery: Delivery, granted: Callable[[], None]) -> None:
        try:
            self._context.scheduler.retry(delivery, granted)
        except Exception as problem:  # nobody else would hear of what a timer raises
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
                span.ended(0, status.kind)
                found: tuple[Verdict, int] = decide_error(status.kind, status.message), 0
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
            pool.abort(lambda other: other is done)  # its partition has gone: nobody waits for the answer
            raise
        seconds = self._clock.monotonic() - began
        if observed:
            self._observe.attempt(subscription.label, status_seen, seconds)
        return Outcome(verdict, destination.uri, attempts, self._clock.time(), seconds, status_seen)

    async def _store_reply(self, delivery: Delivery, outcome: Outcome) -> Outcome:
        """An answer that is an event is delivered once its target has taken it; if not, the delivery has failed."""
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
            stored = DELIVERED if isinstance(answer.verdict, Reply) else answer.verdict
            destination = outcome.destination if stored is DELIVERED else answer.destination
        self._context.scheduler.judged(isinstance(stored, Delivered))
        return Outcome(stored, destination, outcome.attempts, self._clock.time(), outcome.seconds, outcome.status)

    # -- dead letters

    async def _dead_letter(self, delivery: Delivery, outcome: Outcome, first_failure: float) -> str:
        self._context.scheduler.dead_letter(delivery)
        subscription = self._context.subscription
        choices = versions(delivery, subscription, outcome, first_failure)
        taken_by = await self._to_sink(delivery, choices[0])
        if taken_by:
            self.delivery_log.outcome("dead-lettered", delivery, outcome, to=taken_by)
            return "dead-lettered"
        if self._context.subscription.exhausted is OnRetriesExhausted.IGNORE:
            self.delivery_log.outcome("ignored", delivery, outcome)
            return "ignored"
        await self._dlq.store(delivery, choices)
        self.delivery_log.outcome("dead-lettered", delivery, outcome, to=subscription.dlq_topic)
        return "dead-lettered"

    async def _unreadable(self, delivery: Delivery, reason: str) -> str:
        self._context.scheduler.dead_letter(delivery)
        self._context.scheduler.attempt_over(delivery)
        subscription = self._context.subscription
        await self._dlq.store(delivery, unreadable_versions(delivery, subscription, reason, self._clock.time()))
        self.delivery_log.unreadable(delivery, reason, subscription.dlq_topic)
        return "dead-lettered"

    async def _to_sink(self, delivery: Delivery, headers: HeaderList) -> str:
        """POST to the dead letter sink with the subscription's retry policy, whichever they are at each attempt; the
        URL that has taken it, "" when there is no sink or it would not take it."""
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
        """Between two tries of a dead letter; whoever is let go, or is going already, leaves at once."""
        self._holding.add(delivery)
        if not delivery.partition.open:
            raise asyncio.CancelledError("the partition is going")
        await asyncio.sleep(wait_s)
        self._holding.discard(delivery)
