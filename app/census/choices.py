"""What a user chooses between, kept apart so that `--help` needs no Kafka client. Refuses to hold anything else."""

from __future__ import annotations

from enum import StrEnum


class WriteTo(StrEnum):
    """What `--write-to` takes."""

    KAFKA = "kafka"
    STDOUT = "stdout"
    NULL = "null"
