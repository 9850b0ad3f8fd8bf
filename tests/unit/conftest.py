"""A unit test starts no process: it fails where it tries to. Such tests are in `tests/process`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

_STARTS = {"subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"}

#: Interpreter hooks stay for ever, and the other rings may run in this process: it counts during a unit test only.
_unit_tests: list[str] = []


def _refuse_processes(event: str, arguments: tuple[object, ...]) -> None:
    if _unit_tests and event in _STARTS:
        pytest.fail(f"{_unit_tests[-1]} starts a process ({event}: {arguments[0]}); its place is tests/process")


sys.addaudithook(_refuse_processes)


@pytest.fixture(autouse=True)
def _no_processes(request: pytest.FixtureRequest) -> Iterator[None]:
    _unit_tests.append(request.node.nodeid)
    yield
    _unit_tests.pop()
