"""Names for the shell's completion: channels, brokers, subscriptions and triggers, from the contract in Kafka.

The user waits at the prompt, so there is a short limit, and an error results in no names and no output.
"""

from __future__ import annotations

from collections.abc import Callable

import typer
from confluent_kafka import KafkaException

from app.cli.options.kafka import kafka_client
from app.operations.contract_snapshot import Contract, read_contract, removable_names
from app.settings import load_settings
from app.timing import GLANCE_S
from knative.contract.records import BROKER, TRIGGER
from knative.errors import PenstockError


def complete_channel(context: typer.Context, incomplete: str) -> list[str]:
    """Returns NAMESPACE/NAME of channels and brokers that start with `incomplete`."""
    return _names(
        context, incomplete, lambda contract: [f"{channel.namespace}/{channel.name}" for channel in contract.channels]
    )


def complete_subscription(context: typer.Context, incomplete: str) -> list[str]:
    """Returns NAMESPACE/NAME of subscriptions and triggers that start with `incomplete`."""
    return _names(
        context,
        incomplete,
        lambda contract: [f"{subscription.namespace}/{subscription.name}" for subscription in contract.subscriptions],
    )


def complete_broker(context: typer.Context, incomplete: str) -> list[str]:
    """Returns NAMESPACE/NAME of brokers that start with `incomplete`."""
    return _names(
        context,
        incomplete,
        lambda contract: [
            f"{channel.namespace}/{channel.name}" for channel in contract.channels if channel.kind == BROKER
        ],
    )


def complete_trigger(context: typer.Context, incomplete: str) -> list[str]:
    """Returns NAMESPACE/NAME of triggers that start with `incomplete`."""
    return _names(
        context,
        incomplete,
        lambda contract: [
            f"{subscription.namespace}/{subscription.name}"
            for subscription in contract.subscriptions
            if subscription.kind == TRIGGER
        ],
    )


def complete_resource(context: typer.Context, incomplete: str) -> list[str]:
    """Returns NAMESPACE/NAME of channels and subscriptions that start with `incomplete`."""
    return sorted({*complete_channel(context, incomplete), *complete_subscription(context, incomplete)})


def complete_removable(context: typer.Context, incomplete: str) -> list[str]:
    """Returns KIND/NAMESPACE/NAME of resources that no file names and that start with `incomplete`."""
    return _names(context, incomplete, removable_names)


def _names(context: typer.Context, incomplete: str, of: Callable[[Contract], list[str]]) -> list[str]:
    try:
        client = kafka_client(str(context.params.get("kafka") or ""))
        contract = read_contract(client, load_settings().instance, GLANCE_S)
    except (PenstockError, KafkaException):
        return []
    return [name for name in of(contract) if name.startswith(incomplete)]
