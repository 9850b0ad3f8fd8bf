"""Moves the offsets of a subscription: by a request to the leading controller, or directly where nothing runs.

    a controller runs:  request in the status topic -> it stops, moves, starts -> its record says how it went
    nothing runs:       no member, no live worker -> commit -> read back -> still none

What the controller does, and why it is safe when it dies, is in `controller/plan/seeks`.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from app.operations.contract_snapshot import Contract, read_contract, read_seeks
from app.operations.requests import store_requests
from controller.kafka.offsets import Offsets
from controller.plan.actions import World
from controller.plan.seeks import not_stopped
from knative.contract.kafka_names import controller_group, fanout_group
from knative.contract.records import TRIGGER, Subscription
from knative.contract.seeks import Move, Seek, SeekPhase, SeekRequest
from knative.errors import NotReadyError, PenstockError
from knative.resources.seek_position import SeekPosition
from tables.kafka.admin import KafkaAdmin
from tables.kafka.errors import KafkaFailed
from tables.status_table import FRESH_S, SEEK_KEY, encode_request

_KAFKA_LIMIT_S = 10.0
_POLL_S = 0.3
_START = "start one: a worker of role all or controller, or `penstock controller`"


@dataclass(frozen=True, slots=True)
class Installation:
    """Where the installation is."""

    client: Mapping[str, Any]
    instance: str
    silent_s: float = FRESH_S  #: a worker that was silent for so long is gone

    @property
    def admin(self) -> KafkaAdmin:
        """Kafka's administration."""
        return KafkaAdmin(self.client, _KAFKA_LIMIT_S)

    @property
    def offsets(self) -> Offsets:
        """The offsets of its groups."""
        return Offsets(self.admin, _KAFKA_LIMIT_S)


def planned_moves(at: Installation, one: Subscription, to: SeekPosition) -> tuple[Move, ...]:
    """The present offset of each partition, and the one that a seek would move it to now. Raises NotReadyError."""
    try:
        return at.offsets.moves(one.group, one.topic, one.partitions, to)
    except KafkaFailed as problem:
        raise NotReadyError(f"Kafka did not return the offsets ({problem}).", "Try again.") from problem


def controller_runs(at: Installation) -> bool:
    """Whether a process is a member of the controllers' lock group. Raises NotReadyError."""
    try:
        group = at.admin.describe_group(controller_group(at.instance))
    except KafkaFailed as problem:
        raise NotReadyError(f"Kafka did not describe the controllers' group ({problem}).", "Try again.") from problem
    return group is not None and group.members > 0


# -- nothing runs


def seek_directly(at: Installation, contract: Contract, one: Subscription, to: SeekPosition) -> tuple[Move, ...]:
    """Move the offsets without a controller, if no worker runs either. Raises NotReadyError, PenstockError."""
    _check_unused(at, contract, one)
    moves = planned_moves(at, one, to)
    try:
        at.offsets.move(one.group, one.topic, moves)  # Kafka refuses it if a Subscription's group has members
        found = at.offsets.committed(one.group, one.topic, range(one.partitions))
    except KafkaFailed as problem:
        raise NotReadyError(f"The offsets were not moved ({problem}).", "Check `penstock lag`.") from problem
    _check_unused(at, read_contract(at.client, at.instance), one, " meanwhile; check `penstock lag`")
    if found != {move.partition: move.new for move in moves}:
        raise PenstockError(
            "The offsets were committed, but they are different now.", "Check `penstock lag`, and try again."
        )
    return moves


def _check_unused(at: Installation, contract: Contract, one: Subscription, when: str = "") -> None:
    now = time.time()
    live = sorted(worker.worker for worker in contract.workers if abs(now - worker.time) <= FRESH_S)
    if live:
        raise NotReadyError(f"Worker {live[0]} runs{when or ', but no controller'}.", f"To seek, {_START}.")
    for group in (one.group, *([fanout_group(at.instance, one.topic)] if one.kind == TRIGGER else [])):
        try:
            found = at.admin.describe_group(group)
        except KafkaFailed as problem:
            raise NotReadyError(f"Kafka did not describe the group ({problem}).", "Try again.") from problem
        if found is not None and found.members:
            raise NotReadyError(
                f"Group {group} has members{when}.",
                "If they were killed, Kafka forgets them within half a minute: try again then.",
            )


# -- by the controller


def seek_by_controller(
    at: Installation, one: Subscription, to: str, limit_s: float, progress: Callable[[str], None]
) -> Seek:
    """Ask the controller, and wait until the seek is over. `progress` gets each phase once. The request is withdrawn if
    that takes too long, or at Ctrl-C. Raises NotReadyError."""
    request = SeekRequest(secrets.token_hex(8), one.kind, one.namespace, one.name, to, time.time())
    store_requests(at.client, at.instance, [encode_request(request)])
    try:
        return _wait(at, one, request.id, limit_s, progress)
    except (KeyboardInterrupt, NotReadyError):
        store_requests(at.client, at.instance, [(SEEK_KEY + request.id.encode(), None)])
        raise


def _wait(at: Installation, one: Subscription, id_: str, limit_s: float, progress: Callable[[str], None]) -> Seek:
    end_s = time.monotonic() + limit_s
    phase: SeekPhase | None = None
    while True:
        seek = read_seeks(at.client, at.instance).get(id_)
        if seek is not None and seek.phase is not phase:
            phase = seek.phase
            progress(phase.value)
        if seek is not None and seek.is_over:
            return seek
        if time.monotonic() > end_s:
            raise _too_late(at, one, seek, limit_s)
        time.sleep(_POLL_S)


def _too_late(at: Installation, one: Subscription, seek: Seek | None, limit_s: float) -> NotReadyError:
    if seek is None:
        what = f"No controller has begun the seek within {limit_s:g} s; nothing was moved."
        return NotReadyError(what, f"If none runs, {_START}. Another seek of it may be under way: see the log.")
    contract = read_contract(at.client, at.instance)
    record = next((found for found in contract.subscriptions if found.uid == one.uid), one)
    waits = "; ".join(waiting_for(seek, record, contract, time.time(), at.silent_s)) or f"it is {seek.phase.value}"
    if seek.phase is SeekPhase.STOPPING:
        what = f"Not stopped within {limit_s:g} s; nothing was moved, and it is started again: {waits}."
        return NotReadyError(what, "Check these workers, or give it more time with --timeout.")
    what = f"Not completed within {limit_s:g} s: {waits}."
    return NotReadyError(what, "The controller completes it; see `penstock lag` and its log.")


def waiting_for(seek: Seek, record: Subscription, contract: Contract, now: float, silent_s: float) -> list[str]:
    """The workers that have not stopped the subscription."""
    workers = {worker.worker: worker for worker in contract.workers}
    silent = frozenset(name for name, worker in workers.items() if abs(now - worker.time) > silent_s)
    return not_stopped(seek, record, World(workers=workers, silent=silent))
