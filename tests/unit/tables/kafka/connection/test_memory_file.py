"""Files that exist as long as their path."""

from __future__ import annotations

import gc
import os
from pathlib import Path

from tables.kafka.connection.memory_file import MemoryFile


def test_memory_file_can_be_read_again_while_its_path_exists() -> None:
    path = MemoryFile(b"one")
    copied = {"of": path}
    where = Path(str.__str__(path))
    assert _is_open(where)
    del path
    gc.collect()
    assert [where.read_bytes(), where.read_bytes()] == [b"one", b"one"]
    copied.clear()
    gc.collect()
    assert not _is_open(where)


def _is_open(where: Path) -> bool:
    """Whether it is the file of this test: another thread may have opened something that has the same number now."""
    try:
        return "penstock" in os.readlink(where)
    except FileNotFoundError:
        return False
