"""Reads a snapshot of the contract and status topics, for `status` and to find the topic of a channel.

Records of a newer schema raise an error that asks for a newer program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from knative.contract.kafka_names import contract_topic, status_topic
from knative.contract.records import Channel, ControllerReport, Subscription, WorkerStatus
from knative.errors import PenstockError
from tables.contract_table import decode_entry
from tables.kafka.topic_reader import NoSuchTopicError, TopicReader
from tables.status_table import decode_status


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
    try:
        entries = _latest(contract_topic(instance), client, limit_s).values()
    except NoSuchTopicError as problem:
        raise PenstockError(
            f"There is no installation `{instance}` on the Kafka at {client['bootstrap.servers']}: no worker with this "
            "instance name has ever run there.",
            "Start a worker, or set PENSTOCK_INSTANCE or PENSTOCK_KAFKA to another one.",
        ) from problem
    try:
        statuses = _latest(status_topic(instance), client, limit_s)
    except NoSuchTopicError:  # the first start was interrupted between the two topics
        statuses = {}
    return contract_of(instance, entries, statuses.values())


def contract_of(instance: str, entries: Iterable[bytes], statuses: Iterable[bytes]) -> Contract:
    """Decode the latest values of the two topics. Raises PenstockError for values that cannot be decoded."""
    try:
        found = [decode_entry(value) for value in entries]
        reports = [decode_status(value) for value in statuses]
    except (ValueError, KeyError, TypeError) as problem:
        raise PenstockError(
            f"The contract of instance {instance} cannot be read ({problem}).",
            "A newer Penstock wrote it: use that version's command.",
        ) from problem
    return Contract(
        tuple(sorted((e for e in found if isinstance(e, Channel)), key=lambda e: (e.namespace, e.name))),
        tuple(sorted((e for e in found if isinstance(e, Subscription)), key=lambda e: (e.namespace, e.name))),
        tuple(one for one in reports if isinstance(one, WorkerStatus)),
        next((one for one in reports if isinstance(one, ControllerReport)), None),
    )


def choose_channel(contract: Contract, wish: str) -> Channel:
    """The channel NAMESPACE/NAME. If it does not exist, raises PenstockError with the known ones."""
    for one in contract.channels:
        if f"{one.namespace}/{one.name}" == wish:
            return one
    known = ", ".join(f"{one.namespace}/{one.name}" for one in contract.channels) or "none"
    raise PenstockError(f"There is no channel {wish}; known: {known}.", "Write NAMESPACE/NAME of one of them.")


def choose_subscriptions(contract: Contract, wish: str = "", channel: str = "") -> tuple[Subscription, ...]:
    """Subscriptions named `wish` (NAMESPACE/NAME) and of this channel; "" = all. Raises PenstockError for unknown
    names."""
    uid = choose_channel(contract, channel).uid if channel else ""
    if wish and not has_subscription(contract, wish):
        raise no_subscription(contract, wish)
    return tuple(one for one in contract.subscriptions if wish in ("", one.label) and uid in ("", one.channel_uid))


def foreign_names(contract: Contract) -> list[str]:
    """KIND/NAMESPACE/NAME of the foreign resources that the controller reports."""
    foreign = contract.report.foreign if contract.report is not None else ()
    return [f"{one.kind}/{one.namespace}/{one.name}" for one in contract.records if one.uid in foreign]


def has_subscription(contract: Contract, wish: str) -> bool:
    """Whether the contract has the subscription NAMESPACE/NAME."""
    return any(one.label == wish for one in contract.subscriptions)


def no_subscription(contract: Contract, wish: str) -> PenstockError:
    """The error for an unknown subscription; it lists the known ones."""
    known = ", ".join(one.label for one in contract.subscriptions) or "none"
    return PenstockError(f"There is no subscription {wish}; known: {known}.", "Write NAMESPACE/NAME of one of them.")


def _latest(topic: str, client: Mapping[str, Any], limit_s: float) -> dict[bytes, bytes]:
    latest: dict[bytes, bytes] = {}
    with TopicReader(topic, client, limit_s) as reader:
        for record in reader.stored():
            if record.key is not None and record.value is not None:
                latest[record.key] = record.value
            elif record.key is not None:
                latest.pop(record.key, None)
    return latest
