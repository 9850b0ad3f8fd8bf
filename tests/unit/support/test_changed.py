"""Which unit tests mirror which changed files."""

from __future__ import annotations

from fnmatch import fnmatch

import pytest

from tests.support.changed import FILES_MAX, mirrored_tests

_THERE = [
    "tests/unit/agents/test_supervisor.py",
    "tests/unit/controller/plan/test_seeks.py",
    "tests/unit/controller/plan/test_seeks_more.py",
    "tests/unit/controller/plan/test_brokers.py",
    "tests/unit/controller/test_validation.py",
]
_PLAN = sorted(_THERE[1:4])


def _glob(pattern: str) -> list[str]:
    return [name for name in _THERE if fnmatch(name, pattern) and name.count("/") == pattern.count("/")]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ([], []),
        (["README.md", "docs/index.md", "pyproject.toml"], []),
        (["agents/supervisor.py"], [_THERE[0]]),
        (["controller/plan/seeks.py"], _THERE[1:3]),
        (["controller/plan/specs.py"], _PLAN),
        (["tests/unit/controller/plan/rows_of_brokers.py"], _PLAN),
        (["tests/unit/controller/plan/test_brokers.py"], [_THERE[3]]),
        (["tests/unit/controller/plan/test_removed.py"], _PLAN),
        (["web/gone.py"], []),
        (["agents/supervisor.py", "controller/plan/seeks.py", "agents/supervisor.py"], _THERE[:3]),
    ],
)
def test_tests_are_those_of_the_file_or_else_of_its_folder(changed: list[str], expected: list[str]) -> None:
    assert mirrored_tests(changed, _glob) == expected


@pytest.mark.parametrize(("count", "expected"), [(FILES_MAX, FILES_MAX), (FILES_MAX + 1, 0)])
def test_when_many_are_concerned_none_is_first(count: int, expected: int) -> None:
    names = [f"a/m{number}.py" for number in range(count)]
    assert len(mirrored_tests(names, lambda pattern: [pattern])) == expected
