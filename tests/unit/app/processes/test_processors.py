"""How many processes `auto` is."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.processes.processors import processors


def _limited(root: Path, group: str, limits: dict[str, str]) -> Path:
    own = root / "proc" / "self"
    own.mkdir(parents=True)
    (own / "cgroup").write_text(f"4:memory:/elsewhere\n0::{group}\n")
    for folder, text in limits.items():
        path = root / "sys" / "fs" / "cgroup" / folder
        path.mkdir(parents=True, exist_ok=True)
        (path / "cpu.max").write_text(f"{text}\n")
    return root


@pytest.mark.parametrize(
    ("allowed", "group", "limits", "count"),
    [
        (8, "/", {}, 8),
        (8, "/", {".": "max 100000"}, 8),
        (8, "/", {".": "200000 100000"}, 2),
        (8, "/", {".": "150000 100000"}, 2),
        (8, "/", {".": "10000 100000"}, 1),
        (2, "/", {".": "400000 100000"}, 2),
        (8, "/a/b", {"a": "300000 100000", "a/b": "max 100000"}, 3),
        (8, "/a/b", {"a": "300000 100000", "a/b": "100000 100000"}, 1),
        (8, "/not/mounted/here", {".": "500000 100000"}, 5),
        (256, "/", {}, 99),
    ],
)
def test_smaller_of_processors_and_quota(
    tmp_path: Path, allowed: int, group: str, limits: dict[str, str], count: int
) -> None:
    assert processors(allowed, _limited(tmp_path, group, limits)) == count


def test_system_without_cgroups_has_its_processors(tmp_path: Path) -> None:
    assert processors(4, tmp_path) == 4
