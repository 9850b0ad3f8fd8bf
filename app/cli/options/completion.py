"""Names for the shell's completion: channels, brokers, subscriptions and triggers, from the contract in Kafka.

The user waits at the prompt, so there is a short limit, and an error results in no names and no output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import typer
from confluent_kafka import KafkaException

from app.cli.options.kafka import kafka_client
from app.operations.contract_snapshot import Contract, read_contract, removable_names
from app.settings import load_settings
from app.timing import GLANCE_S
from knative.contract.records import BROKER, TRIGGER, Channel, Subscription
from knative.errors import PenstockError


def complete_channel(context: typer.Context, incomplete: str) -> list[str]:
    """Returns NAMESPACE/NAME of channels and brokers that start with `incomplete`."""
    return _names(context, incomplete, lambda contract: _labels(contract.channels))


def complete_subscription(context: typer.Context, incomplete: str) -> list[str]:
    """Returns NAMESPACE/NAME of subscriptions and triggers that start with `incomplete`."""
    return _names(context, incomplete, lambda contract: _labels(contract.subscriptions))


def complete_broker(context: typer.Context, incomplete: str) -> list[str]:
    """Returns NAMESPACE/NAME of brokers that start with `incomplete`."""
    return _names(context, incomplete, lambda contract: _labels(contract.channels, BROKER))


def complete_trigger(context: typer.Context, incomplete: str) -> list[str]:
    """Returns NAMESPACE/NAME of triggers that start with `incomplete`."""
    return _names(context, incomplete, lambda contract: _labels(contract.subscriptions, TRIGGER))


def complete_resource(context: typer.Context, incomplete: str) -> list[str]:
    """Returns NAMESPACE/NAME of channels and subscriptions that start with `incomplete`."""
    return _names(context, incomplete, lambda contract: sorted(set(_labels(contract.records))))


def complete_removable(context: typer.Context, incomplete: str) -> list[str]:
    """Returns KIND/NAMESPACE/NAME of resources that no file names and that start with `incomplete`."""
    return _names(context, incomplete, removable_names)


def _labels(records: Iterable[Channel | Subscription], kind: str | None = None) -> list[str]:
    return [f"{record.namespace}/{record.name}" for record in records if kind in (None, record.kind)]


def _names(context: typer.Context, incomplete: str, of: Callable[[Contract], list[str]]) -> list[str]:
    try:
        client = kafka_client(str(context.params.get("kafka") or ""))
        contract = read_contract(client, load_settings().instance, GLANCE_S)
    except (PenstockError, KafkaException):
        return []
    return [name for name in of(contract) if name.startswith(incomplete)]
