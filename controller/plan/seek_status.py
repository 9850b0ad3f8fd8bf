"""Makes the status of a ResetOffset: `Ready` = RefMapped, ConsumerGroupsStopped, OffsetsUpdated, ConsumerGroupsStarted.

The names of the conditions are those of the ResetOffset in Knative's former Kafka channel. Pure.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from controller.plan.actions import FindOffsets, MoveOffsets, Object, World, WriteStatus
from controller.plan.channels import kafka_unavailable
from controller.plan.seeks import WITHDRAWN, not_stopped, wish_of
from knative.contract.seeks import Seek, SeekPhase
from knative.resources.conditions import Condition, ConditionStatus, false, ready, true, unknown
from knative.resources.values import ResetOffset

PARTS = ("RefMapped", "ConsumerGroupsStopped", "OffsetsUpdated", "ConsumerGroupsStarted")
#: Reason of a refusal -> the condition that is False.
_FALSE = {"NotStopped": "ConsumerGroupsStopped", "OffsetsNotMoved": "OffsetsUpdated", WITHDRAWN: "OffsetsUpdated"}
#: Phase -> the condition that it works on; those before are True.
_WORKS_ON = {
    SeekPhase.STOPPING: "ConsumerGroupsStopped",
    SeekPhase.MOVING: "OffsetsUpdated",
    SeekPhase.STARTING: "ConsumerGroupsStarted",
}
_BEING = {
    "ConsumerGroupsStopped": "Stopping",
    "OffsetsUpdated": "MovingOffsets",
    "ConsumerGroupsStarted": "Starting",
}


def seek_status(reset_offset: Object[ResetOffset], world: World, waits_for: str) -> WriteStatus:
    """Returns the status of a ResetOffset. `waits_for`: why it has not begun."""
    seek = world.seeks.get(reset_offset.uid)
    if seek is None:
        waiting = unknown("RefMapped", "Pending", waits_for or "it starts shortly")
        if world.unavailable:  # what is recorded may not have been read
            waiting = kafka_unavailable("RefMapped", world.unavailable)
        parts = (waiting, *(unknown(part, waiting.reason, "the seek has not started yet") for part in PARTS[1:]))
        return WriteStatus(*reset_offset.key, reset_offset.uid, reset_offset.generation, (ready(parts), *parts), {})
    parts = _conditions(seek, world)
    whole = ready(parts)
    if whole.status is ConditionStatus.TRUE:
        moved = sum(move.old != move.new for move in seek.moves)
        whole = replace(
            whole, reason="OffsetsMoved", message=f"the offsets of {moved} of {len(seek.moves)} partitions were moved"
        )
    wish = wish_of(reset_offset)
    if (wish.kind, wish.name, wish.to) != (seek.kind, seek.name, seek.to):
        message = (
            f"spec cannot be changed: only the seek of {seek.kind} {seek.name} to {seek.to} is carried out. "
            "Undo the change, and create another ResetOffset for another seek"
        )
        whole = false("Ready", "Immutable", message)
    return WriteStatus(*reset_offset.key, reset_offset.uid, reset_offset.generation, (whole, *parts), _body(seek))


def _body(seek: Seek) -> dict[str, Any]:
    body: dict[str, Any] = {}
    if seek.uid:
        body = {"topic": seek.topic, "group": seek.group}
    if seek.moves:
        rows = [{"partition": move.partition, "oldOffset": move.old, "newOffset": move.new} for move in seek.moves]
        body["partitions"] = rows
    return body


def _conditions(seek: Seek, world: World) -> tuple[Condition, ...]:
    if seek.phase is SeekPhase.DONE:
        return tuple(map(true, PARTS))
    if seek.reason:  # refused, or about to be: it is only started again
        failed = _FALSE.get(seek.reason, "OffsetsUpdated" if seek.uid else "RefMapped")
        current = false(failed, seek.reason, seek.message)
    else:
        failed = _WORKS_ON[seek.phase]
        current = unknown(failed, _BEING[failed], _progress(seek, world))
    at = PARTS.index(failed)
    later = (unknown(part, current.reason, "waiting for the steps before this step") for part in PARTS[at + 1 :])
    return (*map(true, PARTS[:at]), current, *later)


def _progress(seek: Seek, world: World) -> str:
    failure = next(
        (
            world.failures[target]
            for target in (FindOffsets(seek, 0).target, MoveOffsets(seek.group, seek.topic, ()).target)
            if target in world.failures
        ),
        "",
    )
    record = world.subscriptions.get(seek.uid)
    waits = not_stopped(seek, record, world) if record is not None and seek.phase is not SeekPhase.STARTING else []
    return failure or "; ".join(waits) or "in progress"
