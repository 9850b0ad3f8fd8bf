"""Finds the readers of a topic: consumer groups, and Spark by the offsets in its checkpoint folders."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from app.census.topics import PartitionProgress, Topics


def spark_places(checkpoint: Path, topic: str) -> Mapping[int, int] | None:
    """Partition -> offset after the last finished batch, from a checkpoint folder; None = it has none."""
    try:
        done = [int(entry.name) for entry in (checkpoint / "commits").iterdir() if entry.name.isdigit()]
        last = (checkpoint / "offsets" / str(max(done))).read_text().splitlines()[-1]
        return {int(number): int(offset) for number, offset in json.loads(last)[topic].items()}
    except (OSError, ValueError, KeyError, IndexError, AttributeError):
        return None


def readers(topics: Topics, name: str, checkpoint: Path) -> list[PartitionProgress]:
    """The readers of a topic: consumer groups, and Spark's checkpoints here that are about this same topic."""
    partitions = topics.progress(name)
    short_id = topics.describe([name])[0].short_id
    alone = {one.partition: replace(one, reader="", committed=None) for one in partitions}
    found = []
    for folder in sorted(checkpoint.glob(f"{short_id}-*")):
        known = spark_places(folder, name)
        if known is not None:
            reader = f"spark {folder}"
            found += [replace(one, reader=reader, committed=known.get(number)) for number, one in alone.items()]
    groups = [one for one in partitions if one.reader]
    return [*groups, *found] or partitions
