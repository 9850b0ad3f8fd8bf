"""Which changes of a file its signature shows."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from knative.file_signature import file_signature


def _replaced(path: Path) -> None:
    """By another file with the same size and time."""
    before = path.stat()
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.rename(path)


def _grown(path: Path) -> None:
    """At the same time."""
    before = path.stat()
    path.write_bytes(path.read_bytes() + b"x")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _touched(path: Path) -> None:
    before = path.stat()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000))


@pytest.mark.parametrize("change", [_replaced, _grown, _touched])
def test_each_change_shows(tmp_path: Path, change: Callable[[Path], None]) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"1")
    before = file_signature(path.stat())
    change(path)
    assert file_signature(path.stat()) != before


def test_reading_does_not_show(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"1")
    before = file_signature(path.stat())
    path.read_bytes()
    os.utime(path, ns=(0, path.stat().st_mtime_ns))
    assert file_signature(path.stat()) == before
