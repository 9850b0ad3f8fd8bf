"""How child processes end: as `subprocess` has it, but safe from a Ctrl-C.

An exception that a signal raises in the middle of `Popen.poll` can leave its lock held, and then `Popen.wait` waits for
ever. Here no lock is used: whoever calls is alone with the child, in one thread. Refuses to wait without a limit.
"""

from __future__ import annotations

import os
import subprocess
import time

_POLL_S = 0.02
_UNKNOWN = 255  # of a child whose status somebody else has collected
#: A process that was sent SIGKILL is gone within this, unless the kernel itself holds it.
KILL_LIMIT_S = 10.0


def exit_code(process: subprocess.Popen[bytes]) -> int | None:
    """None while it runs; negative for a signal."""
    if process.returncode is None:
        try:
            pid, status = os.waitpid(process.pid, os.WNOHANG)
        except ChildProcessError:
            process.returncode = _UNKNOWN
        else:
            if pid == process.pid:
                process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode


def ended(process: subprocess.Popen[bytes], limit_s: float) -> bool:
    """Wait for its end; False when it still runs after `limit_s`."""
    end = time.monotonic() + limit_s
    while exit_code(process) is None:
        if time.monotonic() > end:
            return False
        time.sleep(_POLL_S)
    return True


def send(process: subprocess.Popen[bytes], signal_number: int) -> None:
    """A signal, unless it has ended."""
    if exit_code(process) is None:
        os.kill(process.pid, signal_number)
