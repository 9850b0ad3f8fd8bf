"""The world as the controller sees it now, as a whole or the part of it that has changed."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from controller.config import ControllerConfig
from controller.executor import Executor
from controller.model import PART_MAX, Record
from controller.plan.actions import Action, AnyObject, ClusterView, ObservedKafka, Scope, World
from controller.plan.parts import Parts
from controller.plan.seeks import active
from controller.plan.specs import secrets_of
from controller.source.interface import Source
from controller.status.reporter import StatusReporter
from controller.term import Term
from knative.contract.broker_secrets import SecretProblem
from knative.resources.values import ResetOffset
from tables.contract_table import ContractTable
from tables.kafka.connection.broker_secrets import BrokerSecretFiles
from tables.status_table import StatusTable

WHOLE_RESYNCS = 20  #: comparisons with Kafka after which everything is decided again: ten minutes by default


class View:
    """Reads where the controller's knowledge is. Event loop only."""

    def __init__(
        self,
        config: ControllerConfig,
        contract: ContractTable,
        status: StatusTable,
        source: Source,
        executor: Executor,
        reporter: StatusReporter,
    ) -> None:
        self._config = config
        self._contract = contract
        self._status = status
        self._source = source
        self._executor = executor
        self._reporter = reporter
        self._broker_secrets = BrokerSecretFiles(config.kafka_secrets)

    async def collect(self, term: Term, now: float, *, contract: bool, status: bool) -> None:
        """Find out what the next decision is about: what has changed, or everything. `contract` and `status`: whether
        they have changed. Raises KafkaFailed."""
        dirty, due = self._source.take_dirty(), now >= term.retry_at
        whole_is_due = now - term.whole_at >= WHOLE_RESYNCS * self._config.resync_s
        term.dirty |= dirty or set()
        if term.parts is not None and (dirty is None or whole_is_due or self.is_about_everything(term)):
            term.parts = term.observed = None
            term.topics, term.queue, term.rest = frozenset(), set(), set()
        if term.parts is None:
            term.dirty = set()
            if contract or due or now - term.observed_at >= self._config.resync_s:
                term.observed = None
            return
        term.look |= bool(dirty) or due or contract
        await self._look_around(term, now, status=status)
        if contract or due:
            term.dirty |= self._changed(term.parts)
        if due:
            term.dirty |= {*self._executor.removals, *term.parts.concerned(self._executor.failures)}
            term.dirty |= term.parts.of_groups((term.observed or ObservedKafka()).unknown)
        if now - term.observed_at >= self._config.resync_s:
            term.observed_at = now
            before = term.observed or ObservedKafka()
            asked = Scope(term.topics, (), frozenset())
            term.observe(asked, await self._executor.observe(asked))
            term.dirty |= term.parts.changed_in_kafka(before, term.observed or before)

    async def _look_around(self, term: Term, now: float, *, status: bool) -> None:
        """Find what is dirty because of workers, of Secrets, and of time."""
        assert term.parts is not None, "the caller has looked"
        ticks = now - term.ticked_at >= self._config.status_tick_s
        if not ticks and not status:
            return
        term.ticked_at = now
        term.dirty |= term.unwritten
        term.unwritten = frozenset()
        secrets = await self.latest_secrets(term.parts.objects.values())
        if term.see_workers(self._status.workers, time.time()) or secrets != term.secrets:
            term.dirty |= term.parts.brokers()
        term.secrets = secrets

    async def secrets(self, objects: Iterable[AnyObject]) -> Mapping[str, SecretProblem]:
        """Returns the Secrets of Brokers that cannot be used. Raises TimeoutError if files cannot be read in time."""
        return await self._broker_secrets.problems(secrets_of(objects))

    async def latest_secrets(self, objects: Iterable[AnyObject]) -> Mapping[str, SecretProblem]:
        """Returns the Secrets of Brokers that cannot be used; if files cannot be read in time, the last known ones."""
        return await self._broker_secrets.latest(secrets_of(objects))

    def is_about_everything(self, term: Term) -> bool:
        """Returns whether a part is not enough: seeks, requests of people, and objects that are not all read."""
        asked = self._reporter.seek_requests(self._executor.seeks, time.time())
        resets = [self._source.object_of(uid) for uid in term.dirty] if term.parts is not None else []
        resets += [term.parts.objects.get(uid) for uid in term.dirty] if term.parts is not None else []
        return bool(
            not term.scan.complete
            or asked
            or active(self._executor.seeks.values())
            or self._status.requests
            or any(reset is not None and isinstance(reset.resource, ResetOffset) for reset in resets)
        )

    def take_apart(self, term: Term) -> None:
        """From now on, decisions are about parts, if that is enough. The first ones go through everything, part by
        part."""
        if self._source.polled or self.is_about_everything(term):
            return
        parts, published = Parts(self._config), self._by_uid()
        for object_ in self._source.objects(published.values(), ()):
            parts.put_object(object_.uid, object_)
        parts.follow(published, self._executor.removals)
        parts.revision = self._contract.revision
        if any(self._waits(object_) for object_ in parts.objects.values()):
            return
        now = time.monotonic()
        self._reporter.forget()
        term.see_workers(self._status.workers, time.time())
        term.parts, term.whole_at, term.observed_at, term.look = parts, now, now, True
        term.dirty = set()
        term.rest = {*parts.objects, *published, *self._executor.removals, *self._executor.creations}

    def _waits(self, object_: AnyObject) -> bool:
        """Returns whether it is a seek that has not begun; when it does is a matter of time."""
        resource = object_.resource
        return isinstance(resource, ResetOffset) and not resource.over and object_.uid not in self._executor.seeks

    def _renew(self, parts: Parts, dirty: Collection[str]) -> set[str]:
        changed = self._changed(parts)
        published = self._by_uid() if changed else {}
        touched = parts.renew(published, self._executor.removals, changed, dirty, self._source.object_of)
        parts.revision = self._contract.revision
        return touched

    def keep_failures(self, term: Term, world: World, actions: list[Action]) -> None:
        """Forget the failures of actions that this decision was about and that are no longer planned."""
        keep = {action.target for action in actions}
        if term.parts is not None and world.only is not None:
            failures = self._executor.failures
            keep |= {target for target in failures if not term.parts.concerned([target]) & world.only}
        self._executor.keep_failures_of(frozenset(keep))

    def published(self) -> list[Record]:
        """Returns all records of the contract."""
        return [*self._contract.channels.values(), *self._contract.subscriptions.values()]

    def _changed(self, parts: Parts) -> set[str]:
        """Returns the uids of what the parts do not know yet of the contract and the removals."""
        if parts.revision == self._contract.revision:
            return parts.removed(self._executor.removals)
        return parts.differences(self._by_uid(), self._executor.removals)

    def _by_uid(self) -> dict[str, Record]:
        return {**self._contract.channels, **self._contract.subscriptions}

    def world(self, term: Term) -> World:
        """Returns everything, or what is dirty and what it depends on."""
        world = self._whole(term) if term.parts is None else self._part(term, term.parts)
        published: list[Record] = [*world.channels.values(), *world.subscriptions.values()]
        retained = self._source.retained(world.complete, published, world.objects)
        return replace(world, retained=retained | self._source.retained_creations(world.complete, world.creations))

    def _whole(self, term: Term) -> World:
        channels, subscriptions = dict(self._contract.channels), dict(self._contract.subscriptions)
        retracted = self._executor.removals.keys() - channels.keys() - subscriptions.keys()
        objects = self._source.objects(self.published(), retracted)  # before what has vanished, which follows from them
        world = self._around(term, self._source.view())
        return replace(
            world, objects=objects, channels=channels, subscriptions=subscriptions, asked=self._source.released
        )

    def _part(self, term: Term, parts: Parts) -> World:
        world = self._around(term, self._source.view(whole=False))
        dirty = self._source.take_dirty()
        if dirty is not None:
            term.dirty |= dirty
        else:  # anything may have changed since the collection: the next one begins with all that is there then
            term.whole_at = float("-inf")
        term.queue |= self._renew(parts, term.dirty)
        term.dirty = set()
        term.take_turn(PART_MAX, parts.namespace_of)
        return parts.world(world, term.focus)

    def _around(self, term: Term, cluster: ClusterView | None) -> World:
        """Returns all but objects, what is published, and what people ask for."""
        now, creations, complete = time.time(), self._executor.creations, term.scan.complete
        return World(
            observed=term.observed or ObservedKafka(),
            workers=dict(self._status.workers),
            removals=self._executor.removals,
            creations=creations,
            vanished=self._source.vanished(complete, creations, now),
            failures=self._executor.failures,
            now=now,
            leads_since=term.since,
            cluster=cluster,
            missing_is_deleted=cluster is not None,
            complete=complete,
            seeks=self._executor.seeks,
            moved=self._executor.moved,
            seek_requests=self._reporter.seek_requests(self._executor.seeks, now),
            silent=self._reporter.silent(time.monotonic()),
        )
