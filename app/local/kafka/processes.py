"""Identifies processes by id and start time, and makes children that die with their parent.

The start time is needed because the system uses process ids again.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tables.timing import POLL_S


def start_time(pid: int) -> str | None:
    """Distinguishes this process from later ones with the same id; None when it does not run or is a zombie."""
    stat = Path(f"/proc/{pid}/stat")
    if not Path("/proc/self/stat").exists():  # not Linux
        shown = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
        return shown.stdout.strip() or None
    try:
        text = stat.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name in parentheses may contain spaces and parentheses; state (3rd field) and the rest follow the last one.
    fields = text.rpartition(")")[2].split()
    if fields[0] in ("Z", "X"):
        return None
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}:{fields[19]}"


def is_running(pid: int, started: str) -> bool:
    """True while exactly that process runs."""
    return start_time(pid) == started


def die_with_parent(number: int = signal.SIGKILL) -> Callable[[], None] | None:
    """A `preexec_fn` that makes Linux send the child this signal when its parent dies, even by SIGKILL; None elsewhere.

    The kernel watches the *thread* that started the child: start such children from a thread that lives as long.
    """
    if not sys.platform.startswith("linux"):
        return None
    # Loaded now, because between fork and exec only the call itself is safe: other threads may hold locks.
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def apply() -> None:
        prctl(1, number, 0, 0, 0)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:  # the parent died before the call
            os._exit(1)

    return apply


def stop_process(pid: int, started: str, limit_s: float) -> bool:
    """SIGTERM, wait up to `limit_s`, then SIGKILL. True when it ended by itself. Never signals another process."""
    if not _send(pid, started, signal.SIGTERM) or _gone(pid, started, limit_s):
        return True
    _send(pid, started, signal.SIGKILL)
    _gone(pid, started, 5.0)
    return False


def _send(pid: int, started: str, number: signal.Signals) -> bool:
    """False: exactly that process does not run any more."""
    if not is_running(pid, started):
        return False
    try:
        os.kill(pid, number)
    except ProcessLookupError:  # it has just ended
        return False
    return True


def _gone(pid: int, started: str, limit_s: float) -> bool:
    end = time.monotonic() + limit_s
    while is_running(pid, started):
        if time.monotonic() > end:
            return False
        time.sleep(POLL_S)
    return True
