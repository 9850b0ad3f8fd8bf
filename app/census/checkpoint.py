"""Reads the offsets that a Spark checkpoint folder has reached."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path


def spark_places(checkpoint: Path, topic: str) -> Mapping[int, int] | None:
    """Partition -> offset after the last finished batch, from a checkpoint folder; None = it has none."""
    try:
        done = [int(entry.name) for entry in (checkpoint / "commits").iterdir() if entry.name.isdigit()]
        last = (checkpoint / "offsets" / str(max(done))).read_text().splitlines()[-1]
        return {int(number): int(offset) for number, offset in json.loads(last)[topic].items()}
    except (OSError, ValueError, KeyError, IndexError, AttributeError):
        return None
