"""A hanging process is ended, and the health page shows it."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from app.worker.lifecycle import Lifecycle
from knative.errors import ExitCode
from tests.support.processes import REPOSITORY

LIMIT_S = 180.0
HANGS_S = 2 * LIMIT_S  # so that it cannot end by itself
_SCRIPT = """
import asyncio, time
from app.worker.watchdog import Watchdog

async def main():
    dog = Watchdog(limit_s=0.2, beat_s=0.01)
    dog.start()
    {do}

asyncio.run(main())
"""


@pytest.mark.parametrize("do", [f"time.sleep({HANGS_S})", f"dog.end_within(0.1); await asyncio.sleep({HANGS_S})"])
def test_process_that_hangs_is_ended(do: str) -> None:
    script = _SCRIPT.format(do=do)
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, timeout=LIMIT_S, check=False
    )
    assert ended.returncode == ExitCode.INTERNAL, ended.stderr
    assert b"MainThread" in ended.stderr or b"Current thread" in ended.stderr


@pytest.mark.parametrize(("poll_age_s", "alive"), [(0.0, True), (100.0, True), (400.0, False)])
def test_consumer_that_hangs_is_not_alive(poll_age_s: float, alive: bool) -> None:
    lifecycle = Lifecycle()
    parts: Any = SimpleNamespace(supervisor=SimpleNamespace(poll_age_s=lambda: poll_age_s, max_poll_interval_s=300.0))
    lifecycle.parts = parts
    assert lifecycle.alive()[0] is alive


def test_process_with_nothing_left_to_do_is_ended_in_peace() -> None:
    """A thread that was left behind would keep it for ever."""
    do = f"dog.end_within(0.1, code=0); import threading; threading.Thread(target=time.sleep, args=[{HANGS_S}]).start()"
    ended = subprocess.run(
        [sys.executable, "-c", _SCRIPT.format(do=do)], cwd=REPOSITORY, capture_output=True, timeout=LIMIT_S, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == b""
