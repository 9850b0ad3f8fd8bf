"""A lock file has one owner at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.local.kafka.locks import locked
from knative.errors import NotReadyError


def test_lock_has_one_owner_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with (
        locked(path, 1, "is busy"),
        pytest.raises(NotReadyError, match=r"Another process is busy.*lock"),
        locked(path, 0, "is busy"),
    ):
        pass
    with locked(path, 0, "is busy"):
        assert path.exists()
