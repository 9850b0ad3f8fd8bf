"""Moves the offsets of a subscription: by a request to the leading controller, or directly where nothing runs.

    a controller runs:  request in the status topic -> it stops, moves, starts -> its record says how it went
    nothing runs:       no member, no live worker -> commit -> read back -> still none

What the controller does, and why it is safe when it dies, is in `controller/plan/seeks`.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from app.operations.contract_snapshot import Contract, read_contract, read_seeks
from app.operations.requests import store_requests
from controller.kafka.offsets import Offsets
from controller.plan.actions import World
from controller.plan.seeks import WITHDRAWN, active, not_stopped
from knative.contract.kafka_names import controller_group, fanout_group
from knative.contract.records import Subscription, WorkerStatus
from knative.contract.seeks import Move, Seek, SeekPhase, SeekRequest
from knative.errors import NotReadyError, PenstockError, UsageError
from knative.resources.seek_position import HINT, SeekPosition, in_future, seek_position
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.errors import KafkaFailed
from tables.status_parts import keys_of
from tables.status_table import FRESH_S, SEEK_KEY, encode_request
from tables.timing import ANSWER_S, SPARING_S

_START = "start a worker of role all or controller, or `penstock controller`"


@dataclass(frozen=True)
class Installation:
    """The installation whose offsets are moved: its Kafka, its name, and how long its processes may take."""

    client: Mapping[str, Any]
    instance: str
    silent_s: float = FRESH_S  #: a worker that was silent for so long is gone
    seek_s: float = 60.0  #: until a seek is withdrawn, if nobody gives it another limit

    @cached_property
    def admin(self) -> KafkaAdmin:
        """Kafka's administration."""
        return KafkaAdmin(self.client, ANSWER_S)

    @cached_property
    def offsets(self) -> Offsets:
        """The offsets of its groups."""
        return Offsets(self.admin, ANSWER_S)

    def seeks(self) -> Mapping[str, Seek]:
        """Returns the recorded seeks, by id."""
        return read_seeks(self.client, self.instance)

    def ask(self, request: SeekRequest) -> None:
        """Store a request."""
        store_requests(self.client, self.instance, [encode_request(request)])

    def forget(self, workers: Iterable[WorkerStatus]) -> None:
        """Remove the records of workers that are gone. What they have committed would count as before the seek."""
        store_requests(self.client, self.instance, [(key, None) for worker in workers for key in keys_of(worker)])

    def withdraw(self, id_: str) -> None:
        """Withdraw a request."""
        store_requests(self.client, self.instance, [(SEEK_KEY + id_.encode(), None)])


def read_position(text: str, option: str) -> SeekPosition:
    """Returns where a seek leads to. Raises UsageError that names `option`."""
    try:
        position = seek_position(text)
    except ValueError as problem:
        raise UsageError(f"{option}: {problem}.", f"{HINT[0].upper()}{HINT[1:]}.") from problem
    if in_future(position, time.time()):
        raise UsageError(
            f"{option}: {text} is in the future.", "Write a time in the past, or `latest` to skip all events."
        )
    return position


def planned_moves(at: Installation, subscription: Subscription, to: SeekPosition) -> tuple[Move, ...]:
    """Returns each partition's offset, and the one that a seek would move it to now. Raises NotReadyError."""
    try:
        # The contract may not have partitions yet that were added to the topic.
        partitions = max(
            subscription.partitions, len(at.admin.describe_topics([subscription.topic])[subscription.topic].partitions)
        )
        return at.offsets.moves(subscription.group, subscription.topic, partitions, to)
    except KafkaFailed as problem:
        raise NotReadyError(f"Kafka did not return the offsets ({problem}).", "Try again.") from problem


def controller_runs(at: Installation) -> bool:
    """Returns whether a process is a member of the controllers' lock group. Raises NotReadyError."""
    try:
        group = at.admin.groups.describe(controller_group(at.instance))
    except KafkaFailed as problem:
        raise NotReadyError(f"Kafka did not describe the controllers' group ({problem}).", "Try again.") from problem
    return group is not None and group.members > 0


def check_controller_runs(at: Installation) -> None:
    """Raises NotReadyError unless a controller runs."""
    if not controller_runs(at):
        raise NotReadyError("No controller runs.", f"To seek, {_START}.")


# -- nothing runs


def seek_directly(
    at: Installation, contract: Contract, subscription: Subscription, to: SeekPosition
) -> tuple[Move, ...]:
    """Move the offsets without a controller, if no worker runs either. Raises NotReadyError, PenstockError."""
    check_no_seek(at.seeks(), subscription)
    _check_unused(at, contract, subscription)
    moves = planned_moves(at, subscription, to)
    at.forget(contract.workers)
    try:  # Kafka refuses it if another program is a member
        at.offsets.move(subscription.group, subscription.topic, moves)
    except KafkaFailed as problem:
        what = f"Kafka did not confirm that the offsets of {subscription.title} were moved ({problem})."
        raise NotReadyError(what, "Check `penstock lag`, and try again.") from problem
    try:
        committed = at.offsets.committed(subscription.group, subscription.topic, [move.partition for move in moves])
    except KafkaFailed as problem:
        what = f"The offsets of {subscription.title} were moved, but cannot be read back ({problem})."
        raise NotReadyError(what, "Check `penstock lag`.") from problem
    try:
        _check_unused(at, read_contract(at.client, at.instance), subscription)
    except NotReadyError as problem:
        what = f"The offsets of {subscription.title} were moved, but others may move them again: {problem.what}"
        raise NotReadyError(what, f"Check `penstock lag`. {problem.hint}") from problem
    if committed != {move.partition: move.new for move in moves}:
        raise PenstockError(
            f"The offsets of {subscription.title} were moved, but another program has changed them since.",
            f"Find what uses the group {subscription.group}; then check `penstock lag`, and try again.",
        )
    return moves


def check_no_seek(seeks: Mapping[str, Seek], subscription: Subscription) -> None:
    """Raises NotReadyError if a seek of it is recorded that is not over."""
    for seek in active(seeks.values()):
        if seek.uid == subscription.uid:
            raise NotReadyError(
                f"A seek to {seek.to} that {seek.asked_by} has asked for has not ended (phase: {seek.phase.value}). "
                "The next controller continues it, and would overwrite this seek.",
                f"To complete that seek, {_START}.",
            )


def _check_unused(at: Installation, contract: Contract, subscription: Subscription) -> None:
    """Raises NotReadyError if a worker runs, or a group that reads for the subscription has members."""
    now = time.time()
    live = sorted(worker.worker for worker in contract.workers if abs(now - worker.time) <= FRESH_S)
    if live:
        raise NotReadyError(f"Worker {live[0]} runs, but no controller.", f"To seek, {_START}.")
    # Workers join the group of the fan-out and never this one, so Kafka would take the commit.
    for group in (subscription.group, fanout_group(at.instance, subscription.topic)):
        try:
            group_info = at.admin.groups.describe(group)
        except KafkaFailed as problem:
            raise NotReadyError(f"Kafka did not describe the group ({problem}).", "Try again.") from problem
        if group_info is not None and group_info.members:
            raise NotReadyError(
                f"Group {group} has members.",
                f"If a worker runs, {_START}. If it was killed, try again when its session has ended.",
            )


# -- by the controller


def seek_by_controller(
    at: Installation, subscription: Subscription, to: str, limit_s: float, progress: Callable[[str], None]
) -> Seek:
    """Ask the controller, and wait until the seek is over. `progress` gets each phase once. The request is withdrawn if
    that takes too long, at Ctrl-C, and when Kafka does not answer. Raises NotReadyError, PenstockError."""
    request = SeekRequest(
        secrets.token_hex(8), subscription.kind, subscription.namespace, subscription.name, to, time.time()
    )
    try:
        at.ask(request)
        seek = _wait(at, request.id, limit_s, progress)
        if seek is not None and seek.is_over:
            return seek
        waits = _waited_for(at, subscription, seek)
    except (KeyboardInterrupt, PenstockError):
        _withdraw(at, request.id)
        raise
    _withdraw(at, request.id)
    # Offsets may have been moved until this moment. What the controller makes of the withdrawal says whether they were.
    seek = _wait(at, request.id, ANSWER_S, progress, seek)
    if seek is not None and seek.is_over and seek.reason != WITHDRAWN:
        return seek
    raise too_late(seek, limit_s, waits)


def _withdraw(at: Installation, id_: str) -> None:
    try:
        at.withdraw(id_)
    except NotReadyError as problem:
        # Not "try again", as that says: a second seek by a number of events would come on top of the first.
        raise NotReadyError(
            f"The request could not be withdrawn, so the controller may still carry it out: {problem}",
            "Check `penstock lag` after two minutes, before you seek again.",
        ) from problem


def _wait(
    at: Installation, id_: str, limit_s: float, progress: Callable[[str], None], last: Seek | None = None
) -> Seek | None:
    """Returns the seek when it is over, or as it is after `limit_s`; None: none has begun. `last`: as it was before."""
    end_s = time.monotonic() + limit_s
    phase = last.phase if last is not None else None
    while True:
        seek = at.seeks().get(id_)
        if seek is not None and seek.phase is not phase:
            phase = seek.phase
            progress(phase.value)
        if (seek is not None and seek.is_over) or time.monotonic() > end_s:
            return seek
        time.sleep(SPARING_S)


def _waited_for(at: Installation, subscription: Subscription, seek: Seek | None) -> str:
    """Returns what the seek waits for at the time limit."""
    if seek is None:
        return "no controller had begun the seek"
    reasons: list[str] = []
    if seek.phase in (SeekPhase.STOPPING, SeekPhase.MOVING):
        contract = read_contract(at.client, at.instance)
        record = next((record for record in contract.subscriptions if record.uid == subscription.uid), subscription)
        reasons = waiting_for(seek, record, contract, time.time(), at.silent_s)
    return "; ".join(reasons) or f"the seek is in the phase {seek.phase.value}"


def too_late(seek: Seek | None, limit_s: float, waits: str) -> NotReadyError:
    """Returns the error for a seek withdrawn after `limit_s`. `seek`: as it is since; `waits`: what it waited for."""
    if seek is None:
        what = f"No controller has begun the seek within {limit_s:g} s; nothing was moved."
        return NotReadyError(
            what,
            f"If no controller runs, {_START}. If one runs, see its log: another seek of this subscription may be "
            "under way.",
        )
    if seek.reason == WITHDRAWN:
        what = (
            f"The subscription did not stop within {limit_s:g} s ({waits}). Nothing was moved, and it is started again."
        )
        return NotReadyError(what, "Fix the cause, or allow more time with --timeout.")
    if seek.phase is SeekPhase.STOPPING:
        what = (
            f"The subscription did not stop within {limit_s:g} s ({waits}). The request is withdrawn, but no "
            "controller has confirmed that yet."
        )
        return NotReadyError(
            what, "Check with `penstock lag` whether the offsets were moved, and see the controller's log."
        )
    what = f"The seek was not completed within {limit_s:g} s ({waits})."
    return NotReadyError(what, "The controller completes the seek. See `penstock lag` and the controller's log.")


def waiting_for(seek: Seek, record: Subscription, contract: Contract, now: float, silent_s: float) -> list[str]:
    """Returns the workers that have not stopped the subscription."""
    workers = {worker.worker: worker for worker in contract.workers}
    silent = frozenset(name for name, worker in workers.items() if abs(now - worker.time) > silent_s)
    return not_stopped(seek, record, World(workers=workers, silent=silent))
