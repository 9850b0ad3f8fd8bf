"""Environment variables of other programs: those that are not settings."""

from __future__ import annotations

import os
from collections.abc import Mapping


def default_variables(values: Mapping[str, str]) -> None:
    """Set environment variables that a library reads itself, unless they are set already."""
    for name, value in values.items():
        os.environ.setdefault(name, value)


def started_by_spark_submit() -> bool:
    """Whether spark-submit started this process, and so chose the master of its session."""
    return "PYSPARK_GATEWAY_PORT" in os.environ
