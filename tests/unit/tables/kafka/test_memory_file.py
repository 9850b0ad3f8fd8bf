"""Files that exist as long as their path."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from tables.kafka.memory_file import MemoryFile


def test_it_can_be_read_more_than_once_while_its_path_exists() -> None:
    path = MemoryFile(b"one")
    copied = {"of": path}
    where = Path(str.__str__(path))
    del path
    gc.collect()
    assert [where.read_bytes(), where.read_bytes()] == [b"one", b"one"]
    copied.clear()
    gc.collect()
    with pytest.raises(FileNotFoundError):
        where.read_bytes()
