"""The records of the contract and status topics as plain values, and back: the one place that knows their form.

    Channel, Subscription           --record_of-->         record  --JSON-->  contract topic
    WorkerStatus                    --record_of_worker-->  record  --JSON-->  status topic
    ControllerReport, RemovalRequest, SeekRequest  likewise
    LeaderState                     --rows of `leader_state`, each a record-->  status topic

The dataclasses are the list of fields: each is stored under its own name. A later version of the same schema may only
add fields, so unknown ones are ignored, and one that is missing has its default. For a field that must not be
ignored, the record names a feature in `needs`; it then has schema 2, which versions without `needs` do not read.
A filter is JSON text: the records have one form for Spark.
Callers turn records into JSON text with orjson, which the core does not import: it writes some numbers
shorter than the standard library does.
"""

from __future__ import annotations

import json
import marshal
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, replace
from functools import partial
from typing import Any

from knative import filters
from knative.contract import kafka_names
from knative.contract.broker_secrets import SecretProblem, is_reference
from knative.contract.decoding import (
    INTEGER_MAX,
    TIME_MAX_S,
    DecodeError,
    Decoder,
    Fields,
    between,
    by_name,
    each,
    integer_at,
    items_at,
    number_at,
    object_at,
    text_at,
)
from knative.contract.features import SUPPORTED, needs
from knative.contract.leader_state import LeaderRow, Row
from knative.contract.records import (
    BROKER,
    CHANNEL,
    SCHEMA_VERSION,
    SCHEMA_WITH_NEEDS,
    SUBSCRIPTION,
    TRIGGER,
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
from knative.contract.seeks import SeekRequest
from knative.contract.subscription_stats import FailingDelivery, LastError, SubscriptionStats
from knative.delivery.policy import (
    DURATION_MAX_S,
    Addressable,
    DeliverySpec,
)
from knative.filters.dialects import ALL_EVENTS, Filter
from knative.urls import uri_problem

Record = dict[str, Any]
Entry = Channel | Subscription
Status = WorkerStatus | ControllerReport | RemovalRequest | SeekRequest | LeaderRow

#: `what` a record of the contract is.
KINDS: Mapping[str, type[Channel] | type[Subscription]] = {"channel": Channel, "subscription": Subscription}

_NO_STATS = SubscriptionStats()
#: More partitions than a topic of any Kafka has; readers make a set of their numbers.
PARTITIONS_MAX = 100_000


class UnknownSchema(ValueError):
    """A record with a schema that this version does not support."""


class UnsupportedFeatures(UnknownSchema):
    """A subscription that needs features which this version does not know."""

    def __init__(self, entry: Unsupported) -> None:
        super().__init__(f"{entry.kind} {entry.label} {entry.reason}")
        self.entry = entry


# -- contract


def record_of(entry: Entry) -> Record:
    """Returns a record of the contract topic; its key is the uid."""
    what = next(name for name, kind in KINDS.items() if isinstance(entry, kind))
    needed = needs(entry)
    head = {"schema": SCHEMA_WITH_NEEDS, "needs": needed} if needed else {"schema": SCHEMA_VERSION}
    return {**head, "what": what, what: _plain(entry)}


def entry_of(record: Any) -> Entry:
    """Returns the entry of a record. Raises UnsupportedFeatures for a subscription that this version cannot serve,
    UnknownSchema for any other record of a newer version, and DecodeError for a record that is not valid."""
    needed: list[str] = []
    if record_at(record, SCHEMA_WITH_NEEDS)["schema"] == SCHEMA_WITH_NEEDS:
        needed = [text_at(name, "needs") for name in items_at(record.get("needs"), "needs")]
    what = text_at(record.get("what"), "what")
    if what not in KINDS:
        raise UnknownSchema(f"the record has the unknown kind {what[:64]!r}")
    if unknown := tuple(name for name in needed if name not in SUPPORTED):
        if KINDS[what] is Subscription:
            served = object_at(record.get(what), what)
            entry = {"kind": SUBSCRIPTION, **served, "features": list(unknown)}
            raise UnsupportedFeatures(_DECODER.read_at(what, Unsupported, entry))
        raise UnknownSchema(f"the record needs {', '.join(unknown)}, which this version does not know")
    return _DECODER.read_at(what, KINDS[what], record.get(what))


def record_at(record: Any, supported: int = SCHEMA_VERSION) -> Record:
    """Returns the record, which must have a schema. Raises UnknownSchema for a newer one, and DecodeError."""
    row = object_at(record, "the record")
    schema = integer_at(row.get("schema"), "schema")
    if schema > supported:
        raise UnknownSchema(f"the record has schema {schema}, but this version supports {supported}")
    if schema < SCHEMA_VERSION:
        raise DecodeError(f"{schema} is not a valid schema")
    return row


def _plain(value: Any) -> Any:
    if isinstance(value, Filter):
        if value == ALL_EVENTS:
            return ""
        return json.dumps(filters.to_json(value), separators=(",", ":"), ensure_ascii=False)
    names = _NAMES.get(type(value))
    if names is not None:
        return {name: _plain(getattr(value, name)) for name in names}
    return list(value) if isinstance(value, tuple) else value


def _filter_at(value: Any) -> Filter:
    text = text_at(value)
    if not text:
        return ALL_EVENTS
    try:
        wishes = filters.from_json(json.loads(text))
        filters.compile_filter(wishes)
    except (ValueError, RecursionError) as problem:
        raise DecodeError(f" is not a valid filter: {problem}") from problem
    return wishes


def _one_of(*texts: str) -> Callable[[str], str | None]:
    return lambda text: None if text in texts else f"is not one of {', '.join(texts)}"


def _uid_problem(uid: str) -> str | None:
    return None if _UID.fullmatch(uid) else "is not a valid uid"


def _uri_problem(uri: str) -> str | None:
    wrong = uri_problem(uri)
    return wrong and wrong[0]


def _secret_problem(reference: str) -> str | None:
    return None if not reference or is_reference(reference) else "is not a valid name of a Secret"


def _head(value: Any) -> FailingDelivery:
    row = [*items_at(value), *(None,) * 5]
    return FailingDelivery(
        integer_at(row[0]), integer_at(row[1]), integer_at(row[2]), number_at(row[3]), text_at(row[4])
    )


def _served(value: Any) -> WorkerSubscription:
    row = object_at(value)
    text, _, reason = text_at(row.get("state"), "state").partition(": ")
    if text not in _WORKER_STATES:  # of another version of Penstock: its partitions count, as if it were running
        text, reason = WorkerState.RUNNING, ""
    return _DECODER.read(WorkerSubscription, {**row, "state": text, "reason": reason})


def _partitions_problem(partitions: tuple[int, ...]) -> str | None:
    return None if all(0 <= partition < PARTITIONS_MAX for partition in partitions) else "has no valid partition"


def _pairs_problem(pairs: tuple[tuple[int, ...], ...]) -> str | None:
    are_pairs = all(len(pair) == 2 and min(pair) >= 0 for pair in pairs)
    return None if are_pairs else "has an item that is not a partition with its offset"


def _conditions_problem(parts: tuple[tuple[str, ...], ...]) -> str | None:
    are_conditions = all(len(part) == 4 and part[1] in ("True", "False", "Unknown") for part in parts)
    return None if are_conditions else "has an item that is not a condition"


_WORKER_STATES = frozenset(map(str, WorkerState))
_UID = re.compile("[a-zA-Z0-9._-]{1,200}", re.ASCII)
_TIME = between(0, TIME_MAX_S)
_DURATION = between(0, DURATION_MAX_S)
_NATURAL = between(0, INTEGER_MAX)
_TOPICS = {"topic": kafka_names.stored_topic_problem, "dlq_topic": kafka_names.stored_topic_problem}
_ENTRY = {
    "uid": _uid_problem,
    "generation": _NATURAL,
    "partitions": between(1, PARTITIONS_MAX),
    "secret": _secret_problem,
}
_DECODER = Decoder(
    {
        Channel: Fields({**_ENTRY, **_TOPICS, "kind": _one_of(CHANNEL, BROKER)}, required=frozenset({"hosts"})),
        Subscription: Fields(
            {
                **_ENTRY,
                **_TOPICS,
                "kind": _one_of(SUBSCRIPTION, TRIGGER),
                "channel_uid": _uid_problem,
                "group": kafka_names.stored_group_problem,
                "concurrency": between(1, INTEGER_MAX),
            },
            {"filter": _filter_at},
            frozenset({"reply", "delivery", "order", "exhausted"}),
        ),
        Unsupported: Fields({"uid": _uid_problem, "generation": _NATURAL}),
        Addressable: Fields({"uri": _uri_problem}),
        DeliverySpec: Fields(
            {
                "retry": _NATURAL,
                "backoff_delay_s": _DURATION,
                "timeout_s": _DURATION,
                "retry_after_max_s": _DURATION,
            }
        ),
        WorkerStatus: Fields(
            {"time": _TIME, "part": between(0, PARTITIONS_MAX), "parts": between(1, PARTITIONS_MAX)},
            {"subscriptions": partial(by_name, _served)},
            frozenset({"subscriptions"}),
        ),
        WorkerSubscription: Fields({"generation": _NATURAL, "partitions": _partitions_problem}),
        ControllerReport: Fields({"time": _TIME}),
        ResourceProblem: Fields({"parts": _conditions_problem}),
        RemovalRequest: Fields({"time": _TIME}),
        SeekRequest: Fields({"time": _TIME}),
        SubscriptionStats: Fields({"oldest": _TIME, "committed": _pairs_problem}, {"heads": partial(each, _head)}),
        LastError: Fields({"time": _TIME}),
    }
)
_NAMES = {
    kind: tuple(field.name for field in fields(kind))
    for kind in (
        *(Channel, Subscription, Addressable, DeliverySpec),
        *(ResourceProblem, RemovalRequest, SubscriptionStats, LastError, SecretProblem),
    )
}


# -- status


def record_of_worker(status: WorkerStatus) -> Record:
    """Returns a worker's record in the status topic; its key is the worker's id."""
    record = {
        "schema": SCHEMA_VERSION,
        "worker": status.worker,
        "time": status.time,
        "role": status.role,
        "subscriptions": {uid: _served_row(subscription) for uid, subscription in status.subscriptions.items()},
    }
    if status.version:
        record |= {"version": status.version, "features": status.features}
    if status.secrets:
        record["kafka_secrets"] = {reference: _plain(problem) for reference, problem in status.secrets.items()}
    if status.unused is not None:
        record["unused"] = status.unused
    if status.parts > 1:
        record |= {"part": status.part, "parts": status.parts}
    rows = {uid: row for uid, stats in status.stats.items() if (row := stats_row(stats)) is not None}
    return {**record, "progress": rows} if rows else record


def record_of_report(report: ControllerReport) -> Record:
    """Returns the leading controller's record in the status topic."""
    body = {
        "time": report.time,
        "remarks": [
            {name: value for name, value in _plain(problem).items() if name != "parts" or value}
            for problem in report.problems
        ],
        "left_out": report.left_out,
        "foreign": list(report.foreign),
    }
    if report.version:
        body["version"] = report.version
    if report.event_types:
        body["event_types"] = report.event_types
    return {"schema": SCHEMA_VERSION, "controller": body}


def record_of_request(request: RemovalRequest | SeekRequest) -> Record:
    """Returns a request in the status topic."""
    if isinstance(request, SeekRequest):
        return {"schema": SCHEMA_VERSION, "seek": asdict(request)}
    return {"schema": SCHEMA_VERSION, "remove": _plain(request)}


def record_of_leader(row: Row) -> Record:
    """Returns a row of the leader's state in the status topic, or its claim: {"claim": <directory>}."""
    return {"schema": SCHEMA_VERSION, "leader": dict(row)}


def leader_row_of(record: Any) -> Row:
    """Returns the row of a leader's record. Raises UnknownSchema for a newer schema, DecodeError if it is not valid."""
    return object_at(record_at(record).get("leader"), "leader")


def status_of(record: Any, unreadable: Callable[[str, Exception], None] | None = None) -> Status:
    """Returns what a record of the status topic says. `unreadable` gets the uid of statistics that cannot be read, and
    why; they are left out: statistics are for people, and must not make a subscriber unready.

    Raises UnknownSchema for a newer schema, and DecodeError if the record is not valid.
    """
    record_at(record)
    if "controller" in record:
        report = object_at(record["controller"], "controller")
        return _DECODER.read_at("controller", ControllerReport, {**report, "problems": report.get("remarks")})
    if "leader" in record:
        return LeaderRow(leader_row_of(record))
    if "remove" in record:
        return _DECODER.read_at("remove", RemovalRequest, record["remove"])
    if "seek" in record:
        return _DECODER.read_at("seek", SeekRequest, record["seek"])
    stats = _stats(record.get("progress"), unreadable)
    plain = {**record, "stats": {}, "secrets": record.get("kafka_secrets", {})}
    rows = record.get("subscriptions")
    if not isinstance(rows, dict):
        return replace(_DECODER.read(WorkerStatus, plain), stats=stats)
    status = _DECODER.read(WorkerStatus, {**plain, "subscriptions": {}})
    return replace(status, subscriptions=_served_rows(rows), stats=stats)


def _served_rows(rows: Record) -> dict[str, WorkerSubscription]:
    """Reads the rows by uid. Thousands of them differ only in their uid, so equal rows are read once."""
    read: dict[bytes, WorkerSubscription] = {}
    served = {}
    for uid, row in rows.items():
        same = marshal.dumps(row, 2)  # a fifth of the time of `repr`
        if same not in read:
            try:
                read[same] = _served(row)
            except DecodeError as problem:
                raise problem.within(uid).within("subscriptions") from None
        served[uid] = read[same]
    return served


def _served_row(served: WorkerSubscription) -> Record:
    row = {"generation": served.generation, "partitions": served.partitions, "state": served.state_text}
    return {**row, "filter_problem": served.filter_problem} if served.filter_problem else row


def _stats(rows: Any, unreadable: Callable[[str, Exception], None] | None) -> dict[str, SubscriptionStats]:
    stats: dict[str, SubscriptionStats] = {}
    if not isinstance(rows, dict):
        return stats
    for uid, row in rows.items():
        try:
            stats[uid] = stats_of(row)
        except DecodeError as problem:
            if unreadable is not None:
                unreadable(uid, problem)
    return stats


def stats_row(stats: SubscriptionStats) -> Record | None:
    """Returns statistics without the fields that have their default; None if all have."""
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


def stats_of(row: Any) -> SubscriptionStats:
    """Returns statistics of a row. Raises DecodeError if it is not valid."""
    return _DECODER.read_at("progress", SubscriptionStats, row)
