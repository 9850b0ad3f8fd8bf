"""A child process: its log, its last words, its end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from app.local.child_process import Child
from tests.support.processes import wait_until

_LIMIT_S = 180


def _ended(child: Child) -> Child:
    wait_until("it has ended", lambda: child.code is not None, _LIMIT_S)
    return child


def test_child_keeps_its_log_and_says_its_last_words(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    loud: list[str] = []
    code = 'print(\'{"level": "error", "event": "bad"}\'); raise SystemExit(4)'
    child = _ended(Child("x", [sys.executable, "-c", code], log, loud.append))
    assert child.last_words == "", "it was said already"
    assert child.stop(10)
    unheard = _ended(Child("x", [sys.executable, "-c", code], log))
    assert unheard.last_words == "error: bad"
    assert unheard.stop(10)
    assert child.code == 4
    assert loud == ["error: bad"]
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    again = Child("x", [sys.executable, "-c", deaf], log)
    wait_until("it ignores the signal", lambda: log.exists() and "up" in log.read_text(), _LIMIT_S)
    assert not again.stop(0.1)  # it does not listen: killed
    assert again.code is not None
    assert (tmp_path / "x.log.1").read_text().startswith("{")


def test_log_that_cannot_be_written_is_said_once_and_the_child_goes_on(tmp_path: Path) -> None:
    """By the limit of a file's size, because not every machine has a full disk."""
    log = tmp_path / "child.log"
    program = f"""
import resource, sys
from pathlib import Path
from app.local.child_process import Child
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
program = "for number in range(1000): print('line', number)\\nraise SystemExit(7)"
child = Child("worker", [sys.executable, "-c", program], Path({str(log)!r}), print)
while child.code is None: pass
print(child.code, child.last_words)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=180)
    assert done.stderr == ""
    said, end = done.stdout.splitlines()
    assert said == f"The log of the worker cannot be written to {log}: File too large."
    assert end == "7 line 997 | line 998 | line 999"
