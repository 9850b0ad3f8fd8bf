"""The contract and the workers' status as they lie in Kafka, read once: for `status` and to find a channel's topic.

Refuses to misread records of a newer schema: it says that this program is too old.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from app.operations.topic_reader import NoSuchTopicError, TopicReader
from knative.contract.kafka_names import contract_topic, status_topic
from knative.contract.records import Channel, ControllerReport, Subscription, WorkerStatus
from knative.errors import PenstockError
from tables.contract_table import decode
from tables.status_table import decode_status


@dataclass(frozen=True, slots=True)
class Contract:
    """Everything that is served, sorted by namespace and name, and what workers and controller say about it."""

    channels: tuple[Channel, ...]
    subscriptions: tuple[Subscription, ...]
    workers: tuple[WorkerStatus, ...]
    report: ControllerReport | None = None  #: None = no controller has said anything yet

    @property
    def records(self) -> tuple[Channel | Subscription, ...]:
        """All that is served."""
        return (*self.channels, *self.subscriptions)


def read_contract(client: Mapping[str, Any], instance: str, limit_s: float = 10.0) -> Contract:
    """`limit_s` is for each question to Kafka.

    Raises NotReadyError when Kafka does not answer, PenstockError when no worker ever ran on it."""
    try:
        entries = _latest(contract_topic(instance), client, limit_s).values()
    except NoSuchTopicError as problem:
        raise PenstockError(
            f"There is no installation `{instance}` on the Kafka at {client['bootstrap.servers']}: nothing has ever "
            "run there under that name.",
            "Start a worker, or set PENSTOCK_INSTANCE (or PENSTOCK_KAFKA) to the one that you mean.",
        ) from problem
    try:
        statuses = _latest(status_topic(instance), client, limit_s)
    except NoSuchTopicError:  # the first start was cut short: nobody has said anything yet
        statuses = {}
    return contract_of(instance, entries, statuses.values())


def contract_of(instance: str, entries: Iterable[bytes], statuses: Iterable[bytes]) -> Contract:
    """From the latest values of the two topics. Raises PenstockError for what cannot be read."""
    try:
        found = [decode(value) for value in entries]
        said = [decode_status(value) for value in statuses]
    except (ValueError, KeyError, TypeError) as problem:
        raise PenstockError(
            f"The contract of instance {instance} cannot be read ({problem}).",
            "A newer Penstock wrote it: use that version's command.",
        ) from problem
    return Contract(
        tuple(sorted((e for e in found if isinstance(e, Channel)), key=lambda e: (e.namespace, e.name))),
        tuple(sorted((e for e in found if isinstance(e, Subscription)), key=lambda e: (e.namespace, e.name))),
        tuple(one for one in said if isinstance(one, WorkerStatus)),
        next((one for one in said if isinstance(one, ControllerReport)), None),
    )


def choose_channel(contract: Contract, wish: str) -> Channel:
    """The channel NAMESPACE/NAME. Raises PenstockError, with those that are known, when it is not there."""
    for one in contract.channels:
        if f"{one.namespace}/{one.name}" == wish:
            return one
    known = ", ".join(f"{one.namespace}/{one.name}" for one in contract.channels) or "none"
    raise PenstockError(f"There is no channel {wish}; known: {known}.", "Write NAMESPACE/NAME of one of them.")


def choose_subscriptions(contract: Contract, wish: str = "", channel: str = "") -> tuple[Subscription, ...]:
    """Those named `wish` (NAMESPACE/NAME) and of this channel; "" = all. Raises PenstockError for a name unknown."""
    uid = choose_channel(contract, channel).uid if channel else ""
    if wish and not has_subscription(contract, wish):
        raise no_subscription(contract, wish)
    return tuple(one for one in contract.subscriptions if wish in ("", one.label) and uid in ("", one.channel_uid))


def foreign_names(contract: Contract) -> list[str]:
    """KIND/NAMESPACE/NAME of what is served although no file names it, by the word of the controller."""
    foreign = contract.report.foreign if contract.report is not None else ()
    return [f"{one.kind}/{one.namespace}/{one.name}" for one in contract.records if one.uid in foreign]


def has_subscription(contract: Contract, wish: str) -> bool:
    """Whether NAMESPACE/NAME is in it."""
    return any(one.label == wish for one in contract.subscriptions)


def no_subscription(contract: Contract, wish: str) -> PenstockError:
    """To be raised for a name that nothing knows; it says those that are known."""
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
