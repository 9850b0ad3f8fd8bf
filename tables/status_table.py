"""The status topic as a table, and what it means for a subscriber: ready or not, and why.

Every two seconds each worker reports the partitions and the generation of each subscription that it serves. A
subscriber is ready when the fresh records of its current generation own all partitions. This needs no Kafka admin call.
The leading controller reports in the same topic what it cannot serve.

Whether a record is fresh depends on the writer's and the reader's clock: if the clocks differ by FRESH_S, no
subscription seems to be served.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import orjson
import structlog

from knative.contract import codec
from knative.contract.broker_secrets import INVALID, NOT_FOUND
from knative.contract.leader_state import PREFIX, LeaderLog, Row, UnknownRow, read_row
from knative.contract.records import (
    ControllerReport,
    RemovalRequest,
    SubscriberStatus,
    Subscription,
    WorkerState,
    WorkerStatus,
)
from knative.contract.seeks import SeekRequest
from knative.resources.conditions import Condition, false, true, unknown
from tables.compacted_table import CompactedTable
from tables.kafka.compacted_topic import Record
from tables.kafka.unreadable import skip
from tables.status_parts import ReadLater, join, unreadable
from tables.subscriber_details import SubscriberDetails, details

log = structlog.get_logger(__name__)
RequestT = TypeVar("RequestT", RemovalRequest, SeekRequest)

FRESH_S = 10.0  #: an older record does not count
REPORT_KEY = b"/controller"  #: no worker's id has a slash
REQUEST_KEY = b"/remove/"  #: a uid follows
SEEK_KEY = b"/seek/"  #: the id of a request follows
LEADER_KEY = PREFIX.encode()  #: what follows: `knative/contract/leader_state`
#: Reasons of conditions that follow from the workers' records. Readers of the topic work them out themselves.
SUBSCRIBER_FAILED = "SubscriberFailed"
SUBSCRIBER_NOT_SERVED = "SubscriberNotServed"
SUBSCRIBER_WAITS_FOR_KAFKA = "WaitingForKafka"
SUBSCRIBER_NEEDS_NEWER_WORKER = "WorkerTooOld"
SUBSCRIBER_STOPPED = "OffsetsBeingMoved"
SUBSCRIBER_NOT_IN_FILES = "NotInFiles"
FILTER_LIMIT_EXCEEDED = "FilterLimitExceeded"
#: Why a worker cannot serve a Trigger whose Broker has a Secret of its own.
_SECRET_STATES = {WorkerState.SECRET_NOT_FOUND: NOT_FOUND, WorkerState.SECRET_INVALID: INVALID}


def encode_report(report: ControllerReport) -> bytes:
    """Returns JSON for the status topic, under REPORT_KEY."""
    return orjson.dumps(codec.record_of_report(report))


def encode_request(request: RemovalRequest | SeekRequest) -> tuple[bytes, bytes]:
    """Returns key and value for the status topic."""
    key = SEEK_KEY + request.id.encode() if isinstance(request, SeekRequest) else REQUEST_KEY + request.uid.encode()
    return key, orjson.dumps(codec.record_of_request(request))


def encode_row(row: Row) -> bytes:
    """Returns JSON for the status topic, under a key below LEADER_KEY."""
    return orjson.dumps(codec.record_of_leader(row))


def decode_row(value: bytes) -> Row:
    """Returns the row of a record below LEADER_KEY. Raises UnknownSchema or UnknownRow if it is of a newer version, and
    ValueError if it is not valid."""
    row = codec.leader_row_of(orjson.loads(value))
    read_row(row)
    return row


def decode_status(value: bytes, _key: bytes = b"") -> codec.Status:
    """Returns what a record's JSON says. Raises ValueError if it is not valid or has a newer schema."""
    return codec.status_of(orjson.loads(value), unreadable)


def _apply_request(
    requests: dict[str, RequestT], kind: type[RequestT], prefix: bytes, record: Record, topic: str
) -> None:
    """Keep what a record says about a request. `requests` has the requests of this kind, by the rest of the key after
    `prefix`."""
    id_ = record.key.removeprefix(prefix).decode("utf-8", "replace")
    requests.pop(id_, None)
    if record.value is None:
        return
    try:
        request = decode_status(record.value)
    except ValueError as problem:
        skip(topic, record, problem)
        return
    if isinstance(request, kind) and encode_request(request)[0] == record.key:
        requests[id_] = request


def _not_served_on_purpose(subscription: Subscription) -> SubscriberStatus:
    uid, generation = subscription.uid, subscription.generation
    if subscription.unlisted:
        message = "no file contains this resource or its channel"
        return SubscriberStatus(uid, generation, "False", message, SUBSCRIBER_NOT_IN_FILES)
    message = "the subscription is stopped on all workers while its offsets are moved"
    return SubscriberStatus(uid, generation, "Unknown", message, SUBSCRIBER_STOPPED)


def subscriber_status(subscription: Subscription, workers: Iterable[WorkerStatus], now: float) -> SubscriberStatus:
    """Returns the status: True if fresh workers of the current generation own every partition, False if a worker
    failed, or if one is too old and the others do not own them all, else Unknown."""
    if not subscription.is_served:
        return _not_served_on_purpose(subscription)
    owned: set[int] = set()
    current = stale = 0
    failures: list[str] = []
    waiting: list[str] = []
    too_old: list[str] = []
    no_secret: dict[str, str] = {}  # worker with reason -> reason of the condition
    filter_problems: set[str] = set()
    for worker in workers:
        mine = worker.subscriptions.get(subscription.uid)
        if mine is None or now - worker.time > FRESH_S:
            continue
        if mine.state is WorkerState.UNSUPPORTED:
            too_old.append(f"{worker.worker}: this resource {mine.reason}")
            continue
        if mine.state in _SECRET_STATES:
            no_secret[f"{worker.worker}: {mine.reason}"] = _SECRET_STATES[mine.state]
            continue
        if mine.state is WorkerState.FAILED:
            failures.append(f"{worker.worker}: {mine.state_text}")
        if mine.state is WorkerState.WAITING_FOR_KAFKA:
            waiting.append(worker.worker)
        # A worker that still serves an older generation owns its partitions, but not with the settings that are asked
        # for: the subscriber is not ready.
        if mine.generation != subscription.generation:
            stale += 1
            continue
        current += 1
        owned.update(mine.partitions)
        if mine.filter_problem:
            filter_problems.add(mine.filter_problem)
    generation = subscription.generation
    if failures:
        return SubscriberStatus(subscription.uid, generation, "False", "; ".join(failures))
    missing = set(range(subscription.partitions)) - owned
    if current and not missing:
        if too_old and not waiting:
            message = f"{'; '.join(sorted(too_old))}. Other workers serve all partitions"
            return SubscriberStatus(subscription.uid, generation, "True", message, SUBSCRIBER_NEEDS_NEWER_WORKER)
        if no_secret and not waiting:
            message = f"{'; '.join(sorted(no_secret))}. Other workers serve all partitions"
            return SubscriberStatus(subscription.uid, generation, "True", message, max(no_secret.values()))
        if filter_problems and not waiting:
            message = f"some events do not match, because they exceed a limit of the filter: {min(filter_problems)}"
            return SubscriberStatus(subscription.uid, generation, "True", message, FILTER_LIMIT_EXCEEDED)
        return SubscriberStatus(subscription.uid, generation, "True", _waiting_note(waiting))
    if too_old:
        message = "; ".join(sorted(too_old))
        return SubscriberStatus(subscription.uid, generation, "False", message, SUBSCRIBER_NEEDS_NEWER_WORKER)
    if no_secret:
        message, reason = "; ".join(sorted(no_secret)), max(no_secret.values())
        return SubscriberStatus(subscription.uid, generation, "False", message, reason)
    if not current and not stale:
        message = "no worker serves this subscription; start a worker of role all or dispatcher"
        return SubscriberStatus(subscription.uid, generation, "Unknown", message)
    if not current:
        message = f"no worker has applied generation {generation} yet"
        return SubscriberStatus(subscription.uid, generation, "Unknown", message)
    parts = ", ".join(map(str, sorted(missing)))
    message = f"no worker owns these partitions yet: {parts}; workers take them over within half a minute"
    return SubscriberStatus(subscription.uid, generation, "Unknown", message)


def _waiting_note(workers: Collection[str]) -> str:
    """Returns the message of a subscription that is ready, but whose `workers` wait for Kafka; "" if none does."""
    if not workers:
        return ""
    waiting = f"{', '.join(sorted(workers))}: {WorkerState.WAITING_FOR_KAFKA}"
    return f"{waiting}, which does not confirm commits; new events wait"


def reported_offsets(subscription: Subscription, workers: Iterable[WorkerStatus]) -> dict[int, int]:
    """Returns partition -> the highest committed offset that a worker has reported, of the present topic and since the
    last seek. Workers that are gone count too, until their record is removed."""
    reported: dict[int, int] = {}
    for worker in workers:
        stats = worker.stats.get(subscription.uid)
        if stats is not None and stats.offsets_of == subscription.offsets_of:
            for number, offset in stats.committed:
                reported[number] = max(offset, reported.get(number, 0))
    return reported


def subscriber_details(subscription: Subscription, workers: Collection[WorkerStatus], now: float) -> SubscriberDetails:
    """Returns the readiness and the statistics of a subscription over all workers."""
    status = subscriber_status(subscription, workers, now)
    return details(subscription, status, workers, now, FRESH_S)


def serving(type_: str, status: SubscriberStatus, label: str = "") -> Condition:
    """Returns a subscriber's status as a condition. `label`: the name to put before its message."""
    message = f"{label}: {status.message}" if label else status.message
    if status.ready == "True":
        return true(type_, status.reason or SUBSCRIBER_WAITS_FOR_KAFKA, message) if status.message else true(type_)
    if status.ready == "False":
        return false(type_, status.reason or SUBSCRIBER_FAILED, message)
    return unknown(type_, status.reason or SUBSCRIBER_NOT_SERVED, message)


class StatusTable(CompactedTable):
    """The latest record of each worker and of the leading controller, requests for removals, and what the leader must
    remember. Listeners hear of what a worker newly reports of its subscriptions or secrets, of a worker that is gone,
    of requests, and of what a leader records. Event loop only."""

    def __init__(self, topic: str, kafka: Mapping[str, Any], crashed: Callable[[BaseException], None]) -> None:
        super().__init__(topic, kafka, crashed)
        self.workers: dict[str, WorkerStatus] = {}  #: each with all its parts
        self._parts: dict[str, dict[bytes, WorkerStatus]] = {}  #: by worker, and by key
        self.report: ControllerReport | None = None
        self.requests: dict[str, RemovalRequest] = {}  #: by uid
        self.seek_requests: dict[str, SeekRequest] = {}  #: by id
        self.leaders = LeaderLog()  #: what the leading controllers recorded
        self._read: dict[bytes, tuple[bytes, WorkerStatus]] = {}  #: by key: the part that rarely changes

    def _apply(self, records: Sequence[Record]) -> bool:
        changed = False
        workers: dict[str, None] = {}
        for record in records:
            key, value = record.key, record.value
            if key.startswith(LEADER_KEY):
                changed |= self._apply_leader(record)
                continue
            if key.startswith(REQUEST_KEY):
                _apply_request(self.requests, RemovalRequest, REQUEST_KEY, record, self._topic)
                changed = True
                continue
            if key.startswith(SEEK_KEY):
                _apply_request(self.seek_requests, SeekRequest, SEEK_KEY, record, self._topic)
                changed = True
                continue
            if key == REPORT_KEY and value is None:
                self.report = None
                continue
            worker = key.decode("utf-8", "replace").partition("/")[0]
            if value is None:
                self._read.pop(key, None)
                self._parts.get(worker, {}).pop(key, None)
                workers[worker] = None
                continue
            try:
                status = self._decode(key, value)
            except ValueError as problem:
                skip(self._topic, record, problem)
                continue
            if isinstance(status, ControllerReport):
                self.report = status
            if isinstance(status, WorkerStatus):
                self._parts.setdefault(worker, {})[key] = status
                workers[worker] = None
        for worker in workers:
            changed |= self._join(worker)
        return changed

    def _join(self, worker: str) -> bool:
        """Put the parts of a worker together. Returns whether its report about subscriptions or secrets has changed, or
        is gone."""
        before, after = self.workers.pop(worker, None), join(self._parts.get(worker, {}).values())
        if after is None:
            if not self._parts.get(worker):
                self._parts.pop(worker, None)
            return before is not None
        if before is not None and before.subscriptions == after.subscriptions:
            after = replace(after, subscriptions=before.subscriptions)  # the same object, so that a comparison is quick
        self.workers[worker] = after
        return before is None or (before.subscriptions, before.secrets) != (after.subscriptions, after.secrets)

    def _decode(self, key: bytes, value: bytes) -> codec.Status:
        """Decode a record. A worker repeats every two seconds what it serves: that part is decoded only when it has
        changed."""
        plain, progress, stats = value.partition(b',"progress":')
        plain += b"}" if progress else b""
        head, begin, body = plain.partition(b',"role":')
        before, news = self._read.get(key), None
        if begin and before is not None and before[0] == body:
            news = decode_status(head + b',"role":"","subscriptions":{}}')
        if before is not None and isinstance(news, WorkerStatus):
            status: codec.Status = replace(before[1], time=news.time)
        else:
            status = decode_status(plain)
        if isinstance(status, WorkerStatus):
            self._read[key] = body, status
            if progress:
                status = replace(status, stats=ReadLater(stats.removesuffix(b"}")))
        return status

    def _apply_leader(self, record: Record) -> bool:
        key, value = record.key.decode("utf-8", "replace"), record.value
        try:
            return self.leaders.apply(key, None if value is None else decode_row(value))
        except (codec.UnknownSchema, UnknownRow) as problem:
            log.warning("the record of the leading controller is of a newer version", key=key, reason=str(problem))
            self.leaders.unreadable(key, str(problem))
        except ValueError as problem:
            skip(self._topic, record, problem)
        return False
