"""A topic in memory, and the dispatcher of a worker on it: what `penstock.testing` shows."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from cloudevents.core.base import BaseCloudEvent

from knative.contract.records import Subscription
from knative.delivery.attempt import Settled, Settlement
from knative.delivery.policy import Addressable
from knative.delivery.verdicts import SendProblem
from knative.ports import Headers, Stored
from penstock.dispatching import (
    Delivery,
    DeliveryConfig,
    DeliveryContext,
    DeliveryListener,
    Dispatcher,
    EgressGuard,
    Hooks,
    OffsetTracker,
    PartitionState,
    PoolConfig,
    SendError,
)
from penstock.events import from_message, from_record
from penstock.subscriber import Subscriber
from penstock.virtual_loop import VirtualLoop

TOPIC, DLQ_TOPIC = "memory", "memory.dlq"
_START = datetime(2026, 1, 1, tzinfo=UTC).timestamp()

Pairs = list[tuple[bytes, bytes]]
Record = tuple[Headers, bytes | None, bytes | None]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call of a handler. `number`: of the attempt for this event, from 1; `at_s`: seconds since the broker was
    made; `status`: the answer, 0 = none in time."""

    event_id: str
    number: int
    at_s: float
    status: int


class Topic:
    """One partition and its DLQ topic: a `Produce` and a `Clock` for dispatchers, on a loop with virtual time."""

    def __init__(self) -> None:
        self.dead_letters: list[BaseCloudEvent] = []
        self.events: list[BaseCloudEvent] = []
        self.records: list[Record] = []
        self.triggers: list[Trigger] = []
        self._loop = VirtualLoop()
        weakref.finalize(self, _end, self._loop)
        self._waiting: asyncio.Future[None] | None = None

    def monotonic(self) -> float:
        """Virtual seconds since the topic was made."""
        return self._loop.time()

    def time(self) -> float:
        """Virtual Unix time."""
        return _START + self._loop.time()

    @property
    def connected(self) -> bool:
        """Always."""
        return True

    def send(
        self, topic: str, value: bytes | None, key: bytes | None, headers: Headers, done: Stored, partition: int = -1
    ) -> None:
        """Store a reply or a dead letter."""
        if topic == DLQ_TOPIC:
            self.dead_letters.append(from_record(headers, value))
        else:
            self.store((headers, key, value))
        done(None)

    def store(self, record: Record) -> None:
        """Store an event for all triggers."""
        self.records.append(record)
        self.events.append(from_record(record[0], record[2]))
        if self._waiting is not None:  # deliveries go on: this one as well
            self._loop.call_soon(self._deliver)

    def progressed(self) -> None:
        """Something may have been settled."""
        waiting = self._waiting
        if waiting is not None and not waiting.done() and not any(trigger.waits for trigger in self.triggers):
            waiting.set_result(None)

    def fatal(self, problem: BaseException) -> None:
        """What would end a worker ends `settle`."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(problem)

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it on the loop of the topic. Raises RuntimeError inside of another loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._loop.run_until_complete(work)
        else:
            work.close()
            raise RuntimeError("A Broker has its own event loop: call it from a test that is not async.")

    async def settle(self, limit_s: float) -> None:
        """Return when every event is settled. Raises TimeoutError after `limit_s` virtual seconds."""
        self._waiting = self._loop.create_future()
        try:
            async with asyncio.timeout(limit_s):
                self._deliver()
                await self._waiting
        except TimeoutError:
            names = ", ".join(trigger.name for trigger in self.triggers if trigger.waits)
            raise TimeoutError(f"Events of {names} are not settled after {limit_s:g} virtual seconds.") from None
        finally:
            self._waiting = None

    def _deliver(self) -> None:
        for trigger in self.triggers:
            trigger.fetch(self.records)
        self.progressed()


def _end(loop: VirtualLoop) -> None:
    """Cancel what waits, as a worker does at its end."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks))
    loop.close()


class Trigger:
    """A subscription of a Broker: what its handler was called for, and what came of it."""

    def __init__(self, spec: Subscription, subscriber: Subscriber, topic: Topic, start: int) -> None:
        self.name = spec.name
        self.attempts: list[Attempt] = []  #: calls of the handler, in order
        #: Event id -> `delivered`, `dead-lettered` or `filtered`, in the order in which they were settled.
        self.settled: dict[str, str] = {}
        self._partition = PartitionState(spec.topic, 0, OffsetTracker(start))
        self._topic = topic
        requests = _Requests(subscriber, topic, self.attempts)
        self._dispatcher = _Dispatcher(spec, requests, topic, Hooks([_Settlements(self.settled)]))

    @property
    def waits(self) -> bool:
        """Whether it has events that are not settled."""
        tracker = self._partition.tracker
        return bool(tracker.pending) or tracker.fetched < len(self._topic.records)

    def fetch(self, records: Sequence[Record]) -> None:
        """Give the scheduler the records that it does not have yet."""
        partition, now_ms = self._partition, int(1000 * self._topic.time())
        first = partition.tracker.fetched
        deliveries = [
            Delivery(partition, offset, key, value, list(headers), len(value or b""), now_ms)
            for offset, (headers, key, value) in enumerate(records[first:], first)
        ]
        partition.fetched_count += len(deliveries)
        partition.fetched_bytes += sum(delivery.size for delivery in deliveries)
        self._dispatcher.scheduler.enqueue(partition, deliveries)


class _Settlements(DeliveryListener):
    """Notes how each event was settled."""

    def __init__(self, settled: dict[str, str]) -> None:
        self._settled = settled

    def filtered(self, headers: Headers) -> None:
        self._note(headers, Settled.FILTERED)

    def delivered(self, delivery: Delivery, url: str, status: int, seconds: float, age_s: float) -> None:
        self._note(delivery.headers, Settled.DELIVERED)

    def settled(self, delivery: Delivery, settlement: Settlement, age_s: float, failed: int) -> None:
        self._note(delivery.headers, settlement.settled)

    def _note(self, headers: Headers, settled: Settled) -> None:
        self._settled[(dict(headers)["ce_id"] or b"").decode()] = settled.value


class _Dispatcher(Dispatcher):
    """A worker's dispatcher, whose requests stay in memory and which commits nothing."""

    def __init__(self, spec: Subscription, requests: _Requests, topic: Topic, hooks: Hooks) -> None:
        self._requests = requests
        nobody: Any = None  # metrics are for what is around a dispatcher
        context = DeliveryContext(
            DeliveryConfig(kafka={}), PoolConfig(), EgressGuard(), topic, nobody, topic, topic.fatal, lambda _: None
        )
        commits: Any = _Commits(topic.progressed)
        super().__init__(spec, context, commits, hooks)

    def pool(self, destination: Addressable) -> Any:
        """The handler, in place of a pool of connections."""
        return self._requests


class _Commits:
    """There is no next owner who would need them."""

    def __init__(self, schedule_commit: Callable[[], None]) -> None:
        self.schedule_commit = schedule_commit

    async def barrier(self, partition: PartitionState) -> None:
        """All attempts known now are committed."""


class _Requests:
    """Does for a dispatcher what a ConnectionPool does: reads the bytes of a request, and calls the subscriber."""

    def __init__(self, subscriber: Subscriber, topic: Topic, attempts: list[Attempt]) -> None:
        self._subscriber = subscriber
        self._topic = topic
        self._attempts = attempts
        self._tasks: set[asyncio.Task[None]] = set()

    def prefix(self, namespace: str) -> bytes:
        """The head of each request."""
        return b"POST / HTTP/1.1"

    def post(self, request: bytes, timeout_s: float, done: Callable[..., None]) -> None:
        """Call `done` once, with the answer or the error, after this has returned."""
        task = asyncio.get_running_loop().create_task(self._post(request, timeout_s, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _post(self, request: bytes, timeout_s: float, done: Callable[..., None]) -> None:
        head, _, body = request.partition(b"\r\n\r\n")
        pairs = [(name, value) for name, _, value in (line.partition(b": ") for line in head.split(b"\r\n")[1:])]
        at_s = self._topic.monotonic()
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._subscriber.answer(pairs, body)
        except TimeoutError:
            self._note(pairs, at_s, 0)
            done(SendError(SendProblem.TIMEOUT, f"no answer within {timeout_s:g} s"), None, b"")
            return
        self._note(pairs, at_s, answer.status)
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
        done(answer.status, headers, answer.body)

    def _note(self, pairs: Pairs, at_s: float, status: int) -> None:
        event_id = from_message(pairs, b"").get_id()
        number = 1 + sum(attempt.event_id == event_id for attempt in self._attempts)
        self._attempts.append(Attempt(event_id, number, at_s, status))
