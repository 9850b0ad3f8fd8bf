"""Makes the first attempt of each delivery of one subscription, and evaluates the answer: the happy path.

    Scheduler --> _start --> ConnectionPool.post --> _answered --> delivered: Scheduler.done --> commit
                    |                                    |
                    | not a CloudEvent, or attempted     | any other answer, or none
                    | by an earlier owner                |
                    +---------> RetryPath <--------------+
                                    |
                                    +--> (a task) ... settled: Scheduler.settle --> commit

The happy path has two callbacks per event, no Task, no Future; `Hooks` are called only where a listener hears them. All
else is in `agents/dispatch/retry_path`. A changed subscription is applied in place from the next attempt on.

What does not pass the filter of a Trigger never gets here: the scheduler settles it when it arrives (`_passes`).

Does not decide what an answer means: `knative/delivery/verdicts` does.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from functools import partial

import structlog

from agents.dispatch.context import DeliveryContext
from agents.dispatch.hops import Hops, TooManyHops
from agents.dispatch.retry_path import RetryPath
from agents.dispatch.retrying import Caps
from agents.http.pool import ConnectionPool, Done, SendError
from agents.listeners.base import Hooks
from agents.offsets.commits import Commits
from agents.offsets.partition import Delivery, PartitionState
from agents.ordering.scheduler import Scheduler
from knative.cloudevents.kafka_binding import Unreadable
from knative.cloudevents.request_plan import planned_json_request, planned_request
from knative.contract.records import Subscription
from knative.delivery.attempt import Outcome
from knative.delivery.policy import Addressable, DeliveryFormat
from knative.delivery.verdicts import DELIVERED, Reply, SendProblem, Verdict, decide, decide_error
from knative.filters import CompiledFilter, compile_filter
from knative.filters.attributes import attributes_of
from knative.ports import Headers

log = structlog.get_logger(__name__)

_SHOWN_MAX = 200  # characters of an event's id and source


class Dispatcher:
    """Scheduler, connection pools and retry path of one subscription. Event loop only; `close` it."""

    def __init__(self, subscription: Subscription, context: DeliveryContext, commits: Commits, hooks: Hooks) -> None:
        self.subscription = subscription
        self.fatal = context.fatal
        self.scheduler = Scheduler(self._start, subscription.order, subscription.concurrency, context.turns)
        self.schedule_commit, self.barrier = commits.schedule_commit, commits.barrier
        self._context = context
        self._hooks = hooks
        # Bound here, because an attribute of an attribute costs time on the happy path.
        self._on_started, self._on_request, self._on_delivered = hooks.started, hooks.request, hooks.delivered
        self._monotonic, self._time = context.clock.monotonic, context.clock.time
        caps = Caps(context.config.retry_delay_cap_s, context.config.retry_after_cap_s)
        self._hops = Hops(context.config.reply_depth_max, context.own_addresses)
        self._retry_path = RetryPath(self, hooks, context.produce, context.clock, caps, self._hops)
        self._pools: dict[Addressable, ConnectionPool] = {}
        self._retired: set[ConnectionPool] = set()  # of former destinations, with attempts still in flight
        self.filter_problem = ""  #: why the filter could not judge an event, the first since it was set; "" = it could
        self._filter: CompiledFilter | None = None
        self._apply(subscription, compile_filter(subscription.filter, self._filter_exceeded))
        if context.own_ingress is not None:
            context.own_ingress.follow(self._renew_prefix)
        context.own_addresses.follow(self._renew_request)

    # -- one event

    def _start(self, delivery: Delivery) -> None:
        """Make the first attempt of a delivery; the scheduler has given it a slot."""
        if self._on_started is not None:
            self._on_started(delivery)
        tracker = delivery.partition.tracker
        # It failed at an earlier owner, and its wait may not be over. Not `attempts`: when all are used up, there is
        # nothing to wait for. If that owner ended before the dead letter was stored, one more attempt is made.
        if delivery.offset in tracker.due:
            self._retry_path.inherited(delivery)
            return
        headers: Headers = delivery.headers
        if self._on_request is not None:
            number = tracker.attempts.get(delivery.offset, 0) + 1
            headers = self._on_request(delivery, self._url, number, headers)
        try:
            request = self._to_request(self._prefix, headers, delivery.value)
        except Unreadable as problem:  # it is settled without an attempt
            self._retry_path.unreadable(delivery, problem.reason)
            return
        except TooManyHops as problem:
            number = tracker.attempts.get(delivery.offset, 0) + 1
            verdict = problem.verdict
            outcome = Outcome(verdict, self._url, number, self._time(), 0.0, verdict.code)
            self._hooks.attempt(delivery, outcome)
            self._retry_path.not_sent(delivery, outcome)
            return
        delivery.began = self._monotonic()
        self._post(request, self._timeout_s, partial(self._answered, delivery, self._url))

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
                if status.problem is SendProblem.GIVEN_UP and delivery.partition.owned:
                    self._hooks.aborted(delivery)
                    self._retry_path.given_up(delivery)
                    return
                verdict: Verdict = decide_error(status.problem, status.message)
                self._not_delivered(delivery, uri, verdict, seconds, 0, status.problem)
                return
            verdict = decide(status, pairs, body)
            if verdict is DELIVERED:  # the happy path: everything is done here, in one callback
                if self._on_delivered is not None:
                    age_s = self._time() - delivery.timestamp_ms * 0.001
                    self._on_delivered(delivery, uri, status, seconds, age_s)
                self.scheduler.done(delivery)
                self.schedule_commit()
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

    # -- the subscription

    def _apply(self, subscription: Subscription, compiled: CompiledFilter | None) -> None:
        self.subscription = subscription
        self._post = self.pool(subscription.subscriber).post
        self._renew_prefix()
        self._timeout_s, self._url = subscription.delivery.timeout_s, subscription.subscriber.shown_uri
        self._renew_request()
        #: The filter of this generation; None = every event passes.
        self.matcher = None if compiled is None else compiled.matches
        #: How many events it may judge before others have their turn.
        self.at_once = sys.maxsize if compiled is None else compiled.at_once
        self._filter = compiled
        self.scheduler.passes = None if compiled is None else self._passes

    def _renew_request(self) -> None:
        """Bind what makes requests, here and again when the addresses of the installation change."""
        subscription = self.subscription
        make = planned_json_request if subscription.delivery.format is DeliveryFormat.JSON else planned_request
        self._to_request = self._hops.counted(make, subscription.subscriber)

    def _renew_prefix(self) -> None:
        """Bind what requests begin with, here and again when a token changes."""
        self._prefix = self.pool(self.subscription.subscriber).prefix(self.subscription.namespace)

    def wants(self, delivery: Delivery) -> bool:
        """Returns whether the event passes the filter. What is not a CloudEvent does: it becomes a dead letter."""
        matcher = self.matcher
        if matcher is None or delivery.judged is matcher:
            return True
        attributes = attributes_of(delivery.headers, delivery.value)
        passes = attributes is None or matcher(attributes)
        delivery.judged = matcher if passes else None
        return passes

    def _filter_exceeded(self, why: str, attributes: Mapping[str, str]) -> None:
        """The filter needs more than it may have for an event, which does not pass."""
        self._hooks.filter_exceeded(why)
        if not self.filter_problem:
            self.filter_problem = why
            log.warning(
                "the event exceeds a limit of the filter and does not match; more such events are only counted in "
                "the metrics",
                subscription=self.subscription.label,
                id=attributes.get("id", "")[:_SHOWN_MAX],
                source=attributes.get("source", "")[:_SHOWN_MAX],
                reason=why,
            )
            self._context.changed(self.subscription.uid)

    def _passes(self, delivery: Delivery) -> bool:
        """Tells the scheduler, which settles at once what does not pass."""
        if self.wants(delivery):
            return True
        if self._hooks.filtered is not None:
            self._hooks.filtered(delivery.headers)
        self.schedule_commit()
        return False

    def update(self, subscription: Subscription, partitions: Sequence[PartitionState]) -> list[ConnectionPool] | None:
        """Apply a new generation of the same subscription. Returns the pools of former destinations, to `retire`. A
        shorter time limit counts from now on for what is in flight. None: so many events wait that the new filter would
        hold up the loop, so nothing was changed."""
        before, compiled = self.subscription, self._filter
        if before.filter != subscription.filter:
            compiled = compile_filter(subscription.filter, self._filter_exceeded)
            if compiled is not None and sum(partition.held for partition in partitions) > compiled.at_once:
                return None
            self.filter_problem = ""
        # In this order: new lanes and the new subscriber apply before anything else is started.
        self._apply(subscription, compiled)
        if before.order is not subscription.order or before.filter != subscription.filter:
            self.scheduler.reorder(subscription.order, partitions)
        self.scheduler.concurrency = subscription.concurrency
        self.scheduler.start_ready()
        destinations = {subscription.subscriber, subscription.reply, subscription.delivery.dead_letter_sink}
        former = [self._pools.pop(destination) for destination in list(self._pools) if destination not in destinations]
        self._retired.update(former)
        if subscription.delivery.timeout_s < before.delivery.timeout_s:
            for pool in self._pools.values():
                pool.shorten(subscription.delivery.timeout_s)
        return former

    def pool(self, destination: Addressable) -> ConnectionPool:
        """Returns the pool of this subscription for a destination."""
        pool = self._pools.get(destination)
        if pool is None:
            loop = asyncio.get_running_loop()
            context = self._context
            pool = ConnectionPool(destination, context.pool_config, context.guard, context.own_ingress, loop)
            self._pools[destination] = pool
        return pool

    async def retire(self, pool: ConnectionPool, limit_s: float) -> None:
        """Close the pool of a former destination. Requests in flight have `limit_s` to end; those that do not are made
        again, at the destination of now, and do not count as attempts."""
        try:
            await pool.close(limit_s, SendProblem.GIVEN_UP)
        finally:
            self._retired.discard(pool)

    # -- ends

    async def drain(self, partitions: Sequence[PartitionState], limit_s: float) -> None:
        """Start nothing more, wait up to `limit_s` for what is in flight, then abandon the rest."""
        loop = asyncio.get_running_loop()
        until = loop.time() + limit_s
        self.scheduler.close(partitions)
        self._retry_path.release(partitions)
        # Polling is fine here: drains are rare and short, and an Event would have to be set on the happy path.
        while loop.time() < until and self._under_way(partitions):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        self.abandon(partitions)

    def _under_way(self, partitions: Sequence[PartitionState]) -> bool:
        return any(p.in_flight for p in partitions) or self._retry_path.busy(partitions)

    def abandon(self, partitions: Sequence[PartitionState]) -> None:
        """Leave everything that is not settled to the next owner of these partitions, at once."""
        self.scheduler.close(partitions)
        for partition in partitions:
            partition.owned = False  # first, so that the callbacks of aborted requests abandon their deliveries
        self._retry_path.cancel(partitions)
        going = set(partitions)

        # First attempts are recognized by their callback; the tasks of the retry path are cancelled already.
        def goes(done: Done) -> bool:
            return isinstance(done, partial) and isinstance(done.args[0], Delivery) and done.args[0].partition in going

        for pool in (*self._pools.values(), *self._retired):
            pool.abort(goes)

    async def close(self) -> None:
        """Abort all requests and close the connections."""
        if self._context.own_ingress is not None:
            self._context.own_ingress.unfollow(self._renew_prefix)
        self._context.own_addresses.unfollow(self._renew_request)
        for pool in (*self._pools.values(), *self._retired):
            pool.abort()
            await pool.close(1.0)
        self._pools.clear()
