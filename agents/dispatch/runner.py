"""Runs one subscription in this process: its member of the topic, its Faust agent and its dispatcher.

    reader, its member --batches--> channel --> Faust agent --> Scheduler --> Dispatcher
           ^                                                                     |
           +------ commits; partitions assigned, revoked, lost ------------------+

`agents/supervisor` decides which subscriptions there are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable, Iterator, Sequence
from typing import Any

import structlog
from mode import Service

from agents.dispatch.context import DeliveryContext
from agents.dispatch.dispatcher import Dispatcher
from agents.dispatch.view import SubscriptionView
from agents.listeners.base import DeliveryListener, Hooks
from agents.listeners.delivery_log import DebugDeliveryLog, DeliveryLog
from agents.listeners.failures import Failures
from agents.listeners.metrics import MetricsListener
from agents.listeners.tracing import TracingListener
from agents.listeners.traffic import TrafficListener
from agents.offsets.partition import Batch, PartitionState
from agents.reader.readers import Readers
from knative.contract.kafka_names import agent_name
from knative.contract.records import TRIGGER, Subscription
from knative.filters import Matcher
from tables.faust_support import end_agent, put_now
from tables.timing import CLOSE_S

log = structlog.get_logger(__name__)


class SubscriptionRunner(Service):
    """A mode Service whose parent is the Faust App. Event loop only."""

    abstract = False
    logger = logging.getLogger("mode.subscription")  # quiet: `agents/supervisor` logs starts and stops

    def __init__(self, app: Any, subscription: Subscription, context: DeliveryContext, readers: Readers) -> None:
        super().__init__(loop=asyncio.get_running_loop())
        self.app = app
        self.fatal = context.fatal
        self._context = context
        failures = Failures()
        self._hooks = Hooks([failures, *_listeners(subscription, context)])
        self.filtered = self._hooks.filtered
        self._member = readers.member(subscription, self)
        self.dispatcher = Dispatcher(subscription, context, self._member.commits, self._hooks)
        self.view = SubscriptionView(self.dispatcher, self._member, failures, context.clock)
        self._agent: Any = None  # from the first event that passes on; one with its services has 45 kB
        self._starting: asyncio.Task[None] | None = None
        self._before_agent: list[list[Batch]] = []
        self._drain_s = context.config.revoke_drain_s

    @property
    def subscription(self) -> Subscription:
        """In its present generation."""
        return self.dispatcher.subscription

    # -- life

    async def on_start(self) -> None:
        """Join the group."""
        self._member.start()

    async def _start_agent(self) -> None:
        """Create the channel and its agent, and give it what has come meanwhile."""
        channel = self.app.channel(maxsize=0)  # the budget of the member is its limit

        async def deliver(stream: AsyncIterable[list[Batch]]) -> None:
            async for batches in stream:
                self._deliver(batches)

        try:
            name = agent_name(self.subscription.namespace, self.subscription.name, self.subscription.uid)
            agent = self.app.agent(channel, name=name)(deliver)
            await agent.start()
        except Exception as problem:
            self.fatal(problem)
            return
        self._agent = agent
        for batches in self._before_agent:
            put_now(channel, batches)
        self._before_agent.clear()

    async def leave(self, drain_s: float) -> None:
        """Drain, commit and leave the group, then end the agent, in `drain_s` plus some seconds."""
        self._drain_s = drain_s
        await self.stop()

    async def on_stop(self) -> None:
        """See `leave`."""
        await self._member.stop(self._drain_s)
        await self.dispatcher.close()
        if self._starting is not None:
            await asyncio.wait({self._starting}, timeout=CLOSE_S)
        if self._agent is not None and not await end_agent(self.app, self._agent, CLOSE_S):
            log.warning("agent did not stop in time", subscription=self.subscription.label)
        self._hooks.closed()
        self._context.observe.closed(self._member.client_name)

    def _deliver(self, batches: list[Batch]) -> None:
        """Runs as the body of the agent. It never raises: Faust would restart the agent and skip the batch."""
        try:
            for partition, records, end in batches:
                self.dispatcher.scheduler.enqueue(partition, records, end)
        except Exception as problem:
            self.fatal(problem)

    # -- for the supervisor

    def halt(self, reason: str) -> None:
        """Stop delivering events of the topic, and report the reason in the status."""
        self._member.halt(reason)

    def group_deleted(self) -> None:
        """The subscription is deleted, and its group with it: commit nothing more that could create it again."""
        self._member.group_deleted()

    def update(self, subscription: Subscription) -> bool:
        """Apply a new generation of the same subscription (same uid, topic and group). False: it must start again."""
        pools = self.dispatcher.update(subscription, self._member.partitions)
        if pools is None:
            return False
        for pool in pools:
            self.add_future(self.dispatcher.retire(pool, self._context.config.revoke_drain_s))
        log.info("subscription changed", subscription=subscription.label, generation=subscription.generation)
        self._context.changed(self.subscription.uid)
        return True

    # -- for the member

    def opened(self, partitions: Sequence[PartitionState]) -> None:
        """Partitions were assigned."""
        numbers = [partition.number for partition in partitions]
        self._context.observe.assigned(self._member.client_name, self.subscription.topic, numbers)
        self._context.changed(self.subscription.uid)

    def enqueue(self, batches: list[Batch]) -> None:
        """Put records into the channel of the agent."""
        if self._agent is not None:
            put_now(self._agent.channel, batches)
            return
        self._before_agent.append(batches)
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(self._start_agent())

    @property
    def matcher(self) -> Matcher | None:
        """The filter of the present generation."""
        return self.dispatcher.matcher

    @property
    def at_once(self) -> int:
        """How many events it may judge before others have their turn."""
        return self.dispatcher.at_once

    async def drain(self, partitions: Sequence[PartitionState], limit_s: float) -> None:
        """Start nothing more, wait up to `limit_s` for what is in flight, then abandon the rest."""
        await self.dispatcher.drain(partitions, limit_s)
        numbers = [partition.number for partition in partitions]
        self._context.observe.revoked(self._member.client_name, self.subscription.topic, numbers)
        self._context.changed(self.subscription.uid)

    def waiting_for_kafka(self, waiting: bool) -> None:
        """Pause first attempts: events that are delivered while nothing can be committed may be delivered again."""
        self.dispatcher.scheduler.pause(waiting)
        self._context.changed(self.subscription.uid)

    def failing(self) -> None:
        """A partition has been stopped."""
        self._context.changed(self.subscription.uid)


def _listeners(subscription: Subscription, context: DeliveryContext) -> Iterator[DeliveryListener]:
    """Yields those that the configuration of the process asks for."""
    yield (DebugDeliveryLog if context.config.log_deliveries else DeliveryLog)(subscription.label)
    yield MetricsListener(context.observe, subscription.label)
    if context.counters is not None:
        names = (subscription.namespace, subscription.unique_channel, subscription.unique_name)
        replies = context.counters.channel(*names[:2]) if subscription.kind == TRIGGER else None
        yield TrafficListener(context.counters.subscription(*names), replies)
    if context.trace is not None:
        yield TracingListener(context.trace, subscription)
