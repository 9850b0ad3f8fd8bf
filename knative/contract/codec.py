"""The records of the contract and status topics as plain values, and back: the one place that knows their form.

    Channel, Subscription           --record_of-->         record  --JSON-->  contract topic
    WorkerStatus                    --record_of_worker-->  record  --JSON-->  status topic
    ControllerReport, RemovalRequest, SeekRequest  likewise
    LeaderState                     --rows of `leader_state`, each a record-->  status topic

The dataclasses are the list of fields: each is stored under its own name. A later version of the same schema may only
add fields, so unknown ones are ignored, and one that is missing has its default. For a field that must not be
ignored, the record names a feature in `needs`; it then has schema 2, which versions without `needs` do not read.
Fields that need a conversion are in every record, except for those that later versions added. A filter is JSON text:
the records have one form for Spark.
Callers turn records into JSON text with orjson, which the core does not import: it writes some numbers
shorter than the standard library does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from typing import Any, TypeVar

from knative import filters
from knative.contract.broker_secrets import SecretProblem
from knative.contract.features import SUPPORTED, needs
from knative.contract.leader_state import LeaderRow, Row
from knative.contract.records import (
    SCHEMA_VERSION,
    SCHEMA_WITH_NEEDS,
    Channel,
    ControllerReport,
    RemovalRequest,
    ResourceProblem,
    Subscription,
    Unsupported,
    WorkerState,
    WorkerStatus,
    WorkerSubscription,
)
from knative.contract.seeks import SeekRequest, request_of
from knative.contract.subscription_stats import FailingDelivery, LastError, SubscriptionStats
from knative.delivery.policy import (
    Addressable,
    BackoffPolicy,
    DeliveryFormat,
    DeliveryOrder,
    DeliverySpec,
    OnRetriesExhausted,
)
from knative.filters.dialects import ALL_EVENTS, Filter

Record = dict[str, Any]
Entry = Channel | Subscription
Status = WorkerStatus | ControllerReport | RemovalRequest | SeekRequest | LeaderRow
T = TypeVar("T")

#: `what` a record of the contract is.
KINDS: Mapping[str, type[Channel] | type[Subscription]] = {"channel": Channel, "subscription": Subscription}

_NO_STATS = SubscriptionStats()


class UnknownSchema(ValueError):
    """A record with a schema that this version does not support."""


class UnsupportedFeatures(UnknownSchema):
    """A subscription that needs features which this version does not know."""

    def __init__(self, entry: Unsupported) -> None:
        super().__init__(f"{entry.kind} {entry.label} {entry.reason}")
        self.entry = entry


# -- contract


def record_of(entry: Entry) -> Record:
    """A record of the contract topic; its key is the uid."""
    what = next(name for name, kind in KINDS.items() if isinstance(entry, kind))
    needed = needs(entry)
    head = {"schema": SCHEMA_WITH_NEEDS, "needs": needed} if needed else {"schema": SCHEMA_VERSION}
    return {**head, "what": what, what: _plain(entry)}


def entry_of(record: Any) -> Entry:
    """The entry of a record. Raises UnsupportedFeatures for a subscription that this version cannot serve,
    UnknownSchema for any other record of a newer version, and KeyError, TypeError or ValueError for a record that is
    not valid."""
    needed: list[str] = []
    if record["schema"] == SCHEMA_WITH_NEEDS:
        if not isinstance(record["needs"], list):
            raise TypeError("`needs` is not a list")
        needed = list(map(str, record["needs"]))
    else:
        _check_schema(record, f"{SCHEMA_VERSION} and {SCHEMA_WITH_NEEDS}")
    what = record["what"]
    if what not in KINDS:
        raise UnknownSchema(f"the record has the unknown kind {what!r}")
    if unknown := tuple(one for one in needed if one not in SUPPORTED):
        raise _unsupported(what, record[what], unknown)
    return _read(KINDS[what], record[what])


def _unsupported(what: str, row: Any, features: tuple[str, ...]) -> UnknownSchema:
    if KINDS[what] is Subscription:
        identity = (str(row["uid"]), int(row["generation"]), str(row["namespace"]), str(row["name"]))
        return UnsupportedFeatures(Unsupported(*identity, str(row.get("kind", "Subscription")), features))
    return UnknownSchema(f"the record needs {', '.join(features)}, which this version does not know")


def _check_schema(record: Any, supported: str = str(SCHEMA_VERSION)) -> None:
    if record["schema"] != SCHEMA_VERSION:
        raise UnknownSchema(f"the record has schema {record['schema']}, this version supports {supported}")


def _plain(value: Any) -> Any:
    if isinstance(value, Filter):
        if value == ALL_EVENTS:
            return ""
        return json.dumps(filters.to_json(value), separators=(",", ":"), ensure_ascii=False)
    names = _NAMES.get(type(value))
    if names is not None:
        return {name: _plain(getattr(value, name)) for name in names}
    return list(value) if isinstance(value, tuple) else value


def _filter(text: Any) -> Filter:
    return filters.from_json(json.loads(text)) if text else ALL_EVENTS


def _addressable(row: Any) -> Addressable:
    return _read(Addressable, row)


def _addressable_or_none(row: Any) -> Addressable | None:
    return None if row is None else _addressable(row)


def _delivery(row: Any) -> DeliverySpec:
    return _read(DeliverySpec, row)


_CONVERTED: Mapping[type, Mapping[str, Callable[[Any], object]]] = {
    Channel: {"hosts": tuple, "config_keys": tuple},
    Addressable: {},
    DeliverySpec: {
        "backoff_policy": BackoffPolicy,
        "dead_letter_sink": _addressable_or_none,
        "format": DeliveryFormat,
    },
    Subscription: {
        "subscriber": _addressable,
        "reply": _addressable_or_none,
        "delivery": _delivery,
        "order": DeliveryOrder,
        "exhausted": OnRetriesExhausted,
        "filter": _filter,
        "delivery_own": tuple,
        "delivery_inherited": tuple,
    },
}
#: Fields with a conversion that records of the first version do not have.
_LATER = frozenset({"format", "filter", "config_keys", "delivery_own", "delivery_inherited"})
_NAMES = {
    kind: tuple(field.name for field in fields(kind))
    for kind in (*_CONVERTED, ResourceProblem, RemovalRequest, SubscriptionStats, LastError, SecretProblem)
}


def _read(kind: type[T], row: Any) -> T:
    known = {name: row[name] for name in _NAMES[kind] if name in row}
    for name, convert in _CONVERTED[kind].items():
        if name in row or name not in _LATER:
            known[name] = convert(row[name])
    return kind(**known)


# -- status


def record_of_worker(status: WorkerStatus) -> Record:
    """A worker's record in the status topic; its key is the worker's id."""
    record = {
        "schema": SCHEMA_VERSION,
        "worker": status.worker,
        "time": status.time,
        "role": status.role,
        "subscriptions": {uid: _served_row(one) for uid, one in status.subscriptions.items()},
    }
    if status.version:
        record |= {"version": status.version, "features": status.features}
    if status.secrets:
        record["kafka_secrets"] = {reference: _plain(one) for reference, one in status.secrets.items()}
    rows = {uid: row for uid, one in status.stats.items() if (row := stats_row(one)) is not None}
    return {**record, "progress": rows} if rows else record


def record_of_report(report: ControllerReport) -> Record:
    """The leading controller's record in the status topic."""
    body = {
        "time": report.time,
        "remarks": [_plain(problem) for problem in report.problems],
        "left_out": report.left_out,
        "foreign": list(report.foreign),
    }
    if report.version:
        body["version"] = report.version
    return {"schema": SCHEMA_VERSION, "controller": body}


def record_of_request(request: RemovalRequest | SeekRequest) -> Record:
    """A request in the status topic."""
    if isinstance(request, SeekRequest):
        return {"schema": SCHEMA_VERSION, "seek": asdict(request)}
    return {"schema": SCHEMA_VERSION, "remove": _plain(request)}


def record_of_leader(row: Row) -> Record:
    """A row of the leader's state in the status topic, or its claim: {"claim": <directory>}."""
    return {"schema": SCHEMA_VERSION, "leader": dict(row)}


def leader_row_of(record: Any) -> Row:
    """The row of a leader's record. Raises ValueError, KeyError or TypeError if it is not valid or has a newer
    schema."""
    _check_schema(record)
    row = record["leader"]
    if not isinstance(row, dict):
        raise TypeError("`leader` is not an object")
    return row


def status_of(record: Any, unreadable: Callable[[str, Exception], None] | None = None) -> Status:
    """What a record of the status topic says. `unreadable` gets the uid of statistics that cannot be read, and why;
    they are left out: statistics are for people, and must not make a subscriber unready.

    Raises ValueError, KeyError or TypeError if the record is not valid or has a newer schema.
    """
    _check_schema(record)
    if "controller" in record:
        report = record["controller"]
        problems = (ResourceProblem(*(str(row[name]) for name in _NAMES[ResourceProblem])) for row in report["remarks"])
        foreign = tuple(map(str, report.get("foreign", ())))
        version = str(report.get("version", ""))
        return ControllerReport(float(report["time"]), tuple(problems), int(report["left_out"]), foreign, version)
    if "leader" in record:
        return LeaderRow(leader_row_of(record))
    if "remove" in record:
        return RemovalRequest(str(record["remove"]["uid"]), float(record["remove"]["time"]))
    if "seek" in record:
        return request_of(record["seek"])
    subscriptions = {uid: _served(row) for uid, row in record["subscriptions"].items()}
    stats = _stats(record.get("progress"), unreadable)
    version, features = str(record.get("version", "")), tuple(map(str, record.get("features", ())))
    secrets = {
        str(reference): SecretProblem(str(row["reason"]), str(row["message"]))
        for reference, row in record.get("kafka_secrets", {}).items()
    }
    return WorkerStatus(
        record["worker"], float(record["time"]), record["role"], subscriptions, stats, version, features, secrets
    )


def _served_row(one: WorkerSubscription) -> Record:
    row = {"generation": one.generation, "partitions": one.partitions, "state": one.state_text}
    return {**row, "filter_problem": one.filter_problem} if one.filter_problem else row


def _served(row: Mapping[str, Any]) -> WorkerSubscription:
    text, _, reason = str(row["state"]).partition(": ")
    try:
        state = WorkerState(text)
    except ValueError:  # of another version of Penstock: its partitions count, as if it were running
        state, reason = WorkerState.RUNNING, ""
    problem = str(row.get("filter_problem", ""))
    return WorkerSubscription(row["generation"], tuple(row["partitions"]), state, reason, problem)


def _stats(rows: Any, unreadable: Callable[[str, Exception], None] | None) -> dict[str, SubscriptionStats]:
    found: dict[str, SubscriptionStats] = {}
    if not isinstance(rows, dict):
        return found
    for uid, row in rows.items():
        try:
            found[uid] = stats_of(row)
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            if unreadable is not None:
                unreadable(uid, problem)
    return found


def stats_row(stats: SubscriptionStats) -> Record | None:
    """Statistics without the fields that have their default; None if all have."""
    row = {
        name: _plain(value)
        for name in _NAMES[SubscriptionStats]
        if (value := getattr(stats, name)) != getattr(_NO_STATS, name)
    }
    if stats.heads:
        row["heads"] = [
            [head.partition, head.offset, head.attempts, head.next_attempt, head.event_id] for head in stats.heads
        ]
    return row or None


def stats_of(row: Mapping[str, Any]) -> SubscriptionStats:
    """Statistics of a row. Raises ValueError, KeyError or TypeError if it is not valid."""
    error = row.get("last_error")
    return SubscriptionStats(
        in_flight=int(row.get("in_flight", 0)),
        retrying=int(row.get("retrying", 0)),
        lag=int(row.get("lag", 0)),
        oldest=float(row.get("oldest", 0.0)),
        delivered_per_s=float(row.get("delivered_per_s", 0.0)),
        heads=tuple(_head(*one) for one in row.get("heads", ())),
        last_error=None if error is None else _last_error(error),
        throttled=bool(row.get("throttled", False)),
    )


def _head(
    partition: int, offset: int, attempts: int, next_attempt: float, event_id: str, *_newer: object
) -> FailingDelivery:
    return FailingDelivery(int(partition), int(offset), int(attempts), float(next_attempt), str(event_id))


def _last_error(row: Mapping[str, Any]) -> LastError:
    return LastError(
        float(row["time"]),
        int(row["code"]),
        str(row["reason"]),
        str(row.get("answer", "")),
        str(row.get("destination", "")),
        int(row.get("partition", 0)),
        int(row.get("offset", 0)),
    )
