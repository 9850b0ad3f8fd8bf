"""Carries out the actions of `reconcile` in their order. Neighbours of one kind with different targets go side by side.

A failure is remembered under its action's target and logged once; the next decision sees it. Before the first action
Kafka confirms that this process leads, and again whenever the last confirmation is older than half a session.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any, TypeVar

import structlog

from controller.config import ControllerConfig
from controller.election import Election
from controller.kafka.groups import observe_groups
from controller.kafka.leader_state_store import LeaderStateStore
from controller.kafka.offsets import Offsets
from controller.kafka.publisher import Publisher
from controller.kafka.topics import create_topic, delete_topic, observe_topics
from controller.model import PART_MAX
from controller.plan.actions import (
    Action,
    AddPartitions,
    AlterTopicConfig,
    CancelRemoval,
    CommitStart,
    CreateTopic,
    DeleteGroup,
    DeleteTopic,
    FindOffsets,
    Forget,
    ForgetSeek,
    MakeRoom,
    MoveOffsets,
    ObservedKafka,
    PublishChannel,
    PublishSubscription,
    RecordCreations,
    Remember,
    RememberSeek,
    Retract,
    Scope,
    WriteStatus,
)
from controller.plan.seeks import in_phase
from knative.contract.leader_state import LeaderState, Removal
from knative.contract.seeks import Seek, SeekPhase
from knative.resources.seek_position import seek_position
from tables.clock import now_s
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.admin.turns import turns_s
from tables.kafka.errors import KafkaFailed, KafkaUnavailable
from tables.kafka.loop_thread import call_in_thread

T = TypeVar("T")

log = structlog.get_logger(__name__)

_MOVES_LOGGED = 100  # partitions in one line of the log
#: Kinds of which each action changes nothing but its own topic, group or contract record.
_INDEPENDENT = (CreateTopic, CommitStart, DeleteGroup, PublishChannel, PublishSubscription, Retract)
_RECORDED = (Remember, Forget, CancelRemoval)  # they change what the leader must remember, which is written as a whole


class LeadershipLost(Exception):
    """Another process leads now. It will carry out the remaining actions."""


def runs(actions: Iterable[Action], most: int = PART_MAX) -> Iterator[list[Action]]:
    """Yields actions in their order, those together that may be carried out at the same time: neighbours of one kind
    with different targets. Pure."""
    run: list[Action] = []
    targets: set[str] = set()
    for action in actions:
        joins = run and type(action) is type(run[0]) and isinstance(action, _INDEPENDENT + _RECORDED)
        if run and not (joins and len(run) < most and action.target not in targets):
            yield run
            run, targets = [], set()
        run.append(action)
        targets.add(action.target)
    if run:
        yield run


class Executor:
    """Observes and changes Kafka. Event loop only; blocking calls run in threads, each with a time limit."""

    def __init__(
        self,
        config: ControllerConfig,
        admin: KafkaAdmin,
        publisher: Publisher,
        state: LeaderStateStore,
        election: Election,
    ) -> None:
        self._admin = admin
        self._contract_topic = config.contract_topic
        self._offsets = Offsets(admin, config.admin_timeout_s)
        self._publisher = publisher
        self._state = state
        self._election = election
        self._confirmed_s = 0.0  #: when Kafka was last asked and confirmed that this process leads
        self._confirmed_for_s = config.session_timeout_s / 2
        self._limit_s = 2 * config.admin_timeout_s + 1.0  # each call has its own limit; this guards against a hang
        self._group_limit_s = config.admin_timeout_s / 2
        self._failures: dict[str, str] = {}
        self._moved: set[str] = set()
        self._unknown: Mapping[str, str] = {}  #: group -> why it could not be observed the last time

    @property
    def failures(self) -> Mapping[str, str]:
        """Target -> why its last action failed."""
        return dict(self._failures)

    @property
    def seeks(self) -> Mapping[str, Seek]:
        """Seeks, by id."""
        return self._state.state.seeks

    @property
    def moved(self) -> frozenset[str]:
        """Groups whose new offsets were committed in this term, in the present phase of their seek."""
        return frozenset(self._moved)

    @property
    def removals(self) -> Mapping[str, Removal]:
        """Removals in progress, by uid."""
        return self._state.state.removals

    @property
    def creations(self) -> Mapping[str, Removal]:
        """What is created for resources that the contract does not have, by uid."""
        return self._state.state.creations

    def begin_term(self) -> None:
        """Forget the failures and moves of an earlier term."""
        self._failures.clear()
        self._moved.clear()

    async def confirm(self) -> None:
        """Ask Kafka whether this process leads. Raises LeadershipLost if it does not."""
        # The clock also runs while the process or the machine is stopped. The time is that of the question.
        asked_s = now_s()
        if not await self._election.confirm():
            raise LeadershipLost
        self._confirmed_s = asked_s

    async def observe(self, scope: Scope) -> ObservedKafka:
        """Returns the state in Kafka of everything in `scope`. Raises KafkaFailed, but not for a single group."""
        others = (group for group, _ in (*scope.starts, *scope.offsets, *scope.fanouts))
        # Groups are described, and then their offsets are read.
        longest_s = self._limit_s + 2 * turns_s(len({*scope.groups, *others}))
        observed = await self._blocking("observing topics and groups", partial(self._observe, scope), longest_s)
        for group, why in observed.unknown.items():
            if self._unknown.get(group) != why:
                log.warning(
                    "a consumer group cannot be observed; changes that depend on it wait", group=group, reason=why
                )
        self._unknown = observed.unknown
        return observed

    async def unavailable(self) -> str | None:
        """Returns why Kafka cannot be observed; None = it can."""
        try:
            await self.observe(Scope(frozenset({self._contract_topic}), (), frozenset()))
        except KafkaFailed as problem:
            return str(problem)
        return None

    def _observe(self, scope: Scope) -> ObservedKafka:
        topics = observe_topics(self._admin, scope.topics)
        topic_of = {group: topic for group, topic in (*scope.starts, *scope.offsets) if topic in topics}
        answer = observe_groups(
            partial(self._admin.groups.describe_all, limit_s=self._group_limit_s),
            lambda groups, failed: self._offsets.committed_by(
                {group: (topic_of[group], range(topics[topic_of[group]].partitions)) for group in groups}, failed
            ),
            {*scope.groups, *(group for group, _ in scope.fanouts)},
            topic_of,
        )
        committed = {group: frozenset(answer.offsets[group]) for group, _ in scope.starts if group in answer.offsets}
        offsets = {group: answer.offsets[group] for group, _ in scope.offsets if group in answer.offsets}
        fanouts = {topic: answer.members.get(group) for group, topic in scope.fanouts}
        return ObservedKafka(topics, committed, answer.states, offsets, answer.unknown, fanouts)

    async def carry_out(self, actions: Sequence[Action]) -> None:
        """Carry out actions in order. Raises LeadershipLost, and KafkaUnavailable because then the rest would fail
        too. Other failures are remembered, and the next action is tried."""
        # The term must stay the same: leadership that was lost and gained again means that another leader acted in
        # between.
        term = self._election.term
        await self.confirm()
        for run in runs(actions):
            # A process that was stopped for long still believes that it leads. Nothing but the group lock can tell, so
            # a confirmation counts for less time than another process needs to become the leader.
            if now_s() - self._confirmed_s > self._confirmed_for_s:
                await self.confirm()
            if not self._election.held or self._election.term != term or not self._state.holds:
                raise LeadershipLost
            problems = await self._do_all(run)
            for action, problem in zip(run, problems, strict=True):
                if problem is not None:
                    self._failed(action, str(problem))
                elif self._failures.pop(action.target, None) is not None:
                    log.info("controller action succeeds again", target=action.target)
            for problem in problems:
                if isinstance(problem, KafkaUnavailable):
                    raise problem

    def keep_failures_of(self, targets: frozenset[str]) -> None:
        """Drop the failures of all other targets, because no action is planned for them any more."""
        for target in self._failures.keys() - targets:
            del self._failures[target]

    def _failed(self, action: Action, why: str) -> None:
        if self._failures.get(action.target) != why:
            self._failures[action.target] = why
            log.warning("controller action failed", action=type(action).__name__, target=action.target, reason=why)

    async def _do_all(self, run: Sequence[Action]) -> list[KafkaFailed | None]:
        """Carry out a run of `runs`; returns why each has failed."""
        for action in run:
            log.debug("controller action", action=type(action).__name__, target=action.target)
        if isinstance(run[0], _RECORDED):
            return [await _problem_of(self._state.write(reduce(self._recorded, run, self._state.state)))] * len(run)
        return await asyncio.gather(*(_problem_of(self._do(action)) for action in run))

    def _recorded(self, state: LeaderState, action: Action) -> LeaderState:
        """Returns what the leader must remember after this action."""
        if isinstance(action, Remember):
            self._log_removal(action.removal)
            return state.with_removal(action.removal)
        assert isinstance(action, Forget | CancelRemoval), "the caller has looked"
        if isinstance(action, Forget):
            if action.why:
                log.error("a removal was given up", target=action.target, reason=action.why)
        else:
            removal = state.removals[action.uid]
            log.info(
                "a resource is kept, because its file was added again before it was removed",
                kind=removal.kind,
                resource=removal.label,
            )
        return state.without_removal(action.uid)

    async def _do(self, action: Action) -> None:
        if isinstance(action, PublishChannel):
            await self._publisher.publish_channel(action.channel)
        elif isinstance(action, PublishSubscription):
            await self._publisher.publish_subscription(action.subscription)
        elif isinstance(action, Retract):
            await self._publisher.retract(action.uid)
        elif isinstance(action, RememberSeek):
            await self._remember_seek(action.seek)
        elif isinstance(action, ForgetSeek):
            await self._state.write(self._state.state.without_seek(action.id))
        elif isinstance(action, FindOffsets):
            await self._find_offsets(action.seek, action.partitions)
        else:
            await self._blocking(f"{type(action).__name__} of {action.target}", self._kafka_call(action))
            if isinstance(action, MoveOffsets):
                self._moved.add(action.group)

    async def _remember_seek(self, seek: Seek) -> None:
        await self._state.write(self._state.state.with_seek(seek))
        self._moved.discard(seek.group)
        what = {"kind": seek.kind, "subscription": f"{seek.namespace}/{seek.name}", "to": seek.to}
        if seek.reason:
            log.warning("offsets are not moved", **what, by=seek.asked_by, phase=seek.phase.value, reason=seek.message)
        elif seek.is_over:
            moves = {move.partition: f"{move.old} -> {move.new}" for move in seek.moves[:_MOVES_LOGGED]}
            log.info("offsets were moved", **what, by=seek.asked_by, partitions=moves)
        else:
            log.info("offsets are being moved", **what, by=seek.asked_by, phase=seek.phase.value)

    async def _find_offsets(self, seek: Seek, partitions: int) -> None:
        position = seek_position(seek.to)
        call = partial(self._offsets.moves, seek.group, seek.topic, partitions, position)
        moves = await self._blocking(f"looking up offsets of group {seek.group}", call)
        await self._remember_seek(replace(in_phase(seek, SeekPhase.MOVING, time.time()), moves=moves))

    @staticmethod
    def _log_removal(removal: Removal) -> None:
        what = {"kind": removal.kind, "resource": removal.label}
        if removal.topics:
            log.warning("resource was removed; its topics are being deleted", **what, topics=", ".join(removal.topics))
        else:
            log.info("resource was removed", **what, group=removal.group)

    async def _blocking(self, doing: str, call: Callable[[], T], limit_s: float | None = None) -> T:
        limit_s = self._limit_s if limit_s is None else limit_s
        try:
            return await call_in_thread(call, limit_s, "controller-kafka")
        except TimeoutError as problem:
            raise KafkaUnavailable(
                f"{doing}: Kafka did not answer within {limit_s:g} s; check its brokers with `penstock doctor`"
            ) from problem

    def _kafka_call(self, action: Action) -> Callable[[], object]:
        if isinstance(action, CreateTopic):
            size, configs = (action.partitions, action.replication), dict(action.configs)
            return partial(create_topic, self._admin, action.topic, *size, configs, action.unasked)
        if isinstance(action, MakeRoom):
            return partial(self._admin.set_configs, action.topic, dict(action.configs))
        if isinstance(action, AlterTopicConfig):
            return partial(self._admin.set_configs, action.topic, dict(action.configs), action.reset)
        if isinstance(action, AddPartitions):
            return partial(self._admin.add_partitions, action.topic, action.partitions)
        if isinstance(action, DeleteTopic):
            return partial(delete_topic, self._admin, action.topic)
        if isinstance(action, DeleteGroup):
            return partial(self._admin.groups.delete, action.group)
        if isinstance(action, MoveOffsets):
            return partial(self._offsets.move, action.group, action.topic, action.moves)
        if isinstance(action, CommitStart):
            return partial(self._offsets.commit_start, action.group, action.topic, action.partitions, action.start)
        assert not isinstance(action, RecordCreations | WriteStatus), "the service writes all of them together"
        raise TypeError(f"unknown action {action!r}")


async def _problem_of(work: Coroutine[Any, Any, None]) -> KafkaFailed | None:
    try:
        await work
    except KafkaFailed as problem:
        return problem
    return None
