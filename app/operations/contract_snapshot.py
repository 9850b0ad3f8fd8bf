"""Reads a snapshot of the contract and status topics, for `status` and to find the topic of a channel.

Records of a newer schema raise an error that asks for a newer program. Those that are not valid are named and skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from app.operations.unknown_name import known_names, meant
from knative.contract.codec import Entry, Status, UnknownSchema
from knative.contract.kafka_names import contract_topic, status_topic
from knative.contract.leader_state import LeaderLog, UnknownRow
from knative.contract.records import BROKER, TRIGGER, Channel, ControllerReport, Subscription, WorkerStatus
from knative.contract.seeks import Seek
from knative.errors import PenstockError, UsageError
from tables.contract_table import decode_entry
from tables.kafka.compacted_topic import Record
from tables.kafka.topic_reader import NoSuchTopicError, TopicReader
from tables.kafka.unreadable import skip
from tables.status_parts import joined
from tables.status_table import LEADER_KEY, decode_row, decode_status

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Contract:
    """Channels and subscriptions by namespace and name, and the statuses of workers and controller."""

    channels: tuple[Channel, ...]
    subscriptions: tuple[Subscription, ...]
    workers: tuple[WorkerStatus, ...]
    report: ControllerReport | None = None  #: None = no controller has published a report yet

    @property
    def records(self) -> tuple[Channel | Subscription, ...]:
        """All channels and subscriptions."""
        return (*self.channels, *self.subscriptions)


def read_contract(client: Mapping[str, Any], instance: str, limit_s: float = 10.0) -> Contract:
    """Read both topics. `limit_s` is the time limit of each request to Kafka.

    Raises NotReadyError when Kafka does not answer, PenstockError when no worker of this instance ever ran there."""
    contract, status = contract_topic(instance), status_topic(instance)
    try:
        entries = _latest(contract, client, limit_s, partial(_is_entry, contract))
    except NoSuchTopicError as problem:
        raise PenstockError(
            f"The Kafka at {client['bootstrap.servers']} has no installation `{instance}`: no worker with this "
            "instance name has ever run there.",
            "Start a worker, or set PENSTOCK_INSTANCE or PENSTOCK_KAFKA to those of your installation.",
        ) from problem
    try:
        statuses = _latest(status, client, limit_s)
    except NoSuchTopicError:  # the first start was interrupted between the two topics
        statuses = []
    try:
        return _contract(
            _decoded(decode_entry, contract, entries),
            _decoded(decode_status, status, (record for record in statuses if not record.key.startswith(LEADER_KEY))),
        )
    except UnknownSchema as problem:
        raise _too_new(instance, problem) from problem


def read_seeks(client: Mapping[str, Any], instance: str, limit_s: float = 10.0) -> Mapping[str, Seek]:
    """Returns the seeks that the leading controller has recorded, by id. Raises as `read_contract`."""
    leaders = LeaderLog()
    try:
        topic = status_topic(instance)
        rows = [record for record in _latest(topic, client, limit_s) if record.key.startswith(LEADER_KEY)]
        for key, row in _decoded(lambda value, key: (key.decode(), decode_row(value)), topic, rows):
            leaders.apply(key, row)
        return leaders.state().seeks
    except NoSuchTopicError:
        return {}
    except ValueError as problem:
        raise _too_new(instance, problem) from problem


def _contract(entries: Iterable[Entry], statuses: Iterable[Status]) -> Contract:
    served, reports = list(entries), list(statuses)
    return Contract(
        tuple(sorted((e for e in served if isinstance(e, Channel)), key=lambda e: (e.namespace, e.name))),
        tuple(sorted((e for e in served if isinstance(e, Subscription)), key=lambda e: (e.namespace, e.name))),
        tuple(joined(report for report in reports if isinstance(report, WorkerStatus))),
        next((report for report in reports if isinstance(report, ControllerReport)), None),
    )


def _decoded(decode: Callable[[bytes, bytes], T], topic: str, records: Iterable[Record]) -> Iterator[T]:
    """Yields what the records hold. An invalid one is named and skipped; one of a newer version raises an error."""
    for record in records:
        assert record.value is not None, "the latest records have values"
        try:
            yield decode(record.value, record.key)
        except (UnknownSchema, UnknownRow):
            raise
        except ValueError as problem:
            skip(topic, record, problem)


def in_namespace(contract: Contract, namespace: str) -> Contract:
    """Returns only this namespace; "" = all. Problems of files stay: they may hide objects of any namespace.

    Raises PenstockError, with the known namespaces, when there is nothing in this one."""
    if not namespace:
        return contract
    report = contract.report
    problems = report.problems if report is not None else ()
    namespaces = {record.namespace for record in (*contract.records, *problems)}
    check_known(namespace, namespaces - {""})
    if report is not None:
        report = replace(
            report, problems=tuple(problem for problem in problems if problem.namespace in (namespace, ""))
        )
    return replace(
        contract,
        channels=tuple(channel for channel in contract.channels if channel.namespace == namespace),
        subscriptions=tuple(
            subscription for subscription in contract.subscriptions if subscription.namespace == namespace
        ),
        report=report,
    )


def check_known(namespace: str, namespaces: Iterable[str]) -> None:
    """Raises PenstockError when `namespace` is not one of these; "" always is."""
    names = sorted(namespaces)
    if namespace and namespace not in names:
        raise PenstockError(
            f"The namespace {namespace} has no channels or subscriptions; {known_names(names)}",
            "Choose another namespace with --namespace, or use -A for all namespaces.",
        )


def _too_new(instance: str, problem: Exception) -> PenstockError:
    return PenstockError(
        f"The contract of instance {instance} cannot be read ({problem}).",
        "A newer version of Penstock wrote it. Use the `penstock` command of that version.",
    )


def choose_channel(contract: Contract, wish: str) -> Channel:
    """Returns the channel or broker NAMESPACE/NAME, or KIND/NAMESPACE/NAME. Raises PenstockError with the known ones if
    there is none, and UsageError if both have this name."""
    matches = [channel for channel in contract.channels if is_named(channel, wish)]
    if len(matches) > 1:
        both = " or ".join(sorted((channel.title for channel in matches), reverse=True))
        raise UsageError(f"A channel and a broker have the name {wish}.", f"Write {both}.")
    if matches:
        return matches[0]
    names = [f"{channel.namespace}/{channel.name}" for channel in contract.channels]
    what = "channel or broker" if any(channel.kind == BROKER for channel in contract.channels) else "channel"
    raise unknown(what, wish, names)


def unknown(what: str, wish: str, names: Sequence[str]) -> PenstockError:
    """Returns the error for a name that is none of `names`, each NAMESPACE/NAME."""
    hint = meant(wish, names)
    return PenstockError(f"There is no {what} {wish}; {known_names(names)}", hint)


def choose_subscriptions(contract: Contract, wish: str = "", channel: str = "") -> tuple[Subscription, ...]:
    """Returns subscriptions and Triggers named `wish` (label or NAMESPACE/NAME; a label counts first) and of this
    channel; "" = all. Raises PenstockError for unknown names."""
    uid = choose_channel(contract, channel).uid if channel else ""
    named = contract.subscriptions
    if wish:
        labelled = tuple(subscription for subscription in named if subscription.label == wish)
        named = labelled or tuple(subscription for subscription in named if is_named(subscription, wish))
        if not named:
            raise no_subscription(contract, wish)
    return tuple(subscription for subscription in named if uid in ("", subscription.channel_uid))


def removable_names(contract: Contract) -> list[str]:
    """Returns KIND/NAMESPACE/NAME of the resources that no file has, or that the cluster lacks and nobody deleted."""
    foreign = contract.report.foreign if contract.report is not None else ()
    removable = (record for record in contract.records if record.unlisted or record.uid in foreign)
    return [record.title for record in removable]


def is_named(resource: Channel | Subscription, wish: str) -> bool:
    """Returns whether it is NAMESPACE/NAME, KIND/NAMESPACE/NAME or the label `wish`."""
    name = f"{resource.namespace}/{resource.name}"
    return wish in (resource.label, name) or wish.lower() in (
        f"{resource.kind}/{name}".lower(),
        f"{resource.kind}/{name}".lower().removeprefix("kafka"),
    )


def label_of(contract: Contract, wish: str) -> str:
    """Returns the label of the subscription or trigger `wish`, as dead letters name it; `wish` if there is none."""
    labels = [subscription.label for subscription in contract.subscriptions if is_named(subscription, wish)]
    return wish if wish in labels or not labels else labels[0]


def has_subscription(contract: Contract, wish: str) -> bool:
    """Returns whether the contract has this subscription or Trigger (label or NAMESPACE/NAME)."""
    return any(is_named(subscription, wish) for subscription in contract.subscriptions)


def no_subscription(contract: Contract, wish: str) -> PenstockError:
    """Returns the error for an unknown subscription; it lists the known ones."""
    names = [f"{subscription.namespace}/{subscription.name}" for subscription in contract.subscriptions]
    what = (
        "subscription or trigger"
        if any(subscription.kind == TRIGGER for subscription in contract.subscriptions)
        else "subscription"
    )
    return unknown(what, wish, names)


def _latest(
    topic: str, client: Mapping[str, Any], limit_s: float, counts: Callable[[Record], bool] = lambda _: True
) -> list[Record]:
    """Returns the last record of each key that counts."""
    latest: dict[bytes, Record] = {}
    with TopicReader(topic, client, limit_s) as reader:
        for stored in reader.stored():
            if stored.key is None:
                continue
            record = Record(stored.key, stored.value, stored.partition, stored.offset)
            if record.value is None:
                latest.pop(record.key, None)
            elif counts(record):
                latest[record.key] = record
    return list(latest.values())


def _is_entry(topic: str, record: Record) -> bool:
    """Returns whether it replaces what the contract had of its resource: it is valid, or of a newer version."""
    try:
        decode_entry(record.value or b"", record.key)
    except UnknownSchema:
        return True
    except ValueError as problem:
        skip(topic, record, problem)
        return False
    return True
