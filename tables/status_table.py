"""The workers' status topic as a table, and what it means for a subscriber: ready, or not, and why.

Each worker says every two seconds which partitions of which subscription it owns, and of which generation. A subscriber
is ready when fresh records of its current generation together own all partitions. No Kafka admin call is needed for it.
The leading controller says in the same topic what it cannot take.

Whether a record is fresh is its writer's clock against the reader's: clocks that are FRESH_S apart make everything look
unserved. Refuses to write to Kafka and to read a clock: `now` comes in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import orjson
import structlog

from knative.contract.records import (
    SCHEMA_VERSION,
    WAITING_FOR_KAFKA,
    ControllerReport,
    RemovalRequest,
    ResourceProblem,
    SubscriberStatus,
    Subscription,
    WorkerStatus,
    WorkerSubscription,
)
from knative.contract.subscription_stats import SubscriptionStats
from knative.resources.conditions import Condition, false, true, unknown
from tables.kafka.compacted_topic import CompactedReader, Record
from tables.subscriber_details import SubscriberDetails, details, from_row, to_row

log = structlog.get_logger(__name__)

FRESH_S = 10.0  #: a record older than this no longer counts
RECORD_BYTES_MAX = 512 * 1024  #: of a record with `stats`, and of a report; a topic takes 1 MiB by default
REPORT_KEY = b"/controller"  #: no worker's id has a slash
REQUEST_KEY = b"/remove/"  #: a uid follows
#: Reasons of conditions that follow from workers' records, so that whoever reads those knows them by himself.
SUBSCRIBER_FAILED = "SubscriberFailed"
SUBSCRIBER_NOT_SERVED = "SubscriberNotServed"
SUBSCRIBER_WAITS_FOR_KAFKA = "WaitingForKafka"


def encode_status(status: WorkerStatus) -> bytes:
    """JSON for the status topic; the key is the worker's id. One that would be too large goes without `stats`."""
    record = {
        "schema": SCHEMA_VERSION,
        "worker": status.worker,
        "time": status.time,
        "role": status.role,
        "subscriptions": status.subscriptions,
    }
    rows = {uid: row for uid, one in status.stats.items() if (row := to_row(one)) is not None}
    if rows:
        value = orjson.dumps({**record, "progress": rows})
        if len(value) <= RECORD_BYTES_MAX:
            return value
    return orjson.dumps(record)


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
    """Back from the topic. Raises ValueError, KeyError or TypeError for junk or a newer schema."""
    data = orjson.loads(value)
    if data["schema"] != SCHEMA_VERSION:
        raise ValueError(f"schema {data['schema']}, this version knows {SCHEMA_VERSION}")
    if "controller" in data:
        report = data["controller"]
        problems = (
            ResourceProblem(*(str(row[name]) for name in ResourceProblem.__slots__)) for row in report["remarks"]
        )
        foreign = tuple(map(str, report.get("foreign", ())))
        return ControllerReport(float(report["time"]), tuple(problems), int(report["left_out"]), foreign)
    if "remove" in data:
        return RemovalRequest(str(data["remove"]["uid"]), float(data["remove"]["time"]))
    subscriptions = {
        uid: WorkerSubscription(row["generation"], tuple(row["partitions"]), row["state"])
        for uid, row in data["subscriptions"].items()
    }
    stats = _progress(data.get("progress"))
    return WorkerStatus(data["worker"], float(data["time"]), data["role"], subscriptions, stats)


def _progress(rows: Any) -> dict[str, SubscriptionStats]:
    """What cannot be read is left out: it is for people to look at, and must not make a subscriber unready."""
    if not isinstance(rows, dict):
        return {}
    found = {}
    for uid, row in rows.items():
        try:
            found[uid] = from_row(row)
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            log.debug("progress cannot be read", uid=uid, reason=str(problem))
    return found


def subscriber_status(subscription: Subscription, workers: Iterable[WorkerStatus], now: float) -> SubscriberStatus:
    """Ready = fresh workers of the current generation own every partition; Unknown = nobody serves it."""
    owned: set[int] = set()
    current = stale = 0
    failures: list[str] = []
    waiting: list[str] = []
    for worker in workers:
        mine = worker.subscriptions.get(subscription.uid)
        if mine is None or now - worker.time > FRESH_S:
            continue
        if mine.state.startswith("failed"):
            failures.append(f"{worker.worker}: {mine.state}")
        if mine.state == WAITING_FOR_KAFKA:
            waiting.append(worker.worker)
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
        return SubscriberStatus(subscription.uid, generation, "True", _waits(waiting))
    if not current and not stale:
        nobody = "no worker serves this subscription; start one in the role all or dispatcher"
        return SubscriberStatus(subscription.uid, generation, "Unknown", nobody)
    if not current:
        return SubscriberStatus(
            subscription.uid, generation, "Unknown", f"workers have not taken generation {generation}"
        )
    parts = ", ".join(map(str, sorted(missing)))
    waits = f"partitions without an owner yet: {parts}; workers take them within half a minute"
    return SubscriberStatus(subscription.uid, generation, "Unknown", waits)


def _waits(workers: Collection[str]) -> str:
    """For people: still served, and slower than usual; "" when none waits."""
    if not workers:
        return ""
    return f"{', '.join(sorted(workers))}: {WAITING_FOR_KAFKA}, which confirms no commits; new events wait"


def subscriber_details(subscription: Subscription, workers: Collection[WorkerStatus], now: float) -> SubscriberDetails:
    """Whether it is ready, and how it does, over all workers."""
    status = subscriber_status(subscription, workers, now)
    return details(subscription, status, workers, now, FRESH_S)


def serving(type_: str, status: SubscriberStatus, label: str = "") -> Condition:
    """The same as a condition; `label`: what to name in its message."""
    message = f"{label}: {status.message}" if label else status.message
    if status.ready == "True":
        return true(type_, SUBSCRIBER_WAITS_FOR_KAFKA, message) if status.message else true(type_)
    if status.ready == "False":
        return false(type_, SUBSCRIBER_FAILED, message)
    return unknown(type_, SUBSCRIBER_NOT_SERVED, message)


class StatusTable:
    """What every worker and the leading controller last said, and what they are asked for. Event loop only."""

    def __init__(self, topic: str, kafka: Mapping[str, Any], crashed: Callable[[BaseException], None]) -> None:
        self.loaded = False
        self.workers: dict[str, WorkerStatus] = {}
        self.report: ControllerReport | None = None
        self.requests: dict[str, RemovalRequest] = {}  #: by uid
        self._listeners: list[Callable[[], None]] = []
        self._reader = CompactedReader(topic, kafka, apply=self.apply, caught_up=self._caught_up, crashed=crashed)

    def on_change(self, listener: Callable[[], None]) -> None:
        """`listener` is called when what workers say (not merely the time of it) has changed."""
        self._listeners.append(listener)

    def start(self) -> None:
        """Begin reading."""
        self._reader.start()

    async def stop(self) -> None:
        """Stop reading."""
        await self._reader.stop()

    def apply(self, records: Sequence[Record]) -> None:
        """Take status records in topic order."""
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
                log.warning("worker status cannot be read; the last good one stays", worker=worker, reason=str(problem))
                continue
            if isinstance(status, ControllerReport):
                self.report = status
            if not isinstance(status, WorkerStatus):
                continue
            self.workers[worker] = status
            changed |= before is None or before.subscriptions != status.subscriptions
        if changed and self.loaded:
            self._tell()

    def _apply_request(self, uid: str, value: bytes | None) -> None:
        self.requests.pop(uid, None)
        if value is None:
            return
        try:
            request = decode_status(value)
        except (ValueError, KeyError, TypeError) as problem:
            log.warning("removal request cannot be read and is ignored", uid=uid, reason=str(problem))
            return
        if isinstance(request, RemovalRequest) and request.uid == uid:
            self.requests[uid] = request

    def _caught_up(self) -> None:
        self.loaded = True
        self._tell()

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()
