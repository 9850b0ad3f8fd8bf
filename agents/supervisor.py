"""Keeps one `SubscriptionRunner` running for every subscription of the contract, and follows its changes.

contract changes -> diff by uid -> start | update in place | stop (each bounded, none waits for another)

A Trigger whose Broker has a Secret of its own gets clients with that; as long as it cannot be used, the Trigger is not
started, and reported with the reason. Another Secret means another user of Kafka: the Trigger is drained, and starts
again.

A subscription that a seek has stopped is drained, commits, and is then reported as stopped. What this process remembers
of its offsets is forgotten with its runner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol

import structlog

from agents.dispatch.context import DeliveryContext
from agents.dispatch.own_kafka import OwnKafka, Secrets
from agents.dispatch.runner import SubscriptionRunner
from agents.reader.readers import Readers
from agents.reader.topic_identity import TopicIdentity
from knative import cesql
from knative.contract.broker_secrets import INVALID, NOT_FOUND, SecretProblem
from knative.contract.records import Subscription, WorkerState, WorkerSubscription
from knative.contract.subscription_stats import SubscriptionSnapshot, SubscriptionStats
from knative.filters import has_expression
from tables.faust_support import forget_service

log = structlog.get_logger(__name__)

#: Kafka clients that a process may have: the Python client needs a key of thread-local storage for each, of which there
#: are 1,024. The rest is for those of the worker itself.
CLIENTS_MOST = 1_000
#: Topics that a worker reads. Each needs a Kafka client of its own.
MOST = 900
_CLIENTS_OF_SECRET = 2  # a producer, and one for administration


class Contract(Protocol):
    """What the supervisor needs of the contract."""

    @property
    def loaded(self) -> bool:
        """Whether the contract topic has been read to its end."""

    @property
    def subscriptions(self) -> Mapping[str, Subscription]:
        """By uid."""

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each change."""


def beyond(subscriptions: Collection[Subscription], read: Collection[str], most: int = CLIENTS_MOST) -> set[str]:
    """Returns the subscriptions, by uid, that cannot be started, because the process would have more than `most`
    clients: one for each topic. `read`: the topics that are read now. Pure."""
    served = [subscription for subscription in subscriptions if subscription.is_served]
    secrets = {subscription.secret for subscription in served} - {""}
    free = min(MOST, most - _CLIENTS_OF_SECRET * len(secrets)) - len(read)
    new = dict.fromkeys(subscription.topic for subscription in served if subscription.topic not in read)
    late = set(list(new)[max(free, 0) :])
    return {subscription.uid for subscription in served if subscription.topic in late}


_SECRET_STATES = {NOT_FOUND: WorkerState.SECRET_NOT_FOUND, INVALID: WorkerState.SECRET_INVALID}


class _Clients:
    """What the subscriptions share that use the same credentials for Kafka."""

    def __init__(self, context: DeliveryContext, own: OwnKafka | None = None) -> None:
        """`own`: of a Broker's Secret; None = the credentials of the installation."""
        if own is not None:
            context = replace(context, config=replace(context.config, kafka=own.kafka), produce=own.produce)
        self.own = own
        self.context = context
        self.readers = Readers(context.config, context.observe, context.fatal, context.reported)


class Supervisor:
    """Event loop only. `start` once, `stop` once."""

    def __init__(self, app: Any, contract: Contract, context: DeliveryContext, secrets: Secrets | None = None) -> None:
        """`secrets` None: Brokers cannot have Secrets of their own."""
        self._app = app
        self._beyond: set[str] = set()
        self._contract = contract
        self._context = context
        self._secrets = secrets
        self._clients = {"": _Clients(context)}  # by reference of the Secret
        self._uses: dict[SubscriptionRunner, _Clients] = {}  # until it has left
        self._without: dict[str, WorkerSubscription] = {}  # those whose Secret cannot be used
        self._runners: dict[str, SubscriptionRunner] = {}
        self._leaving: dict[str, asyncio.Task[None]] = {}
        self._stopped: dict[str, Subscription] = {}  # those that a seek has stopped
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._knows_expressions = False
        self._topic_identity = TopicIdentity(context.config.kafka, self._subscriptions, self._halt, context.fatal)

    def start(self) -> None:
        """Start to follow the contract."""
        self._task = asyncio.get_running_loop().create_task(self._follow())
        self._contract.on_change(self._wake.set)
        self._wake.set()
        if self._secrets is not None:
            self._secrets.on_change(self._wake.set)
        self._topic_identity.start()

    async def stop(self, drain_s: float) -> None:
        """Drain all subscriptions in parallel, commit and leave the groups."""
        self._stopping = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=5)
        await self._topic_identity.stop()
        for uid in list(self._runners):
            self._remove(uid, drain_s)
        if self._leaving:
            await asyncio.wait(set(self._leaving.values()), timeout=drain_s + 20)
        await asyncio.gather(*(clients.readers.stop() for clients in self._clients.values()))

    def statuses(self) -> dict[str, WorkerSubscription]:
        """Returns the status of each subscription in this process, by uid."""
        uids = dict.fromkeys((*self._without, *self._stopped, *self._runners))
        return {uid: status for uid in uids if (status := self.status(uid)) is not None}

    def status(self, uid: str) -> WorkerSubscription | None:
        """Returns the status of one of them; None = there is nothing to say."""
        runner, stopped = self._runners.get(uid), self._stopped.get(uid)
        if runner is not None:
            return runner.view.status()
        if stopped is not None and uid not in self._leaving:
            return WorkerSubscription(stopped.generation, (), WorkerState.STOPPED, stopped.seek)
        return self._without.get(uid)

    def poll_age_s(self) -> float:
        """Returns the largest poll age of all readers, in seconds; 0 without any."""
        return max((runner.view.poll_age_s for runner in self._runners.values()), default=0.0)

    @property
    def max_poll_interval_s(self) -> float:
        """A reader with this poll age does not recover."""
        return self._context.config.max_poll_interval_s

    def snapshots(self) -> list[SubscriptionSnapshot]:
        """Returns current values for the metrics. May be called from any thread."""
        return [runner.view.snapshot() for runner in list(self._runners.values())]

    def stats(self, uids: Iterable[str] | None = None) -> dict[str, SubscriptionStats]:
        """Returns statistics of each subscription for the status topic, by uid; `uids`: of these only."""
        served = self._runners if uids is None else [uid for uid in uids if uid in self._runners]
        return {uid: self._runners[uid].view.stats() for uid in served}

    def _subscriptions(self) -> list[Subscription]:
        return [runner.subscription for runner in self._runners.values()]

    def _halt(self, uid: str, why: str) -> None:
        self._runners[uid].halt(why)

    async def _follow(self) -> None:
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                if self._contract.loaded:
                    await self._apply(dict(self._contract.subscriptions))
        except Exception as problem:
            self._context.fatal(problem)

    async def _apply(self, subscriptions: dict[str, Subscription]) -> None:
        stopped = {uid: subscription for uid, subscription in subscriptions.items() if subscription.stopped}
        if stopped != self._stopped:
            before, self._stopped = self._stopped, stopped
            self._have_changed(before, stopped)
        for uid in [uid for uid in self._runners if uid not in subscriptions]:
            self._remove(uid, 0.0, deleted=True)
        self._report_beyond(beyond(subscriptions.values(), {runner.subscription.topic for runner in self._uses}))
        if not self._knows_expressions and any(
            has_expression(subscription.filter) for subscription in subscriptions.values()
        ):
            await asyncio.to_thread(cesql.compile, "TRUE")  # the first one takes 0.1 s, for Lark and the grammar
            self._knows_expressions = True
        without: dict[str, WorkerSubscription] = {}
        for uid, subscription in subscriptions.items():
            runner = self._runners.get(uid)
            if not subscription.is_served:
                if runner is not None:
                    self._remove(uid, self._context.config.revoke_drain_s)
                continue  # one that is stopped is reported as such once it has left
            # Another topic or group means other offsets: that needs a new member, not an update.
            if runner is not None and _moved(runner.subscription, subscription):
                self._remove(uid, self._context.config.revoke_drain_s)
                runner = None
            # A seek was over before this process noticed it. What it would commit now belongs to the time before.
            if runner is not None and runner.subscription.seek != subscription.seek:
                self._remove(uid, 0.0, deleted=True)
                runner = None
            if runner is None:
                clients = self._clients_of(subscription.secret)
                if isinstance(clients, SecretProblem):
                    state = _SECRET_STATES.get(clients.reason, WorkerState.SECRET_NOT_TRIED)
                    why = clients.message if clients.reason else ""
                    without[uid] = WorkerSubscription(subscription.generation, (), state, why)
                elif uid not in self._beyond:
                    await self._add(subscription, clients)
                    await asyncio.sleep(0)  # to compile its filter took long, perhaps
            elif runner.subscription != subscription:
                if not runner.update(subscription):  # once it has left, it is added again
                    self._remove(uid, self._context.config.revoke_drain_s)
                    self._wake.set()
                await asyncio.sleep(0)
        if without != self._without:
            waited, self._without = self._without, without
            self._have_changed(waited, without)

    def _have_changed(self, before: Mapping[str, object], after: Mapping[str, object]) -> None:
        for uid in before.keys() | after.keys():
            if before.get(uid) != after.get(uid):
                self._context.changed(uid)

    def _clients_of(self, secret: str) -> _Clients | SecretProblem:
        """Returns the clients with these credentials, or why there are none."""
        if not secret:
            return self._clients[""]
        if self._secrets is None:
            return SecretProblem(NOT_FOUND, f"this process cannot use the Kafka secret {secret}")
        own = self._secrets.get(secret)
        if isinstance(own, SecretProblem):
            return own
        clients = self._clients.get(secret)
        if clients is None or clients.own is not own:
            clients = self._clients[secret] = _Clients(self._context, own)
        return clients

    def _report_beyond(self, uids: set[str]) -> None:
        if uids != self._beyond:
            log.error(
                "subscriptions are not served, because a worker cannot have more Kafka clients",
                served=len(self._runners),
                not_served=len(uids),
                hint="use fewer channels with more subscriptions each, or several instances",
            )
        self._beyond = uids

    async def _add(self, subscription: Subscription, clients: _Clients) -> None:
        leaving = self._leaving.get(subscription.uid)
        if leaving is not None:
            leaving.add_done_callback(
                lambda _: self._wake.set()
            )  # one member at a time: start when the old one has left
            return
        runner = SubscriptionRunner(self._app, subscription, clients.context, clients.readers)
        self._uses[runner] = clients
        self._runners[subscription.uid] = runner
        await self._app.add_runtime_dependency(runner)
        log.info("subscription started", subscription=subscription.label, uid=subscription.uid)
        self._context.changed(subscription.uid)

    def _remove(self, uid: str, drain_s: float, *, deleted: bool = False) -> None:
        runner = self._runners.pop(uid)
        if deleted:
            runner.group_deleted()
        task = asyncio.get_running_loop().create_task(self._leave(runner, drain_s))
        self._leaving[uid] = task
        task.add_done_callback(lambda _: self._left(uid))
        self._context.changed(uid)

    def _left(self, uid: str) -> None:
        del self._leaving[uid]
        if self._beyond:
            self._wake.set()
        if uid in self._stopped:
            self._context.changed(uid)

    async def _unused(self, clients: _Clients) -> None:
        """Close the clients of a Broker's Secret if no runner has them any more."""
        if clients.own is None or clients in self._uses.values():
            return
        self._clients = {secret: others for secret, others in self._clients.items() if others is not clients}
        await clients.readers.stop()

    async def _leave(self, runner: SubscriptionRunner, drain_s: float) -> None:
        try:
            await runner.leave(drain_s)
        except Exception as problem:
            self._context.fatal(problem)
        forget_service(self._app, runner)
        await self._unused(self._uses.pop(runner))
        if not self._stopping:
            self._context.observe.forget(runner.subscription.label)
            log.info("subscription stopped", subscription=runner.subscription.label, uid=runner.subscription.uid)
            self._context.gone()


def _moved(before: Subscription, after: Subscription) -> bool:
    return (before.topic, before.group, before.secret) != (after.topic, after.group, after.secret)
