"""The Kafka that a command connects to."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from app.settings import load_settings
from app.settings.kafka import kafka_client as of_settings

Kafka = Annotated[str, typer.Option("--kafka", help="HOST:PORT of Kafka; by default from the settings.")]


def kafka_client(bootstrap: str) -> dict[str, Any]:
    """Returns librdkafka settings; `bootstrap` "" = from the settings."""
    return of_settings(load_settings(), bootstrap)
