"""What is written about the files of tests is about files that there are."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

from tests.support import scheduling
from tests.support.processes import REPOSITORY

FILES = {path.stem for path in (REPOSITORY / "tests").glob("*/test_*.py")}
GROUPED = [name for names in scheduling._GROUPS.values() for name in names]


def test_files_are_there() -> None:
    assert set(GROUPED) <= FILES


def test_file_is_in_one_group() -> None:
    assert Counter(GROUPED).most_common(1)[0][1] == 1


def test_groups_begin_first_and_are_not_interrupted() -> None:
    files = [*(Path(f"tests/{name}.py") for name in ("test_new", *GROUPED)), Path("tests/test_seek.py")]
    groups = [scheduling.group_of(file) for file in sorted(files, key=scheduling.order)]
    assert [group for group, _ in itertools.groupby(groups)] == [*sorted(scheduling._GROUPS), None]


def test_fixture_of_a_group_is_for_its_files() -> None:
    why = scheduling.misplaced(Path("tests/system/test_seek.py"), {"cluster", "tmp_path"})
    assert why is not None
    assert "test_seek.py uses 'cluster'; name it in _GROUPS['cluster'] of" in why
    assert scheduling.misplaced(Path("tests/system/test_chaos_kafka.py"), {"cluster"}) is None
    assert scheduling.misplaced(Path("tests/system/test_seek.py"), {"tmp_path"}) is None
