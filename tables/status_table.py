"""The status topic as a table, and what it means for a subscriber: ready or not, and why.

Every two seconds each worker reports the partitions and the generation of each subscription that it serves. A
subscriber is ready when the fresh records of its current generation own all partitions. This needs no Kafka admin call.
The leading controller reports in the same topic what it cannot serve.

Whether a record is fresh depends on the writer's and the reader's clock: if the clocks differ by FRESH_S, no
subscription seems to be served.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import orjson
import structlog

from knative.contract.records import (
    SCHEMA_VERSION,
    ControllerReport,
    RemovalRequest,
    ResourceProblem,
    SubscriberStatus,
    Subscription,
    WorkerState,
    WorkerStatus,
    WorkerSubscription,
)
from knative.contract.subscription_stats import SubscriptionStats
from knative.resources.conditions import Condition, false, true, unknown
from tables.kafka.compacted_topic import CompactedReader, Record
from tables.subscriber_details import SubscriberDetails, details, from_row, to_row

log = structlog.get_logger(__name__)

FRESH_S = 10.0  #: an older record does not count
RECORD_BYTES_MAX = 512 * 1024  #: of a record with `stats`, and of a report; a topic accepts 1 MiB by default
REPORT_KEY = b"/controller"  #: no worker's id has a slash
REQUEST_KEY = b"/remove/"  #: a uid follows
#: Reasons of conditions that follow from the workers' records. Readers of the topic work them out themselves.
SUBSCRIBER_FAILED = "SubscriberFailed"
SUBSCRIBER_NOT_SERVED = "SubscriberNotServed"
SUBSCRIBER_WAITS_FOR_KAFKA = "WaitingForKafka"


def encode_status(status: WorkerStatus) -> bytes:
    """JSON for the status topic; the key is the worker's id. A record that would be too large has no `stats`."""
    record = {
        "schema": SCHEMA_VERSION,
        "worker": status.worker,
        "time": status.time,
        "role": status.role,
        "subscriptions": {uid: _subscription_row(one) for uid, one in status.subscriptions.items()},
    }
    rows = {uid: row for uid, one in status.stats.items() if (row := to_row(one)) is not None}
    if rows:
        value = orjson.dumps({**record, "progress": rows})
        if len(value) <= RECORD_BYTES_MAX:
            return value
    return orjson.dumps(record)


def _subscription_row(one: WorkerSubscription) -> dict[str, object]:
    return {"generation": one.generation, "partitions": one.partitions, "state": _state_text(one)}


def _state_text(one: WorkerSubscription) -> str:
    return f"{one.state}: {one.reason}" if one.reason else one.state.value


def _read_subscription(row: Any) -> WorkerSubscription:
    text, _, reason = str(row["state"]).partition(": ")
    try:
        state = WorkerState(text)
    except ValueError:  # of another version of Penstock: its partitions count, as if it were running
        state, reason = WorkerState.RUNNING, ""
    return WorkerSubscription(row["generation"], tuple(row["partitions"]), state, reason)


def encode_report(report: ControllerReport) -> bytes:
    """JSON for the status topic, under REPORT_KEY."""
    rows = [asdict(problem) for problem in report.problems]
    body = {"time": report.time, "remarks": rows, "left_out": report.left_out, "foreign": report.foreign}
    return orjson.dumps({"schema": SCHEMA_VERSION, "controller": body})


def encode_request(request: RemovalRequest) -> tuple[bytes, bytes]:
    """Key and value for the status topic."""
    value = orjson.dumps({"schema": SCHEMA_VERSION, "remove": asdict(request)})
    return REQUEST_KEY + request.uid.encode(), value


def decode_status(value: bytes) -> WorkerStatus | ControllerReport | RemovalRequest:
    """The value of a record. Raises ValueError, KeyError or TypeError if it is not valid or has a newer schema."""
    data = orjson.loads(value)
    if data["schema"] != SCHEMA_VERSION:
        raise ValueError(f"the record has schema {data['schema']}, this version supports {SCHEMA_VERSION}")
    if "controller" in data:
        report = data["controller"]
        problems = (
            ResourceProblem(*(str(row[name]) for name in ResourceProblem.__slots__)) for row in report["remarks"]
        )
        foreign = tuple(map(str, report.get("foreign", ())))
        return ControllerReport(float(report["time"]), tuple(problems), int(report["left_out"]), foreign)
    if "remove" in data:
        return RemovalRequest(str(data["remove"]["uid"]), float(data["remove"]["time"]))
    subscriptions = {uid: _read_subscription(row) for uid, row in data["subscriptions"].items()}
    stats = _read_stats(data.get("progress"))
    return WorkerStatus(data["worker"], float(data["time"]), data["role"], subscriptions, stats)


def _read_stats(rows: Any) -> dict[str, SubscriptionStats]:
    """Statistics by subscription uid. Rows that cannot be read are left out: statistics are for people, and must not
    make a subscriber unready."""
    if not isinstance(rows, dict):
        return {}
    found = {}
    for uid, row in rows.items():
        try:
            found[uid] = from_row(row)
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            log.debug("statistics of a worker cannot be read", uid=uid, reason=str(problem))
    return found


def subscriber_status(subscription: Subscription, workers: Iterable[WorkerStatus], now: float) -> SubscriberStatus:
    """True if fresh workers of the current generation own every partition, False if a worker failed, else Unknown."""
    owned: set[int] = set()
    current = stale = 0
    failures: list[str] = []
    waiting: list[str] = []
    for worker in workers:
        mine = worker.subscriptions.get(subscription.uid)
        if mine is None or now - worker.time > FRESH_S:
            continue
        if mine.state is WorkerState.FAILED:
            failures.append(f"{worker.worker}: {_state_text(mine)}")
        if mine.state is WorkerState.WAITING_FOR_KAFKA:
            waiting.append(worker.worker)
        # A worker that still serves an older generation owns its partitions, but not with the settings that are asked
        # for: the subscriber is not ready.
        if mine.generation != subscription.generation:
            stale += 1
            continue
        current += 1
        owned.update(mine.partitions)
    generation = subscription.generation
    if failures:
        return SubscriberStatus(subscription.uid, generation, "False", "; ".join(failures))
    missing = set(range(subscription.partitions)) - owned
    if current and not missing:
        return SubscriberStatus(subscription.uid, generation, "True", _waiting_note(waiting))
    if not current and not stale:
        message = "no worker serves this subscription; start one in the role all or dispatcher"
        return SubscriberStatus(subscription.uid, generation, "Unknown", message)
    if not current:
        message = f"no worker has applied generation {generation} yet"
        return SubscriberStatus(subscription.uid, generation, "Unknown", message)
    parts = ", ".join(map(str, sorted(missing)))
    message = f"partitions without an owner yet: {parts}; workers take them over within half a minute"
    return SubscriberStatus(subscription.uid, generation, "Unknown", message)


def _waiting_note(workers: Collection[str]) -> str:
    """The message of a subscription that is ready, but whose `workers` wait for Kafka; "" if none does."""
    if not workers:
        return ""
    waiting = f"{', '.join(sorted(workers))}: {WorkerState.WAITING_FOR_KAFKA}"
    return f"{waiting}, which does not confirm commits; new events wait"


def subscriber_details(subscription: Subscription, workers: Collection[WorkerStatus], now: float) -> SubscriberDetails:
    """The readiness and the statistics of a subscription over all workers."""
    status = subscriber_status(subscription, workers, now)
    return details(subscription, status, workers, now, FRESH_S)


def serving(type_: str, status: SubscriberStatus, label: str = "") -> Condition:
    """A subscriber's status as a condition. `label`: the name to put before its message."""
    message = f"{label}: {status.message}" if label else status.message
    if status.ready == "True":
        return true(type_, SUBSCRIBER_WAITS_FOR_KAFKA, message) if status.message else true(type_)
    if status.ready == "False":
        return false(type_, SUBSCRIBER_FAILED, message)
    return unknown(type_, SUBSCRIBER_NOT_SERVED, message)


class StatusTable:
    """The latest record of each worker and of the leading controller, and requests for removals. Event loop only."""

    def __init__(self, topic: str, kafka: Mapping[str, Any], crashed: Callable[[BaseException], None]) -> None:
        self.loaded = False
        self.workers: dict[str, WorkerStatus] = {}
        self.report: ControllerReport | None = None
        self.requests: dict[str, RemovalRequest] = {}  #: by uid
        self._listeners: list[Callable[[], None]] = []
        self._reader = CompactedReader(topic, kafka, apply=self.apply, caught_up=self._caught_up, crashed=crashed)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` when a worker's record has changed in more than its time, or removals are requested."""
        self._listeners.append(listener)

    def start(self) -> None:
        """Start reading."""
        self._reader.start()

    async def stop(self) -> None:
        """Stop reading."""
        await self._reader.stop()

    def apply(self, records: Sequence[Record]) -> None:
        """Apply status records in topic order."""
        changed = False
        for key, value, _ in records:
            if key.startswith(REQUEST_KEY):
                self._apply_request(key.removeprefix(REQUEST_KEY).decode("utf-8", "replace"), value)
                changed = True
                continue
            worker = key.decode("utf-8", "replace")
            before = self.workers.get(worker)
            if key == REPORT_KEY and value is None:
                self.report = None
                continue
            if value is None:
                changed |= self.workers.pop(worker, None) is not None
                continue
            try:
                status = decode_status(value)
            except (ValueError, KeyError, TypeError) as problem:
                log.warning(
                    "worker status cannot be read; keeping the last good one", worker=worker, reason=str(problem)
                )
                continue
            if isinstance(status, ControllerReport):
                self.report = status
            if not isinstance(status, WorkerStatus):
                continue
            self.workers[worker] = status
            changed |= before is None or before.subscriptions != status.subscriptions
        if changed and self.loaded:
            self._notify()

    def _apply_request(self, uid: str, value: bytes | None) -> None:
        self.requests.pop(uid, None)
        if value is None:
            return
        try:
            request = decode_status(value)
        except (ValueError, KeyError, TypeError) as problem:
            log.warning("removal request cannot be read; ignoring it", uid=uid, reason=str(problem))
            return
        if isinstance(request, RemovalRequest) and request.uid == uid:
            self.requests[uid] = request

    def _caught_up(self) -> None:
        self.loaded = True
        self._notify()

    def _notify(self) -> None:
        for listener in self._listeners:
            listener()
