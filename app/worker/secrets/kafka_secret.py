"""The connection of the installation to Kafka, with its secret: read at the start, and again when something changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from app.settings.kafka import worker_kafka_without_secret
from app.settings.load import Settings
from knative.contract import kafka_names
from tables.kafka.connection.broker_secrets import Found
from tables.kafka.connection.secret import read_keys, secret_settings


def read_kafka(settings: Settings) -> Found:
    """Keys of the secret, none without one, and librdkafka settings with copies of its certificates: what becomes of
    the folder does not matter to a client that is made later. Raises UsageError."""
    others = worker_kafka_without_secret(settings)
    if not settings.kafka_secret:
        return {}, others
    folder = Path(settings.kafka_secret)
    keys = read_keys(folder)
    return keys, {**others, **secret_settings(keys, folder, in_memory=True)}


def needs(settings: Settings) -> Mapping[str, Collection[str]]:
    """Topic -> what the user must be allowed to do with it, by Kafka's names."""
    contract = ("READ", "WRITE") if settings.role in ("all", "controller") and settings.resources else ("READ",)
    return {
        kafka_names.contract_topic(settings.instance): contract,
        kafka_names.status_topic(settings.instance): ("READ", "WRITE"),
    }


def secrets_folder(settings: Settings) -> Path | None:
    """Where the Secrets of Brokers are; None = they have none."""
    return Path(settings.kafka_secrets) if settings.kafka_secrets else None
