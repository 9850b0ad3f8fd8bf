"""How this process connects to Kafka, from its settings."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from app.settings.core_dumps import prevent_core_dumps
from app.settings.fields import Settings
from tables.kafka.connection.secret import read_secret


def kafka_client(settings: Settings, bootstrap: str = "") -> dict[str, Any]:
    """librdkafka settings; `bootstrap` replaces the address of the settings. Raises UsageError for a Kafka secret
    that is not valid. From here on the process leaves no core dumps, if it reads credentials."""
    prevent_core_dumps(settings)
    secret = read_secret(Path(settings.kafka_secret)) if settings.kafka_secret else {}
    return {"bootstrap.servers": bootstrap or settings.kafka, **secret}


def worker_kafka(settings: Settings) -> dict[str, Any]:
    """The same for a process that logs: librdkafka's own lines go through logging, and not to standard error."""
    return {**kafka_client(settings), **worker_kafka_without_secret(settings)}


def worker_kafka_without_secret(settings: Settings) -> dict[str, Any]:
    """What of this is not in the Kafka secret."""
    return {"bootstrap.servers": settings.kafka, "log_level": 4, "logger": logging.getLogger("librdkafka")}
