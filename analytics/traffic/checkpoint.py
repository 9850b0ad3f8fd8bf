"""Spark's checkpoint of one query, as far as the traffic job must read it, and the one thing that it must change in it.

    checkpoint/offsets/12      v1 | metadata | {"topic-a": {"0": 700}, "topic-b": {"0": 300}}      where batch 12 ends
    checkpoint/commits/11      batch 11 is done; 12 was begun

Spark knows a topic by its name alone. A topic that was made anew is taken out of the last committed offsets, and what
was begun after them is taken back: to Spark its partitions are new ones then, which it reads from their beginning.
Each step leaves a checkpoint from which all of it can be done again. Refuses to touch a committed batch's record.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

_SPARKS_OWN = ("offsets", "commits", "sources", "state", "metadata")


def committed(checkpoint: Path) -> int | None:
    """The last batch that is done; None = none."""
    return max(_numbers(checkpoint / "commits"), default=None)


def offsets_of(checkpoint: Path, batch: int | None) -> dict[str, dict[int, int]]:
    """Topic -> partition -> offset after this batch; {} when the checkpoint does not say (Spark will, why)."""
    try:
        found = json.loads((checkpoint / "offsets" / str(batch)).read_text().splitlines()[-1])
        return {topic: {int(p): int(at) for p, at in places.items()} for topic, places in found.items()}
    except (OSError, ValueError, IndexError, AttributeError, TypeError):
        return {}


def begun(checkpoint: Path) -> int | None:
    """The last batch that was begun; None = none."""
    return max(_numbers(checkpoint / "offsets"), default=None)


def forget(checkpoint: Path, topics: Collection[str]) -> None:
    """Let these topics be new to Spark, and let it plan anew what it had begun."""
    last = committed(checkpoint)
    if last is None:  # nothing counts yet: from the beginning
        for name in _SPARKS_OWN:
            path = checkpoint / name
            shutil.rmtree(path, ignore_errors=True)
            path.unlink(missing_ok=True)
            (checkpoint / f".{name}.crc").unlink(missing_ok=True)
        return
    for number in _numbers(checkpoint / "offsets"):
        if number > last:
            _remove(checkpoint / "offsets" / str(number))
    path = checkpoint / "offsets" / str(last)
    *head, places = path.read_text().splitlines()
    kept: dict[str, Any] = {topic: at for topic, at in json.loads(places).items() if topic not in topics}
    staging = path.with_name(f".{path.name}.penstock")
    staging.write_text("\n".join([*head, json.dumps(kept, separators=(",", ":"))]))
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # or Spark takes the file for a damaged one
    staging.rename(path)


def _numbers(folder: Path) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(one.name) for one in folder.iterdir() if one.name.isdigit()]
    return []


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
