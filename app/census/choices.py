"""Values of the demo's options, in a module of their own so that `--help` does not import a Kafka client."""

from __future__ import annotations

from enum import StrEnum


class WriteTo(StrEnum):
    """Values of `--write-to`."""

    KAFKA = "kafka"
    STDOUT = "stdout"
    NULL = "null"
