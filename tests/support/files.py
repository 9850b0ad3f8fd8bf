"""What is in a folder while processes write to it: state files, temporary ones, folders of Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from tests.support.processes import wait_until

_LIMIT_S = 180.0


def paths_below(folder: Path) -> Iterator[Path]:
    """All folders and files below a folder. One that is removed meanwhile is left out, where `rglob` would fail."""
    for place, folders, files in os.walk(folder):
        yield from (Path(place, name) for name in (*folders, *files))


def contents(folder: Path) -> dict[Path, bytes]:
    """The content of each file below a folder. None is missed because it is renamed meanwhile: the folder is read again
    until everything that is listed can be read. Raises Failed."""
    content: dict[Path, bytes] = {}

    def read() -> bool:
        content.clear()
        try:
            content.update((path, path.read_bytes()) for path in paths_below(folder) if path.is_file())
        except FileNotFoundError:
            return False
        return True

    wait_until(f"what is listed in {folder} can be read", read, _LIMIT_S)
    return content
