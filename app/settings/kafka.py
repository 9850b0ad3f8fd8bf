"""How this process connects to Kafka, from its settings."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from app.settings.core_dumps import prevent_core_dumps
from app.settings.fields import Settings
from knative.contract import kafka_names
from tables.kafka.connection.broker_secrets import Found
from tables.kafka.connection.secret import read_keys, read_secret, secret_settings


def kafka_client(settings: Settings, bootstrap: str = "") -> dict[str, Any]:
    """Returns librdkafka settings; `bootstrap` replaces the address of the settings. Raises UsageError for a Kafka
    secret that is not valid. From here on the process leaves no core dumps, if it reads credentials."""
    prevent_core_dumps(settings)
    secret = read_secret(Path(settings.kafka_secret)) if settings.kafka_secret else {}
    return {"bootstrap.servers": bootstrap or settings.kafka, **secret}


def worker_kafka(settings: Settings) -> Found:
    """Returns the keys of the Kafka secret, none without one, and librdkafka settings for a process that logs:
    librdkafka's own lines go through logging, and not to standard error. The settings name copies of the certificates,
    so a change of the folder does not affect a client that is made later."""
    prevent_core_dumps(settings)
    others = worker_kafka_without_secret(settings)
    if not settings.kafka_secret:
        return {}, others
    folder = Path(settings.kafka_secret)
    keys = read_keys(folder)
    return keys, {**others, **secret_settings(keys, folder, in_memory=True)}


def worker_kafka_without_secret(settings: Settings) -> dict[str, Any]:
    """Returns the settings of `worker_kafka` that are not from the Kafka secret."""
    return {"bootstrap.servers": settings.kafka, "log_level": 4, "logger": logging.getLogger("librdkafka")}


def secrets_folder(settings: Settings) -> Path | None:
    """Returns where the Secrets of Brokers are; None = they have none."""
    return Path(settings.kafka_secrets) if settings.kafka_secrets else None


def worker_needs(settings: Settings) -> Mapping[str, Collection[str]]:
    """Returns topic -> what the user of a worker must be allowed to do with it, by Kafka's names."""
    contract = ("READ", "WRITE") if settings.role in ("all", "controller") and settings.resources else ("READ",)
    return {
        kafka_names.contract_topic(settings.instance): contract,
        kafka_names.status_topic(settings.instance): ("READ", "WRITE"),
    }
