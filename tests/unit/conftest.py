"""A unit test starts no process and opens no connection: it fails where it tries to. `tests/process` is for these."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

_REFUSED = {
    "starts a process": {"subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"},
    "uses the network": {"socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo"},
}
_REASONS = {event: reason for reason, events in _REFUSED.items() for event in events}

#: Interpreter hooks stay for ever, and the other rings may run in this process: it counts during a unit test only.
_unit_tests: list[str] = []
#: Threads that were there before the test, such as the one by which Py4J drops objects of a JVM of another ring.
_others: set[int] = set()


def _refuse(event: str, arguments: tuple[object, ...]) -> None:
    if _unit_tests and event in _REASONS and threading.get_ident() not in _others:
        pytest.fail(f"{_unit_tests[-1]} {_REASONS[event]} ({event}: {arguments[-1]}); its place is tests/process")


# The pair of sockets by which an event loop wakes itself is connected by the kernel: it is none of these events.
sys.addaudithook(_refuse)


@pytest.fixture(autouse=True)
def _pure(request: pytest.FixtureRequest) -> Iterator[None]:
    _others.update(thread.ident or 0 for thread in threading.enumerate() if thread is not threading.current_thread())
    _unit_tests.append(request.node.nodeid)
    yield
    _unit_tests.pop()
    _others.clear()
