"""Serves one subscription: its consumer, Faust agent, scheduler and connection pools, and the happy path of deliveries.

The happy path is `start` -> `ConnectionPool.post` -> `_answered`: two callbacks per event, no Task, no Future. Any
other answer goes to `agents/dispatch/retry_path`. A changed subscription is applied in place from the next attempt on.

`agents/supervisor` decides which subscriptions there are, `knative/delivery/verdicts` what an answer means.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterable, Iterator, Sequence
from functools import partial
from typing import Any

import structlog
from mode import Service

from agents.consumer.consumer import Batch, SubscriptionConsumer
from agents.dispatch.context import DeliveryContext
from agents.dispatch.retry_path import RetryPath
from agents.dispatch.retrying import Caps
from agents.http.pool import ConnectionPool, Done, SendError
from agents.listeners import snapshots
from agents.listeners.base import DeliveryListener, Hooks
from agents.listeners.delivery_log import DebugDeliveryLog, DeliveryLog
from agents.listeners.failures import Failures
from agents.listeners.metrics import MetricsListener
from agents.listeners.tracing import TracingListener
from agents.listeners.traffic import TrafficListener
from agents.ordering.partition import Delivery, PartitionState
from agents.ordering.scheduler import Scheduler
from knative.cloudevents.kafka_binding import Unreadable, to_request
from knative.contract.kafka_names import agent_name
from knative.contract.records import Subscription, WorkerState, WorkerSubscription
from knative.contract.subscription_stats import SubscriptionSnapshot, SubscriptionStats
from knative.delivery.attempt import Outcome
from knative.delivery.policy import Addressable
from knative.delivery.verdicts import DELIVERED, Reply, SendProblem, Verdict, decide, decide_error
from knative.ports import Headers

log = structlog.get_logger(__name__)

_CHANNEL_BATCHES = 64
_AGENT_STOP_S = 5.0


class SubscriptionService(Service):
    """A mode Service whose parent is the Faust App. Event loop only."""

    abstract = False
    logger = logging.getLogger("mode.subscription")  # quiet: `agents/supervisor` logs starts and stops

    def __init__(self, app: Any, subscription: Subscription, context: DeliveryContext) -> None:
        super().__init__(loop=asyncio.get_running_loop())
        self.app = app
        self.subscription = subscription
        self._context = context
        self.fatal = context.fatal
        self._monotonic, self._time = context.clock.monotonic, context.clock.time
        self.scheduler = Scheduler(self._start, subscription.order, subscription.concurrency, context.turns)
        caps = Caps(context.config.retry_delay_cap_s, context.config.retry_after_cap_s)
        self._failures = Failures()
        self._hooks = Hooks([self._failures, *_listeners(subscription, context)])
        # Bound here, because an attribute of an attribute costs time on the happy path.
        self._on_started, self._on_request = self._hooks.started, self._hooks.request
        self._on_delivered = self._hooks.delivered
        self._retry_path = RetryPath(self, self._hooks, context.produce, context.clock, caps)
        self._rate = snapshots.Rate()
        self._pools: dict[Addressable, ConnectionPool] = {}
        self._retired: set[ConnectionPool] = set()  # of former destinations, with attempts still in flight
        self._consumer = SubscriptionConsumer(subscription, context.config, self, context.observe)
        self._schedule_commit = self._consumer.commits.schedule_commit
        self._incoming: deque[list[Batch]] = deque()
        self._arrived = asyncio.Event()
        self._agent: Any = None
        self._drain_s = context.config.revoke_drain_s
        self._apply(subscription)

    # -- life

    async def on_start(self) -> None:
        """Create the channel and its agent, then join the group."""
        channel = self.app.channel(maxsize=_CHANNEL_BATCHES)

        async def deliver(stream: AsyncIterable[list[Batch]]) -> None:
            async for batches in stream:
                self._enqueue(batches)

        name = agent_name(self.subscription.namespace, self.subscription.name, self.subscription.uid)
        self._agent = self.app.agent(channel, name=name)(deliver)
        await self._agent.start()
        self._consumer.start()

    async def leave(self, drain_s: float) -> None:
        """Drain, commit and leave the group, then end the agent, in `drain_s` plus some seconds."""
        self._drain_s = drain_s
        await self.stop()

    async def on_stop(self) -> None:
        """See `leave`."""
        self._arrived.set()
        await self._consumer.stop(self._drain_s)
        left = self._consumer.partitions
        if left:  # the thread hangs in a call to Kafka: nothing is committed any more, so no answer may be evaluated
            self.dropped(left)
        for pool in (*self._pools.values(), *self._retired):
            pool.abort()
            await pool.close(1.0)
        self._pools.clear()
        if self._agent is not None:
            await self._end_agent()
        self._hooks.closed()
        self._context.observe.closed(self._consumer.client_name)

    async def _end_agent(self) -> None:
        """Stop the agent. Faust's own `stop` may wait for ever: start it, cancel the agent, and limit the wait."""
        agent = self._agent
        stopping = asyncio.ensure_future(agent.stop())
        await asyncio.sleep(0)
        agent.cancel()
        done, _ = await asyncio.wait({stopping}, timeout=_AGENT_STOP_S)
        if not done:
            stopping.cancel()
            log.warning("agent did not stop in time", subscription=self.subscription.label)
        self.app.agents.pop(agent.name, None)
        self.app.agents.beacon.discard(agent.beacon)  # otherwise Faust's trees of services keep it for ever
        self.app.topics.beacon.discard(agent)

    @Service.task
    async def _hand_over(self) -> None:
        """Pass batches from the consumer's thread through the channel to the agent."""
        put = self._agent.channel.put
        incoming, arrived = self._incoming, self._arrived
        while not self.should_stop:
            await arrived.wait()
            arrived.clear()
            while incoming:
                await put(incoming.popleft())

    def _enqueue(self, batches: list[Batch]) -> None:
        """The body of the agent. It never raises: Faust would restart the agent and skip the batch."""
        try:
            for partition, records in batches:
                self.scheduler.enqueue(partition, records)
        except Exception as problem:
            self.fatal(problem)
        finally:
            self._consumer.batches_enqueued()

    # -- for the supervisor

    def halt(self, reason: str) -> None:
        """Stop delivering events of the topic, and report the reason in the status."""
        self._consumer.halt(reason)

    def update(self, subscription: Subscription) -> None:
        """Apply a new generation of the same subscription (same uid, topic and group)."""
        # In this order: new lanes and the new subscriber apply before anything else is started.
        before = self.subscription
        self._apply(subscription)
        if before.order is not subscription.order:
            self.scheduler.reorder(subscription.order, self._consumer.partitions)
        self.scheduler.concurrency = subscription.concurrency
        self.scheduler.start_ready()
        wanted = {subscription.subscriber, subscription.reply, subscription.delivery.dead_letter_sink}
        for destination in [d for d in self._pools if d not in wanted]:
            self.add_future(self._retire(self._pools.pop(destination), before.delivery.timeout_s))
        log.info("subscription changed", subscription=subscription.label, generation=subscription.generation)
        self._context.changed()

    async def _retire(self, pool: ConnectionPool, limit_s: float) -> None:
        """Close the pool of a former destination; requests in flight have `limit_s` to end."""
        self._retired.add(pool)
        try:
            await pool.close(limit_s)
        finally:
            self._retired.discard(pool)

    def _apply(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self._label = subscription.label
        pool = self.pool(subscription.subscriber)
        self._prefix = pool.prefix(subscription.namespace)
        self._post = pool.post
        self._timeout_s, self._uri = subscription.delivery.timeout_s, subscription.subscriber.uri

    def status(self) -> WorkerSubscription:
        """The status of this subscription in this process, for the status topic."""
        partitions = self._consumer.partitions
        failures = "; ".join(f"partition {p.number}: {p.failure}" for p in partitions if p.failure)
        if failures:  # outranks a wait for Kafka: it needs an operator, the wait ends by itself
            state = WorkerState.FAILED
        elif self._consumer.commits.waiting:
            state = WorkerState.WAITING_FOR_KAFKA
        else:
            state = WorkerState.RUNNING if partitions else WorkerState.STARTING
        owned = tuple(sorted(p.number for p in partitions if not p.failure))
        return WorkerSubscription(self.subscription.generation, owned, state, failures)

    @property
    def poll_age_s(self) -> float:
        """Seconds since its consumer last polled."""
        return self._consumer.poll_age_s

    def snapshot(self) -> SubscriptionSnapshot:
        """Current values for the metrics. May be called from any thread."""
        partitions = self._consumer.partitions
        return SubscriptionSnapshot(
            subscription=self._label,
            partitions=len(partitions),
            in_flight=self.scheduler.in_flight,
            retrying=self._failures.retrying,
            lag=snapshots.lag(partitions),
            oldest=snapshots.oldest(self.scheduler),
            lanes=snapshots.lanes(partitions),
            buffered_bytes=snapshots.buffered_bytes(partitions),
            waiting_for_kafka=self._consumer.commits.waiting,
            commits=self._consumer.commits.count,
            commits_failed=self._consumer.commits.failures,
            rebalances=tuple(self._consumer.rebalances.items()),
            throttled=self.scheduler.throttled,
        )

    def stats(self) -> SubscriptionStats:
        """Statistics for the status topic. The rate is over the calls of the last minute."""
        partitions, failures = self._consumer.partitions, self._failures
        delivered = self.scheduler.settled - failures.not_delivered
        return SubscriptionStats(
            in_flight=self.scheduler.in_flight,
            retrying=failures.retrying,
            lag=snapshots.lag(partitions),
            oldest=snapshots.oldest(self.scheduler),
            delivered_per_s=round(self._rate.per_s(delivered, self._context.clock.monotonic()), 3),
            heads=failures.failing(),
            last_error=failures.last_error,
            throttled=self.scheduler.throttled,
        )

    # -- the happy path

    def _start(self, delivery: Delivery) -> None:
        """Make the first attempt of a delivery; the scheduler has given it a slot."""
        if self._on_started is not None:
            self._on_started(delivery)
        tracker, headers = delivery.partition.tracker, delivery.headers
        if delivery.offset in tracker.due:  # failed at an earlier owner: its wait may not be over
            self._retry_path.inherited(delivery)
            return
        request_headers: Headers = headers
        if self._on_request is not None:
            number = tracker.attempts.get(delivery.offset, 0) + 1
            request_headers = self._on_request(delivery, self._uri, number, headers)
        try:
            request = to_request(self._prefix, request_headers, delivery.value)
        except Unreadable as problem:
            self._retry_path.unreadable(delivery, problem.reason)
            return
        delivery.began = self._monotonic()
        self._post(request, self._timeout_s, partial(self._answered, delivery, self._uri))

    def _answered(
        self,
        delivery: Delivery,
        uri: str,
        status: int | SendError,
        pairs: list[tuple[bytes, bytes]] | None,
        body: bytes,
    ) -> None:
        try:
            seconds = self._monotonic() - delivery.began
            if isinstance(status, SendError):
                verdict: Verdict = decide_error(status.problem, status.message)
                self._not_delivered(delivery, uri, verdict, seconds, 0, status.problem)
                return
            verdict = decide(status, pairs, body)
            if verdict is DELIVERED:  # the happy path: everything is done here, in one callback
                if self._on_delivered is not None:
                    age_s = self._time() - delivery.timestamp_ms * 0.001
                    self._on_delivered(delivery, uri, status, seconds, age_s)
                self.scheduler.done(delivery)
                self._schedule_commit()
            else:
                self._not_delivered(delivery, uri, verdict, seconds, status, None)
        except Exception as problem:  # the loop only logs what a protocol callback raises
            self.fatal(problem)

    def _not_delivered(
        self, delivery: Delivery, uri: str, verdict: Verdict, seconds: float, status: int, problem: SendProblem | None
    ) -> None:
        """The first attempt did not simply succeed: the retry path has it from here on."""
        number = delivery.partition.tracker.attempts.get(delivery.offset, 0) + 1
        outcome = Outcome(verdict, uri, number, self._time(), seconds, status, problem)
        self._hooks.attempt(delivery, outcome)
        if isinstance(verdict, Reply):
            self._retry_path.replied(delivery, outcome)
        else:
            self._retry_path.failed(delivery, outcome)

    # -- for the retry path

    def pool(self, destination: Addressable) -> ConnectionPool:
        """The pool of this subscription for a destination."""
        pool = self._pools.get(destination)
        if pool is None:
            loop = asyncio.get_running_loop()
            pool = ConnectionPool(destination, self._context.pool_config, self._context.guard, loop)
            self._pools[destination] = pool
        return pool

    def schedule_commit(self) -> None:
        """Commit within the interval."""
        self._schedule_commit()

    async def barrier(self, partition: PartitionState) -> None:
        """Wait until the present state of the partition is committed."""
        await self._consumer.commits.barrier(partition)

    # -- for the consumer

    def opened(self, partitions: Sequence[PartitionState]) -> None:
        """Partitions were assigned."""
        numbers = [partition.number for partition in partitions]
        self._context.observe.assigned(self._consumer.client_name, self.subscription.topic, numbers)
        self._context.changed()

    def enqueue(self, batches: list[Batch]) -> None:
        """Queue records from the consumer's thread for the agent."""
        self._incoming.append(batches)
        self._arrived.set()

    async def drain(self, partitions: Sequence[PartitionState], limit_s: float) -> None:
        """Start nothing more, wait up to `limit_s` for what is in flight, then abandon the rest."""
        loop = asyncio.get_running_loop()
        until = loop.time() + limit_s
        self.scheduler.close(partitions)
        self._retry_path.release(partitions)
        # Polling is fine here: drains are rare and short, and an Event would have to be set on the happy path.
        while loop.time() < until and self._under_way(partitions):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        self._release(partitions)

    def _under_way(self, partitions: Sequence[PartitionState]) -> bool:
        return any(p.in_flight for p in partitions) or self._retry_path.busy(partitions)

    def dropped(self, partitions: Sequence[PartitionState]) -> None:
        """Partitions belong to other workers already."""
        self.scheduler.close(partitions)
        self._release(partitions)

    def waiting_for_kafka(self, waiting: bool) -> None:
        """Pause first attempts: events that are delivered while nothing can be committed may be delivered again."""
        self.scheduler.pause(waiting)
        self._context.changed()

    def failing(self) -> None:
        """A partition has been stopped."""
        self._context.changed()

    def _release(self, partitions: Sequence[PartitionState]) -> None:
        for partition in partitions:
            partition.owned = False  # first, so that the callbacks of aborted requests abandon their deliveries
        numbers = [partition.number for partition in partitions]
        self._context.observe.revoked(self._consumer.client_name, self.subscription.topic, numbers)
        self._retry_path.cancel(partitions)
        going = set(partitions)

        # First attempts are recognized by their callback; the tasks of the retry path are cancelled already.
        def goes(done: Done) -> bool:
            return isinstance(done, partial) and isinstance(done.args[0], Delivery) and done.args[0].partition in going

        for pool in (*self._pools.values(), *self._retired):
            pool.abort(goes)
        self._context.changed()


def _listeners(subscription: Subscription, context: DeliveryContext) -> Iterator[DeliveryListener]:
    """Those that the configuration of the process asks for."""
    yield (DebugDeliveryLog if context.config.log_deliveries else DeliveryLog)(subscription.label)
    yield MetricsListener(context.observe, subscription.label)
    if context.counters is not None:
        names = (subscription.namespace, subscription.channel, subscription.name)
        yield TrafficListener(context.counters.subscription(*names))
    if context.trace is not None:
        yield TracingListener(context.trace, subscription)
