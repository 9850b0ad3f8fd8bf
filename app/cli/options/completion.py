"""Names for the shell's completion: channels and subscriptions, from the contract in Kafka.

A person waits at the prompt: there is a short limit, and whatever goes wrong gives no names and no noise.
"""

from __future__ import annotations

from collections.abc import Callable

import typer
from confluent_kafka import KafkaException

from app.cli.options.kafka import kafka_client
from app.operations.contract_snapshot import Contract, foreign_names, read_contract
from app.settings.load import load_settings
from knative.errors import PenstockError

_LIMIT_S = 1.0  #: for each of the few questions to Kafka


def complete_channel(context: typer.Context, incomplete: str) -> list[str]:
    """NAMESPACE/NAME of channels that begin so."""
    return _names(context, incomplete, lambda found: [f"{one.namespace}/{one.name}" for one in found.channels])


def complete_subscription(context: typer.Context, incomplete: str) -> list[str]:
    """NAMESPACE/NAME of subscriptions that begin so."""
    return _names(context, incomplete, lambda found: [one.label for one in found.subscriptions])


def complete_resource(context: typer.Context, incomplete: str) -> list[str]:
    """NAMESPACE/NAME of channels and subscriptions that begin so."""
    return sorted({*complete_channel(context, incomplete), *complete_subscription(context, incomplete)})


def complete_foreign(context: typer.Context, incomplete: str) -> list[str]:
    """KIND/NAMESPACE/NAME of what no file names, that begin so."""
    return _names(context, incomplete, foreign_names)


def _names(context: typer.Context, incomplete: str, of: Callable[[Contract], list[str]]) -> list[str]:
    try:
        client = kafka_client(str(context.params.get("kafka") or ""))
        contract = read_contract(client, load_settings().instance, _LIMIT_S)
    except (PenstockError, KafkaException):
        return []
    return [name for name in of(contract) if name.startswith(incomplete)]
