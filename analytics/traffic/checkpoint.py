"""Spark's checkpoint of one query: the parts that the traffic job reads, and the one change that it makes.

    checkpoint/offsets/12      v1 | metadata | {"topic-a": {"0": 700}, "topic-b": {"0": 300}}      where batch 12 ends
    checkpoint/commits/11      batch 11 is done; 12 was begun

Spark identifies a topic by its name only. To read a replaced topic from its beginning, `forget` removes it from the
last committed offsets and removes all batches that were begun after them, so its partitions are new to Spark. After a
kill at any step, `forget` can run again. Never removes the record of a committed batch.
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
    """The last completed batch; None = none."""
    return max(_numbers(checkpoint / "commits"), default=None)


def offsets_of(checkpoint: Path, batch: int | None) -> dict[str, dict[int, int]]:
    """Topic -> partition -> offset after this batch; {} if that is not readable (Spark itself then reports why)."""
    try:
        found = json.loads((checkpoint / "offsets" / str(batch)).read_text().splitlines()[-1])
        return {topic: {int(p): int(at) for p, at in places.items()} for topic, places in found.items()}
    except (OSError, ValueError, IndexError, AttributeError, TypeError):
        return {}


def begun(checkpoint: Path) -> int | None:
    """The last batch that was begun; None = none."""
    return max(_numbers(checkpoint / "offsets"), default=None)


def forget(checkpoint: Path, topics: Collection[str]) -> None:
    """Make Spark treat these topics as new, and plan again every batch that it had begun but not committed."""
    last = committed(checkpoint)
    if last is None:  # no batch is committed, so there is nothing to keep: start from the beginning
        for name in _SPARKS_OWN:
            path = checkpoint / name
            shutil.rmtree(path, ignore_errors=True)
            path.unlink(missing_ok=True)
            (checkpoint / f".{name}.crc").unlink(missing_ok=True)
        return
    # Remove planned batches first. Their offsets name the old topic, and Spark would run the highest of them again.
    for number in _numbers(checkpoint / "offsets"):
        if number > last:
            _remove(checkpoint / "offsets" / str(number))
    path = checkpoint / "offsets" / str(last)
    *head, places = path.read_text().splitlines()
    kept: dict[str, Any] = {topic: at for topic, at in json.loads(places).items() if topic not in topics}
    # Write beside the file and rename, so that after a kill Spark finds either the old offsets or the new ones. The old
    # checksum must go first, or Spark would report the new content as damaged.
    staging = path.with_name(f".{path.name}.penstock")
    staging.write_text("\n".join([*head, json.dumps(kept, separators=(",", ":"))]))
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # the checksum of the old content
    staging.rename(path)


def _numbers(folder: Path) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(one.name) for one in folder.iterdir() if one.name.isdigit()]
    return []


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
