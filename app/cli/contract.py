"""The contract and the workers' status as they lie in Kafka, read once: for `status` and to find a channel's topic.

Refuses to misread records of a newer schema: it says that this program is too old.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.topic_reader import TopicReader
from knative.contract import Channel, Subscription, WorkerStatus
from knative.errors import PenstockError
from knative.names import contract_topic, status_topic
from tables.contract import decode
from tables.status import decode_status


@dataclass(frozen=True, slots=True)
class Contract:
    """Everything that is served, sorted by namespace and name, and what the workers say about it."""

    channels: tuple[Channel, ...]
    subscriptions: tuple[Subscription, ...]
    workers: tuple[WorkerStatus, ...]


def read_contract(client: Mapping[str, Any], instance: str) -> Contract:
    """Raises NotReadyError when Kafka does not answer, PenstockError when no worker ever ran on it."""
    try:
        entries = [decode(value) for value in _latest(contract_topic(instance), client).values()]
        workers = [decode_status(value) for value in _latest(status_topic(instance), client).values()]
    except (ValueError, KeyError, TypeError) as problem:
        raise PenstockError(
            f"The contract of instance {instance} cannot be read ({problem}).",
            "A newer Penstock wrote it: use that version's command.",
        ) from problem
    return Contract(
        tuple(sorted((e for e in entries if isinstance(e, Channel)), key=lambda e: (e.namespace, e.name))),
        tuple(sorted((e for e in entries if isinstance(e, Subscription)), key=lambda e: (e.namespace, e.name))),
        tuple(workers),
    )


def _latest(topic: str, client: Mapping[str, Any]) -> dict[bytes, bytes]:
    latest: dict[bytes, bytes] = {}
    with TopicReader(topic, client) as reader:
        for record in reader.stored():
            if record.key is not None and record.value is not None:
                latest[record.key] = record.value
            elif record.key is not None:
                latest.pop(record.key, None)
    return latest
