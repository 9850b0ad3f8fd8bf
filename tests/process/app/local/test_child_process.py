"""A child process: its log, its last words, its end."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from app.local.child_process import Child


def test_a_child_keeps_its_log_and_says_its_last_words(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    loud: list[str] = []
    code = 'print(\'{"level": "error", "event": "bad"}\'); raise SystemExit(4)'
    child = Child("x", [sys.executable, "-c", code], log, loud.append)
    assert child.last_words == "", "it was said already"
    assert child.stop(10)
    unheard = Child("x", [sys.executable, "-c", code], log)
    assert unheard.last_words == "error: bad"
    assert unheard.stop(10)
    assert child.code == 4
    assert loud == ["error: bad"]
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    again = Child("x", [sys.executable, "-c", deaf], log)
    until = time.monotonic() + 180
    while not (log.exists() and "up" in log.read_text()) and time.monotonic() < until:
        time.sleep(0.01)
    assert not again.stop(0.1)  # it does not listen: killed
    assert again.code is not None
    assert (tmp_path / "x.log.1").read_text().startswith("{")
