"""The Kafka that a command connects to."""

from __future__ import annotations

from typing import Annotated

import typer

from app.settings import load_settings

Kafka = Annotated[str, typer.Option("--kafka", help="HOST:PORT of Kafka; by default from the settings.")]


def kafka_client(bootstrap: str) -> dict[str, str]:
    """librdkafka settings for reading; `bootstrap` "" = from the settings."""
    return {"bootstrap.servers": bootstrap or load_settings().kafka}
