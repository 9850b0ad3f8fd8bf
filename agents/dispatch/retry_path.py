"""The slow path: everything that happens to an event whose first attempt was no plain success.

    first outcome --> retryable? hold the lane, wait (attempts committed first), try again --+
         |                                                                                   |
         |<----------------------------------------------------------------------------------+
         v
    reply? store it at `reply`, or the whole delivery has failed
    failed for good? dead letter sink -> DLQ topic, until one of them has taken it
         v
    settled

One task per event on this path, none on the other. Refuses to settle what nobody has acknowledged: while neither sink
nor DLQ topic takes a dead letter, the event stays unsettled and the watermark below it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, Protocol

from agents.dispatch.dead_letters import HeaderList, unreadable_versions, versions
from agents.dispatch.dlq_producer import DlqTopic
from agents.dispatch.retrying import Caps, Outcome, rest_s, until_settled
from agents.http.pool import Sender, SendError
from agents.listeners.delivery_log import Telling
from agents.listeners.failures import Troubles
from agents.listeners.spans import ABANDONED, Spans
from agents.ordering.scheduler import Partition, Record, Window
from knative.cloudevents.kafka_binding import to_request
from knative.contract.records import Subscription
from knative.delivery.policy import DeliverySpec, Destination, Exhausted
from knative.delivery.verdicts import DELIVERED, Delivered, FinalFailure, Reply, Verdict, decide, decide_error
from knative.ports import Clock, Observe, Produce


class Surroundings(Protocol):
    """What the slow path needs of its subscription; everything may change between two attempts."""

    subscription: Subscription
    window: Window
    spans: Spans

    def sender(self, destination: Destination) -> Sender:
        """The pool for a destination."""

    def settled(self, record: Record, verdict: str, failed: int) -> None:
        """Count it."""

    def touch(self) -> None:
        """Something is to be committed."""

    async def barrier(self, partition: Partition) -> None:
        """Returns when the attempts known now are committed."""

    def fatal(self, problem: BaseException) -> None:
        """Ends the process."""


class Settling:
    """All slow-path events of one subscription. Event loop only."""

    def __init__(
        self,
        around: Surroundings,
        produce: Produce,
        observe: Observe,
        clock: Clock,
        caps: Caps,
        troubles: Troubles,
    ) -> None:
        self._around = around
        self.telling = Telling(around.subscription.label)
        self._dlq = DlqTopic(around, produce, self._rest, self.telling)
        self._observe = observe
        self._clock = clock
        self._caps = caps
        self._troubles = troubles
        self._tasks: dict[Record, asyncio.Task[None]] = {}
        self._holding: set[Record] = set()
        self._until: dict[Record, float] = {}  # the event loop's time before which no slot is asked for

    # -- beginnings; the record holds a slot

    def failed(self, record: Record, outcome: Outcome) -> None:
        """The first attempt here has failed."""
        self._around.window.attempt_over(record)
        if record.partition.owned:
            self._begin(record, self._go_on(record, outcome))
        else:
            self._leave(record)

    def inherited(self, record: Record) -> None:
        """An owner before this one has attempted it, and the time of the next attempt may not have come."""
        self._around.window.give_back(record)
        self._begin(record, self._take_up(record))

    def replied(self, record: Record, outcome: Outcome) -> None:
        """The first attempt was answered with an event."""
        if not record.partition.owned:
            self._around.window.attempt_over(record)
            self._leave(record)
            return
        self._begin(record, self._reply_first(record, outcome), slot=True)

    def unreadable(self, record: Record, reason: str) -> None:
        """The record is no CloudEvent."""
        self._begin(record, self._unreadable(record, reason), slot=True)

    def _leave(self, record: Record) -> None:
        """The partition has gone to another owner, who reads this record again."""
        self._around.window.abandon(record)
        self._around.spans.settled(record, ABANDONED)

    def _begin(self, record: Record, work: Coroutine[Any, Any, str], *, slot: bool = False) -> None:
        """`slot`: the record still has its slot, and `work` gives it back."""
        task = asyncio.get_running_loop().create_task(self._run(record, work))
        self._tasks[record] = task
        task.add_done_callback(lambda _: self._never_began(record, work, slot))

    def _never_began(self, record: Record, work: Coroutine[Any, Any, str], slot: bool) -> None:
        """A task that is cancelled before its first step runs not even its `finally`."""
        if self._tasks.pop(record, None) is None:
            return
        work.close()
        if slot:
            self._around.window.attempt_over(record)
        self._leave(record)

    async def _run(self, record: Record, work: Coroutine[Any, Any, str]) -> None:
        window = self._around.window
        verdict = ABANDONED
        try:
            verdict = await work
        except asyncio.CancelledError:
            window.abandon(record)
        except Exception as problem:  # a fault of ours: the owner ends the process, the event stays unsettled
            window.abandon(record)
            self._around.fatal(problem)
        else:
            failed = record.partition.watermark.attempts.get(record.offset, 0)
            window.settle(record)
            self._around.touch()
            self._troubles.over(record, verdict)
            self._around.settled(record, verdict, failed)
        finally:
            self._troubles.over(record)
            self._tasks.pop(record, None)
            self._holding.discard(record)
            self._until.pop(record, None)
            self._around.spans.settled(record, verdict)

    # -- ends

    def release(self, partitions: Iterable[Partition]) -> None:
        """These partitions go: whoever only waits stops waiting, its attempts are in the watermark."""
        going = set(partitions)
        for record in [record for record in self._holding if record.partition in going]:
            self._tasks[record].cancel()

    def busy(self, partitions: Iterable[Partition]) -> bool:
        """True while something of these partitions is still under way."""
        going = set(partitions)
        return any(record.partition in going for record in self._tasks)

    def cancel(self, partitions: Iterable[Partition]) -> None:
        """Let go of everything of these partitions."""
        going = set(partitions)
        for record, task in list(self._tasks.items()):
            if record.partition in going:
                task.cancel()

    # -- the path

    async def _reply_first(self, record: Record, outcome: Outcome) -> str:
        try:
            outcome = await self._store_reply(record, outcome)
        finally:
            self._around.window.attempt_over(record)
        return await self._go_on(record, outcome)

    async def _take_up(self, record: Record) -> str:
        watermark = record.partition.watermark
        due = watermark.due[record.offset]
        self._troubles.inherited(record, watermark.attempts[record.offset], due)
        await self._hold(record, rest_s(due, self._clock.time(), self._around.subscription.delivery, self._caps))
        return await self._go_on(record, await self._attempt(record))

    async def _go_on(self, record: Record, first: Outcome) -> str:
        failures: list[float] = []

        def note(outcome: Outcome, wait_s: float) -> None:
            failures.append(outcome.at)
            record.partition.watermark.failed(record.offset, outcome.attempts, outcome.at + wait_s)
            self._troubles.failed(record, outcome, wait_s)
            self.telling.outcome("attempt failed", record, outcome, wait_s=round(wait_s, 3))

        async def hold(wait_s: float) -> None:
            await self._hold(record, wait_s)

        last = await until_settled(
            first,
            lambda: self._attempt(record),
            spec=lambda: self._around.subscription.delivery,
            hold=hold,
            failed=note,
            caps=self._caps,
        )
        if isinstance(last.verdict, Delivered):
            self.telling.outcome("delivered", record, last)
            return "delivered"
        record.partition.watermark.failed(record.offset, last.attempts)
        self._troubles.failed(record, last, None)
        return await self._dead_letter(record, last, failures[0] if failures else last.at)

    async def _hold(self, record: Record, wait_s: float) -> None:
        """The lane is held for `wait_s`, no slot is; attempts made so far are committed before the next one. The time
        itself is waited for with the slot: thousands that are due at once would wake as many tasks in one turn."""
        self._until[record] = asyncio.get_running_loop().time() + wait_s
        self._holding.add(record)
        if not record.partition.open:
            raise asyncio.CancelledError("the partition is going")
        await self._around.barrier(record.partition)

    async def _attempt(self, record: Record) -> Outcome:
        """One more attempt: a slot, the request, the answer, and the reply if there is one."""
        async with self._slot(record):
            self._troubles.trying(record)
            subscription = self._around.subscription
            attempts = record.partition.watermark.attempts.get(record.offset, 0) + 1
            outcome = await self._post(
                record, subscription.subscriber, subscription, record.headers, record.value, attempts, observed=True
            )
            return await self._store_reply(record, outcome)

    @asynccontextmanager
    async def _slot(self, record: Record) -> AsyncIterator[None]:
        """One of the requests that the subscription may have in flight, when it is time for it; before anything new is
        started."""
        window, loop = self._around.window, asyncio.get_running_loop()
        slot: asyncio.Future[None] = loop.create_future()

        def granted() -> None:
            if slot.done():  # its task has been cancelled, and will hear of it in a moment
                window.give_back(record)
            else:
                slot.set_result(None)

        due: asyncio.TimerHandle | None = None
        if (until := self._until.pop(record, 0.0)) > loop.time():
            due = loop.call_at(until, self._ask_for_slot, record, granted)
        else:
            window.retry(record, granted)
        try:
            await slot
        except asyncio.CancelledError:
            if due is not None:
                due.cancel()
            if slot.done() and not slot.cancelled():
                window.attempt_over(record)  # the slot came at the very moment of being let go
            else:
                window.withdraw(record)
            raise
        self._holding.discard(record)
        try:
            yield
        finally:
            window.attempt_over(record)

    def _ask_for_slot(self, record: Record, granted: Callable[[], None]) -> None:
        try:
            self._around.window.retry(record, granted)
        except Exception as problem:  # nobody else would hear of what a timer raises
            self._around.fatal(problem)

    async def _post(
        self,
        record: Record,
        destination: Destination,
        subscription: Subscription,
        headers: HeaderList,
        value: bytes | None,
        attempts: int,
        *,
        observed: bool = False,
    ) -> Outcome:
        sender = self._around.sender(destination)
        span = self._around.spans.attempt(record, destination.uri, attempts)
        request = to_request(sender.prefix(subscription.namespace), span.headers(headers), value)
        answer: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        status_seen = 0

        def done(status: int | SendError, pairs: list[tuple[bytes, bytes]] | None, body: bytes) -> None:
            nonlocal status_seen
            verdict: Verdict
            if isinstance(status, SendError):
                verdict = decide_error(status.kind, status.message)
                span.ended(0, status.kind)
            else:
                status_seen = status
                span.ended(status)
                verdict = decide(status, pairs, body)
            if not answer.done():
                answer.set_result(verdict)

        began = self._clock.monotonic()
        sender.post(request, subscription.delivery.timeout_s, done)
        try:
            verdict = await answer
        except asyncio.CancelledError:
            sender.abort(lambda other: other is done)  # its partition has gone: nobody waits for the answer
            raise
        seconds = self._clock.monotonic() - began
        if observed:
            self._observe.attempt(subscription.label, status_seen, seconds)
        return Outcome(verdict, destination.uri, attempts, self._clock.time(), seconds, status_seen)

    async def _store_reply(self, record: Record, outcome: Outcome) -> Outcome:
        """An answer that is an event is delivered once its target has taken it; if not, the delivery has failed."""
        verdict = outcome.verdict
        if not isinstance(verdict, Reply):
            return outcome
        subscription = self._around.subscription
        if subscription.reply is None:
            self._observe.reply_dropped(subscription.label)
            stored: Verdict = DELIVERED
            destination = outcome.destination
        else:
            answer = await self._post(
                record, subscription.reply, subscription, list(verdict.headers), verdict.value, outcome.attempts
            )
            stored = DELIVERED if isinstance(answer.verdict, Reply) else answer.verdict
            destination = outcome.destination if stored is DELIVERED else answer.destination
        return Outcome(stored, destination, outcome.attempts, self._clock.time(), outcome.seconds, outcome.status)

    # -- dead letters

    async def _dead_letter(self, record: Record, outcome: Outcome, first_failure: float) -> str:
        subscription = self._around.subscription
        choices = versions(record, subscription, outcome, first_failure)
        taken_by = await self._to_sink(record, choices[0])
        if taken_by:
            self.telling.outcome("dead-lettered", record, outcome, to=taken_by)
            return "dead-lettered"
        if self._around.subscription.exhausted is Exhausted.IGNORE:
            self.telling.outcome("ignored", record, outcome)
            return "ignored"
        await self._dlq.take(record, choices)
        self.telling.outcome("dead-lettered", record, outcome, to=subscription.dlq_topic)
        return "dead-lettered"

    async def _unreadable(self, record: Record, reason: str) -> str:
        self._around.window.attempt_over(record)
        subscription = self._around.subscription
        await self._dlq.take(record, unreadable_versions(record, subscription, reason, self._clock.time()))
        self.telling.unreadable(record, reason, subscription.dlq_topic)
        return "dead-lettered"

    async def _to_sink(self, record: Record, headers: HeaderList) -> str:
        """POST to the dead letter sink with the subscription's retry policy, whichever they are at each attempt; the
        URL that has taken it, "" when there is no sink or it would not take it."""
        made = 0

        async def attempt() -> Outcome:
            nonlocal made
            made += 1
            subscription = self._around.subscription
            sink = subscription.delivery.dead_letter_sink
            if sink is None:
                return Outcome(FinalFailure(500, "there is no dead letter sink", b""), "", made, self._clock.time(), 0)
            async with self._slot(record):
                return await self._post(record, sink, subscription, headers, record.value, made)

        def note(outcome: Outcome, wait_s: float) -> None:
            self.telling.outcome("dead letter sink failed", record, outcome, wait_s=round(wait_s, 3))

        async def hold(wait_s: float) -> None:
            await self._rest(record, wait_s)

        def spec() -> DeliverySpec:
            return self._around.subscription.delivery

        last = await until_settled(await attempt(), attempt, spec=spec, hold=hold, failed=note, caps=self._caps)
        return last.destination if isinstance(last.verdict, Delivered | Reply) else ""

    async def _rest(self, record: Record, wait_s: float) -> None:
        """Between two tries of a dead letter; whoever is let go, or is going already, leaves at once."""
        self._holding.add(record)
        if not record.partition.open:
            raise asyncio.CancelledError("the partition is going")
        await asyncio.sleep(wait_s)
        self._holding.discard(record)

    # -- telling

    def delivered(self, record: Record, outcome: Outcome) -> None:
        """A line for a delivery of the happy path, where those are wanted."""
        self.telling.outcome("delivered", record, outcome)
