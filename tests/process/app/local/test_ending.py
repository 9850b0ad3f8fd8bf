"""Child processes end within limits, even when a Ctrl-C has left `subprocess` with its lock held."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.local.child_process import Child, ended, exit_code, send

SLEEPS = [sys.executable, "-c", "import time; print('x', flush=True); time.sleep(60)"]


@pytest.fixture
def sleeping() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(SLEEPS, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read(1) == b"x"
        yield process
        process.kill()


def test_child_ends_by_the_signal_that_it_was_sent(sleeping: subprocess.Popen[bytes]) -> None:
    assert exit_code(sleeping) is None
    assert not ended(sleeping, 0.05)
    send(sleeping, signal.SIGTERM)
    assert ended(sleeping, 20)
    assert exit_code(sleeping) == -signal.SIGTERM
    send(sleeping, signal.SIGTERM)  # nobody is there: nobody else is met


def test_exit_status_that_was_already_collected(sleeping: subprocess.Popen[bytes]) -> None:
    sleeping.kill()
    _, status = os.waitpid(sleeping.pid, 0)
    assert status == signal.SIGKILL
    assert exit_code(sleeping) == 255


@pytest.mark.parametrize("stubborn", [False, True])
def test_child_is_stopped_although_its_wait_lock_is_held(tmp_path: Path, stubborn: bool) -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); " if stubborn else "import time; "
    child = Child("one", [sys.executable, "-c", code + "print('x', flush=True); time.sleep(60)"], tmp_path / "log")
    while not (tmp_path / "log").exists() or not (tmp_path / "log").read_bytes():
        assert child.code is None
    process: Any = child._process
    assert process._waitpid_lock.acquire(False)  # as `poll` leaves it when an exception comes in its middle
    assert child.stop(0.5 if stubborn else 20) is not stubborn
    assert child.code == -(signal.SIGKILL if stubborn else signal.SIGTERM)
