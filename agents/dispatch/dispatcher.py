"""One subscription at work: feed, channel, Faust agent, window, senders, and the happy path of its deliveries.

The happy path is `start` -> `Sender.post` -> `_answered`: two callbacks per event, no Task, no Future. Whatever is no
plain success goes to `agents/dispatch/retry_path`. A changed subscription is applied in place and counts from the next
attempt on.

Refuses to decide which subscriptions there are (`agents/supervisor`) and what an answer means
(`knative/delivery/verdicts`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog
from mode import Service

from agents.config import DeliveryConfig
from agents.consumer.consumer import Batch, Feed
from agents.dispatch.retry_path import Settling
from agents.dispatch.retrying import Caps, Outcome
from agents.http.egress_guard import EgressGuard
from agents.http.pool import Done, Sender, SenderConfig, SendError
from agents.listeners import snapshots
from agents.listeners.failures import Troubles
from agents.listeners.spans import Spans
from agents.ordering.scheduler import Partition, Record, Window
from agents.ordering.turns import Turns
from knative.cloudevents.kafka_binding import Unreadable, to_request
from knative.contract.kafka_names import agent_name
from knative.contract.records import WAITING_FOR_KAFKA, Subscription, WorkerSubscription
from knative.contract.subscription_stats import Progress, Reading
from knative.delivery.policy import Destination
from knative.delivery.verdicts import DELIVERED, Reply, Verdict, decide, decide_error
from knative.ports import Clock, Observe, Produce
from knative.tracing import Trace
from knative.traffic.counters import Tallies, Tally

log = structlog.get_logger(__name__)

_CHANNEL_BATCHES = 64
_AGENT_STOP_S = 5.0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every subscription of a process shares."""

    config: DeliveryConfig
    sender: SenderConfig
    guard: EgressGuard
    produce: Produce
    observe: Observe
    clock: Clock
    fatal: Callable[[BaseException], None]
    changed: Callable[[], None]  #: owned partitions or state are different now
    trace: Trace | None = None  #: None = no spans
    tallies: Tallies | None = None  #: None = what is settled is not summed up
    turns: Turns | None = None  #: None = none has to wait for the others
    gone: Callable[[], None] = lambda: None  #: a subscription was removed, and everything of it is free


class SubscriptionService(Service):
    """A mode Service; the Faust App it is handed is its parent. Event loop only."""

    abstract = False
    logger = logging.getLogger("mode.subscription")  # `agents/supervisor` tells of starts and stops

    def __init__(self, app: Any, subscription: Subscription, around: Surroundings) -> None:
        super().__init__(loop=asyncio.get_running_loop())
        self.app = app
        self.subscription = subscription
        self._around = around
        self.fatal = around.fatal
        self.spans = Spans()
        self.window = Window(self._start_record, subscription.order, subscription.concurrency, around.turns)
        caps = Caps(around.config.retry_delay_cap_s, around.config.retry_after_cap_s)
        self._troubles = Troubles()
        self._settling = Settling(self, around.produce, around.observe, around.clock, caps, self._troubles)
        self._tally: Tally | None = None
        if around.tallies is not None:
            names = (subscription.namespace, subscription.channel, subscription.name)
            self._tally = around.tallies.subscription(*names)
        self._rate = snapshots.Rate()
        self._senders: dict[Destination, Sender] = {}
        self._retired: set[Sender] = set()  # of destinations it no longer has, with attempts still in flight
        self._feed = Feed(subscription, around.config, self, around.observe)
        self._incoming: deque[list[Batch]] = deque()
        self._arrived = asyncio.Event()
        self._agent: Any = None
        self._drain_s = around.config.revoke_drain_s
        self._apply(subscription)

    # -- life

    async def on_start(self) -> None:
        """Create the channel and its agent, then join the group."""
        channel = self.app.channel(maxsize=_CHANNEL_BATCHES)

        async def deliver(stream: AsyncIterable[list[Batch]]) -> None:
            async for batches in stream:
                self._lane(batches)

        name = agent_name(self.subscription.namespace, self.subscription.name, self.subscription.uid)
        self._agent = self.app.agent(channel, name=name)(deliver)
        await self._agent.start()
        self._feed.start()

    async def leave(self, drain_s: float) -> None:
        """Drain, commit and leave the group, then end the agent. At most `drain_s` and some seconds."""
        self._drain_s = drain_s
        await self.stop()

    async def on_stop(self) -> None:
        """See `leave`."""
        self._arrived.set()
        await self._feed.stop(self._drain_s)
        left = self._feed.partitions
        if left:  # the thread hangs in a call to Kafka: nothing is committed, and above all nothing is judged any more
            self.dropped(left)
        for sender in (*self._senders.values(), *self._retired):
            sender.abort()
            await sender.close(1.0)
        self._senders.clear()
        if self._agent is not None:
            await self._end_agent()
        self._settling.telling.close()
        self._around.observe.closed(self._feed.client_name)
        if self._tally is not None:
            self._tally.close()

    async def _end_agent(self) -> None:
        """Faust's own `stop` of an agent may wait for ever: it is started, the agent cancelled, and awaited briefly."""
        agent = self._agent
        stopping = asyncio.ensure_future(agent.stop())
        await asyncio.sleep(0)
        agent.cancel()
        done, _ = await asyncio.wait({stopping}, timeout=_AGENT_STOP_S)
        if not done:
            stopping.cancel()
            log.warning("agent did not stop in time", subscription=self.subscription.label)
        self.app.agents.pop(agent.name, None)
        self.app.agents.beacon.discard(agent.beacon)  # Faust's trees of services would keep it for ever
        self.app.topics.beacon.discard(agent)

    @Service.task
    async def _hand_over(self) -> None:
        """Batches from the feed's thread go through the channel to the agent."""
        put = self._agent.channel.put
        incoming, arrived = self._incoming, self._arrived
        while not self.should_stop:
            await arrived.wait()
            arrived.clear()
            while incoming:
                await put(incoming.popleft())

    def _lane(self, batches: list[Batch]) -> None:
        """The agent's body: it never raises, or Faust would start it again and skip the batch."""
        try:
            for partition, records in batches:
                self.window.feed(partition, records)
        except Exception as problem:
            self.fatal(problem)
        finally:
            self._feed.taken()

    # -- what it is told

    def halt(self, reason: str) -> None:
        """Deliver nothing more of the topic, and say why in the status."""
        self._feed.halt(reason)

    def update(self, subscription: Subscription) -> None:
        """A new generation of the same subscription (same uid, topic and group)."""
        before = self.subscription
        self._apply(subscription)
        if before.order is not subscription.order:
            self.window.reorder(subscription.order, self._feed.partitions)
        self.window.concurrency = subscription.concurrency
        self.window.pump()
        wanted = {subscription.subscriber, subscription.reply, subscription.delivery.dead_letter_sink}
        for destination in [d for d in self._senders if d not in wanted]:
            self.add_future(self._retire(self._senders.pop(destination), before.delivery.timeout_s))
        log.info("subscription changed", subscription=subscription.label, generation=subscription.generation)
        self._around.changed()

    async def _retire(self, sender: Sender, limit_s: float) -> None:
        """What is in flight to a former destination ends as it may."""
        self._retired.add(sender)
        try:
            await sender.close(limit_s)
        finally:
            self._retired.discard(sender)

    def _apply(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self._label = subscription.label
        sender = self.sender(subscription.subscriber)
        self._prefix = sender.prefix(subscription.namespace)
        self._post = sender.post
        self._timeout_s = subscription.delivery.timeout_s
        self._uri = subscription.subscriber.uri

    def status(self) -> WorkerSubscription:
        """For the status topic."""
        partitions = self._feed.partitions
        failures = "; ".join(f"partition {p.number}: {p.failure}" for p in partitions if p.failure)
        state = WAITING_FOR_KAFKA if self._feed.commits.waiting else "running" if partitions else "starting"
        if failures:
            state = f"failed: {failures}"
        owned = tuple(sorted(p.number for p in partitions if not p.failure))
        return WorkerSubscription(self.subscription.generation, owned, state)

    @property
    def still_s(self) -> float:
        """Seconds since its consumer took a turn."""
        return self._feed.still_s

    def reading(self) -> Reading:
        """For the metrics; may be called from any thread."""
        partitions = self._feed.partitions
        return Reading(
            subscription=self._label,
            partitions=len(partitions),
            in_flight=self.window.in_flight,
            retrying=self._troubles.retrying,
            lag=snapshots.lag(partitions),
            oldest=snapshots.oldest(self.window),
            lanes=snapshots.lanes(partitions),
            buffered_bytes=snapshots.buffered_bytes(partitions),
            waiting_for_kafka=self._feed.commits.waiting,
            commits=self._feed.commits.count,
            commits_failed=self._feed.commits.failures,
            rebalances=tuple(self._feed.rebalances.items()),
        )

    def progress(self) -> Progress:
        """For the status topic; the rate is over the last minute of calls."""
        partitions, troubles = self._feed.partitions, self._troubles
        delivered = self.window.settled - troubles.not_delivered
        return Progress(
            in_flight=self.window.in_flight,
            retrying=troubles.retrying,
            lag=snapshots.lag(partitions),
            oldest=snapshots.oldest(self.window),
            delivered_per_s=round(self._rate.per_s(delivered, self._around.clock.monotonic()), 3),
            heads=troubles.heads(),
            last_error=troubles.last_error,
        )

    # -- the happy path

    def _start_record(self, record: Record) -> None:
        """First attempt of a record; the window has given it a slot."""
        if record.offset in record.partition.watermark.due:
            self._settling.inherited(record)
            return
        try:
            request = to_request(self._prefix, record.headers, record.value)
        except Unreadable as problem:
            self._settling.unreadable(record, problem.reason)
            return
        record.began = self._around.clock.monotonic()
        self._post(request, self._timeout_s, partial(self._answered, record, self._uri))

    def _answered(
        self, record: Record, uri: str, status: int | SendError, pairs: list[tuple[bytes, bytes]] | None, body: bytes
    ) -> None:
        try:
            self._judge(record, uri, status, pairs, body)
        except Exception as problem:  # in a protocol callback nobody else would hear of it
            self.fatal(problem)

    def _judge(
        self, record: Record, uri: str, status: int | SendError, pairs: list[tuple[bytes, bytes]] | None, body: bytes
    ) -> None:
        around = self._around
        clock = around.clock
        seconds = clock.monotonic() - record.began
        verdict: Verdict
        if isinstance(status, SendError):
            verdict = decide_error(status.kind, status.message)
            around.observe.attempt(self._label, 0, seconds)
        else:
            verdict = decide(status, pairs, body)
            if verdict is DELIVERED:
                age_s = clock.time() - record.timestamp_ms * 0.001
                if self._tally is not None:
                    earlier = record.partition.watermark.attempts  # of an owner before this one
                    failed = earlier.get(record.offset, 0) if earlier else 0
                    self._tally.delivered(record.headers, record.value, age_s, failed)
                self.window.done(record)
                self._feed.commits.touch()
                around.observe.delivered(self._label, seconds, age_s)
                return
            around.observe.attempt(self._label, status, seconds)
        attempts = record.partition.watermark.attempts.get(record.offset, 0) + 1
        code = 0 if isinstance(status, SendError) else status
        outcome = Outcome(verdict, uri, attempts, clock.time(), seconds, code)
        if isinstance(verdict, Reply):
            self._settling.replied(record, outcome)
        else:
            self._settling.failed(record, outcome)

    # -- for the slow path

    def settled(self, record: Record, verdict: str, failed: int) -> None:
        """Count what did not take the happy path; `failed`: attempts that failed."""
        age_s = self._around.clock.time() - record.timestamp_ms * 0.001
        self._around.observe.settled(self._label, verdict, age_s)
        if self._tally is not None:
            self._tally.settled(record.headers, record.value, verdict, age_s, failed)

    def sender(self, destination: Destination) -> Sender:
        """The pool of this subscription for a destination."""
        sender = self._senders.get(destination)
        if sender is None:
            sender = Sender(destination, self._around.sender, self._around.guard, asyncio.get_running_loop())
            self._senders[destination] = sender
        return sender

    def touch(self) -> None:
        """Something moved: a commit follows within the interval."""
        self._feed.commits.touch()

    async def barrier(self, partition: Partition) -> None:
        """Wait until what is known of the partition is committed."""
        await self._feed.commits.barrier(partition)

    # -- for the feed

    def opened(self, partitions: Sequence[Partition]) -> None:
        """Partitions were assigned."""
        numbers = [partition.number for partition in partitions]
        self._around.observe.assigned(self._feed.client_name, self.subscription.topic, numbers)
        self._around.changed()

    def take(self, batches: list[Batch]) -> None:
        """Records from the feed's thread."""
        self._incoming.append(batches)
        self._arrived.set()

    async def drain(self, partitions: Sequence[Partition], limit_s: float) -> None:
        """Stop starting, give what is in flight up to `limit_s`, then let go."""
        loop = asyncio.get_running_loop()
        until = loop.time() + limit_s
        self.window.close(partitions)
        self._settling.release(partitions)
        # Rare and bounded: an event would have to be set on the happy path.
        while loop.time() < until and self._under_way(partitions):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        self._let_go(partitions)

    def _under_way(self, partitions: Sequence[Partition]) -> bool:
        return any(p.in_flight for p in partitions) or self._settling.busy(partitions)

    def dropped(self, partitions: Sequence[Partition]) -> None:
        """Partitions are somebody else's already."""
        self.window.close(partitions)
        self._let_go(partitions)

    def waiting_for_kafka(self, waiting: bool) -> None:
        """What is delivered while nothing can be committed may be delivered again: first attempts wait."""
        self.window.pause(waiting)
        self._around.changed()

    def failing(self) -> None:
        """A partition has been stopped."""
        self._around.changed()

    def _let_go(self, partitions: Sequence[Partition]) -> None:
        for partition in partitions:
            partition.owned = False
        numbers = [partition.number for partition in partitions]
        self._around.observe.revoked(self._feed.client_name, self.subscription.topic, numbers)
        self._settling.cancel(partitions)
        going = set(partitions)

        def goes(done: Done) -> bool:  # of the happy path; the tasks of the slow one have been cancelled
            return isinstance(done, partial) and isinstance(done.args[0], Record) and done.args[0].partition in going

        for sender in (*self._senders.values(), *self._retired):
            sender.abort(goes)
        self._around.changed()
