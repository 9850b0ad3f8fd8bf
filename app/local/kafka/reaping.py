"""Waits for child processes and signals them, safely in the face of Ctrl-C.

If a signal handler raises an exception inside `Popen.poll`, the lock of `Popen` may stay held, and `Popen.wait` then
blocks for ever. These functions use no lock, so only one thread may use them for a child.
"""

from __future__ import annotations

import os
import subprocess
import time

from tables.timing import POLL_S


def exit_code(process: subprocess.Popen[bytes]) -> int | None:
    """None while it runs; negative for a signal."""
    if process.returncode is None:
        try:
            pid, status = os.waitpid(process.pid, os.WNOHANG)
        except ChildProcessError:
            # A Ctrl-C between `waitpid` and the assignment below loses the status: the child is reaped already.
            process.returncode = 255
        else:
            if pid == process.pid:
                process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode


def ended(process: subprocess.Popen[bytes], limit_s: float) -> bool:
    """Wait until the process has ended; False when it still runs after `limit_s`."""
    end = time.monotonic() + limit_s
    while exit_code(process) is None:
        if time.monotonic() > end:
            return False
        time.sleep(POLL_S)
    return True


def send(process: subprocess.Popen[bytes], signal_number: int) -> None:
    """Send a signal, unless the process has ended."""
    # A child that is not reaped keeps its process id, so the signal cannot reach another process.
    if exit_code(process) is None:
        os.kill(process.pid, signal_number)
