"""Plans seeks: moving the offsets of a subscription once, while no worker serves it. Pure.

    asked -> refused, or recorded -> stopped on all workers -> old and new offsets recorded -> committed and read back
          -> started again -> over

The phases are those of `knative/contract/seeks`. A leader that takes over sees the recorded phase, the contract, what
workers report and what Kafka holds, and repeats at most the step that was under way.

A worker whose record does not change counts as gone after `silent_s`, which is longer than its session. Kafka no longer
takes it for a member then, and it commits nothing when it wakes. Another worker may have another setting, so the
members that Kafka counts must be gone too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from controller.config import ControllerConfig
from controller.model import Key
from controller.plan.actions import (
    Action,
    FindOffsets,
    ForgetSeek,
    GroupState,
    MoveOffsets,
    Object,
    PublishSubscription,
    RememberSeek,
    World,
)
from knative.contract import records
from knative.contract.records import WorkerState
from knative.contract.seeks import TRANSITIONS, Seek, SeekPhase, SeekRequest
from knative.resources.seek_position import HINT, in_future, seek_position
from knative.resources.values import ResetOffset

_NOT_SERVED = frozenset(
    {
        WorkerState.STOPPED,
        WorkerState.UNSUPPORTED,
        WorkerState.SECRET_NOT_TRIED,
        WorkerState.SECRET_NOT_FOUND,
        WorkerState.SECRET_INVALID,
    }
)
WITHDRAWN = "Withdrawn"  #: reason of a seek that nobody asked for any more before the offsets were moved


@dataclass(frozen=True, slots=True)
class Wish:
    """A seek that somebody asks for."""

    id: str
    reset: str
    kind: str
    namespace: str
    name: str
    to: str
    created: float = 0.0  #: Unix seconds; 0 = long ago


@dataclass(frozen=True, slots=True)
class SeekPlan:
    """The next steps of all seeks, and why some wishes have to wait."""

    actions: tuple[Action, ...]
    waiting: dict[str, str]  #: id of the wish -> what it waits for


def wish_of(reset_offset: Object[ResetOffset]) -> Wish:
    """Returns what a ResetOffset asks for."""
    resource = reset_offset.resource
    reset = f"{resource.namespace}/{resource.name}"
    kind, namespace, name = resource.ref_kind, resource.namespace, resource.ref_name
    return Wish(reset_offset.uid, reset, kind, namespace, name, str(resource.to), resource.created)


def wish_of_request(seek_request: SeekRequest) -> Wish:
    """Returns what a command asks for."""
    return Wish(seek_request.id, "", seek_request.kind, seek_request.namespace, seek_request.name, seek_request.to)


def plan_seeks(
    wishes: Sequence[Wish],
    world: World,
    config: ControllerConfig,
    publishing: frozenset[str],
    expected: frozenset[Key],
) -> SeekPlan:
    """Returns the next steps. `publishing`: uids whose contract record is published in this round for another reason.
    `expected`: Subscriptions and Triggers that are there, whether they are served or not."""
    asked = {wish.id: wish for wish in wishes}
    actions: list[Action] = []
    for seek in world.seeks.values():
        action = _next_step(seek, seek.id in asked, world, config)
        if not (isinstance(action, PublishSubscription) and action.subscription.uid in publishing):
            actions += [action] if action is not None else []
    busy = {seek.uid: seek for seek in active(world.seeks.values())}
    waiting: dict[str, str] = {}
    for wish in wishes:
        if wish.id in world.seeks:
            continue
        begun = _begin(wish, world, config, busy, expected)
        if isinstance(begun, Seek):
            busy.setdefault(begun.uid, begun)
            actions.append(RememberSeek(begun))
        else:
            waiting[wish.id] = begun
    # Without its seek, which somebody must have deleted from the status topic, nothing would start it again.
    actions += [
        PublishSubscription(replace(record, stopped=False))
        for record in world.subscriptions.values()
        if record.stopped and record.uid not in busy and record.uid not in publishing and world.decides(record.uid)
    ]
    return SeekPlan(tuple(actions), waiting)


def _begin(
    wish: Wish, world: World, config: ControllerConfig, busy: dict[str, Seek], expected: frozenset[Key]
) -> Seek | str:
    """Returns the seek to record, at once refused or not; or what the wish waits for."""
    seek = Seek(wish.id, wish.reset, wish.kind, wish.namespace, wish.name, wish.to, SeekPhase.STOPPING, world.now)
    try:
        position = seek_position(wish.to)
    except ValueError as problem:
        return _refused(seek, "PositionInvalid", f"{problem}; {HINT}", world)
    if in_future(position, world.now):
        message = f"{wish.to} is in the future; write a time in the past, or latest to skip all stored events"
        return _refused(seek, "TimeInFuture", message, world)
    label = f"{wish.kind} {wish.namespace}/{wish.name}"
    record = next((record for record in world.subscriptions.values() if record.key == seek.ref), None)
    if record is None or record.uid in world.removals:
        if seek.ref in expected:
            return f"{label} is not served yet"
        if not world.complete:
            return "not all resources are read yet"
        # Objects that are created together are not seen together: each kind has a watch of its own.
        if world.now - wish.created < config.seek_ref_s:
            return f"there is no {label}; if that stays so, the ResetOffset is refused after {config.seek_ref_s:g} s"
        return _refused(
            seek,
            f"{wish.kind}NotFound",
            f"there is no {label}; create another ResetOffset with a correct spec.ref",
            world,
        )
    seen = world.observed.topics.get(record.topic)
    if seen is not None and seen.id and record.topic_id not in ("", seen.id):
        message = f"topic {record.topic} was deleted and created again; delete the {wish.kind} and add it again"
        return _refused(seek, "TopicReplaced", message, world)
    if record.uid in busy:
        return f"waiting for {busy[record.uid].asked_by}, which moves the same offsets"
    return replace(seek, uid=record.uid, topic=record.topic, group=record.group)


def in_phase(seek: Seek, phase: SeekPhase, now: float, reason: str = "", message: str = "") -> Seek:
    """Returns the seek in its next phase."""
    assert phase in TRANSITIONS[seek.phase], f"{seek.phase} is not followed by {phase}"
    return replace(seek, phase=phase, since=now, reason=reason or seek.reason, message=message or seek.message)


def _refused(seek: Seek, reason: str, message: str, world: World) -> Seek:
    return in_phase(seek, SeekPhase.REFUSED, world.now, reason, message)


def _next_step(seek: Seek, asked: bool, world: World, config: ControllerConfig) -> Action | None:
    """Returns the next step of a recorded seek; None: it waits. `asked`: somebody still wants it."""
    if seek.is_over:
        kept = asked or not world.complete or (not seek.reset and world.now - seek.since < config.seek_kept_s)
        return None if kept else ForgetSeek(seek.id)
    record = world.subscriptions.get(seek.uid)
    if record is None or seek.uid in world.removals:
        message = f"{seek.kind} {seek.namespace}/{seek.name} was deleted before the seek was completed"
        return RememberSeek(_refused(seek, "Deleted", message, world))
    if seek.phase is SeekPhase.STARTING:
        if record.stopped:
            return PublishSubscription(replace(record, stopped=False))
        return RememberSeek(in_phase(seek, SeekPhase.REFUSED if seek.reason else SeekPhase.DONE, world.now))
    waits = not_stopped(seek, record, world)
    # The time in which nobody led does not count.
    late = world.now - max(seek.since, world.leads_since) > config.seek_limit_s
    if seek.phase is SeekPhase.STOPPING:
        return _stop(seek, record, waits, world, asked=asked or not world.complete, late=late)
    move = MoveOffsets(seek.group, seek.topic, seek.moves)
    # What is committed counts only if it was observed after all workers had stopped: the last commit of a worker that
    # appeared late may have come after ours.
    if not waits and world.observed.offsets.get(seek.group) == {
        planned.partition: planned.new for planned in seek.moves
    }:
        return RememberSeek(in_phase(seek, SeekPhase.STARTING, world.now))
    why = "; ".join(waits) or world.failures.get(move.target)
    if not why and seek.group in world.moved:
        why = (
            f"group {seek.group} has other offsets than those that were committed; check whether another client "
            "commits offsets in it"
        )
    if late and why:
        message = f"the offsets could not be moved: {why}. Check them with `penstock lag`, and try again"
        return RememberSeek(in_phase(seek, SeekPhase.STARTING, world.now, "OffsetsNotMoved", message))
    return None if waits else move


def _stop(
    seek: Seek, record: records.Subscription, waits: list[str], world: World, *, asked: bool, late: bool
) -> Action | None:
    if not asked:
        message = "the request was withdrawn before the offsets were moved"
        return RememberSeek(in_phase(seek, SeekPhase.STARTING, world.now, WITHDRAWN, message))
    if late and waits:
        message = f"nothing was moved, because the subscription did not stop on all workers: {'; '.join(waits)}"
        return RememberSeek(in_phase(seek, SeekPhase.STARTING, world.now, "NotStopped", message))
    if late and (why := world.failures.get(f"seek {seek.id}")):
        message = f"nothing was moved, because the offsets could not be looked up: {why}"
        return RememberSeek(in_phase(seek, SeekPhase.STARTING, world.now, "OffsetsNotMoved", message))
    if not record.stopped or record.seek != seek.id:
        return PublishSubscription(replace(record, stopped=True, seek=seek.id))
    if waits:
        return None
    seen = world.observed.topics.get(record.topic)
    return FindOffsets(seek, max(record.partitions, seen.partitions if seen is not None else 0))


def not_stopped(seek: Seek, record: records.Subscription, world: World) -> list[str]:
    """Returns what may still commit an offset of the subscription."""
    if not record.stopped or record.seek != seek.id:
        return ["workers are being asked to stop the subscription"]
    reasons = []
    for name, worker in sorted(world.workers.items()):
        if name in world.silent:
            continue
        mine = worker.subscriptions.get(seek.uid)
        if mine is None or not (
            mine.state is WorkerState.UNSUPPORTED or (mine.state is WorkerState.STOPPED and mine.reason == seek.id)
        ):
            reasons.append(f"worker {name} has not stopped the subscription yet")
    if seek.group in world.observed.unknown:
        reasons.append(world.observed.unknown[seek.group])
    if world.observed.groups.get(seek.group, GroupState.ABSENT) is GroupState.LIVE:  # of another program
        reasons.append(f"another program is a member of the group {seek.group}")
    if unheard := _unheard_members(record, world):
        reasons.append(unheard)
    return reasons


def _unheard_members(record: records.Subscription, world: World) -> str | None:
    """Returns the problem that the fan-out may have a member that is not heard, such as a frozen worker, or None."""
    members = world.observed.fanouts.get(record.topic, 0)
    if members is None:
        return f"Kafka has not described the members of the fan-out of topic {record.topic} yet"
    # A worker is a member as long as it serves one of the topic. One that serves none must not be counted: it would
    # stand for a member of which nothing is heard.
    others = [
        subscription.uid
        for subscription in world.subscriptions.values()
        if subscription.topic == record.topic and subscription.uid != record.uid and not subscription.stopped
    ]
    heard = sum(
        any(uid in worker.subscriptions and worker.subscriptions[uid].state not in _NOT_SERVED for uid in others)
        for name, worker in world.workers.items()
        if name not in world.silent
    )
    if members <= heard:
        return None
    return (
        f"the fan-out of topic {record.topic} has {members} members, but only {heard} workers report that they serve "
        "it; "
        "a worker that was killed or hangs is no longer a member when its session ends"
    )


def active(seeks: Iterable[Seek]) -> list[Seek]:
    """Returns the seeks that are not over."""
    return [seek for seek in seeks if not seek.is_over]
