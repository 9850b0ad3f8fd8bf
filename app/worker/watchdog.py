"""A thread that ends the process when its event loop is stuck. Liveness is progress, not an open port.

It writes the stacks of all threads and exits; the next owner of the partitions starts at their committed offsets.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

import structlog

from knative.errors import ExitCode

log = structlog.get_logger(__name__)

DUMP_SIGNAL = signal.SIGUSR2  #: dumps all stacks to standard error, even when the event loop is stuck


class Watchdog:
    """`start` and `stop` on the event loop that is watched."""

    def __init__(
        self, limit_s: float = 60.0, beat_s: float = 1.0, lagged: Callable[[float], None] = lambda _: None
    ) -> None:
        """The process ends when the loop has not run for `limit_s`. `lagged` gets the lag in seconds at each beat."""
        self.limit_s = limit_s
        self.beat_s = beat_s
        self._lagged = lagged
        self.lag_s = 0.0  #: how late the loop was at the last beat
        self._beaten = time.monotonic()
        self._end_at, self._code = float("inf"), int(ExitCode.INTERNAL)
        self._stop = threading.Event()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start to watch the running loop."""
        loop = asyncio.get_running_loop()
        self._beat(loop, time.monotonic())
        # Faust's handler starts a debugger on a terminal that a worker does not have, and would hang the process.
        loop.remove_signal_handler(DUMP_SIGNAL)
        faulthandler.enable(sys.__stderr__ or sys.stderr)  # a crash in a C library says where, too
        faulthandler.register(DUMP_SIGNAL, file=sys.__stderr__ or sys.stderr, all_threads=True)
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def stop(self) -> None:
        """Stop watching."""
        self._stop.set()
        if self._timer is not None:
            self._timer.cancel()

    def end_within(self, seconds: float, code: int = ExitCode.INTERNAL) -> None:
        """The process is stopping: if it still runs after `seconds`, end it with this exit code."""
        self._end_at, self._code = time.monotonic() + seconds, code

    def _beat(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self._beaten = time.monotonic()
        self.lag_s = max(0.0, self._beaten - due)
        self._lagged(self.lag_s)
        self._timer = loop.call_later(self.beat_s, self._beat, loop, self._beaten + self.beat_s)

    def _watch(self) -> None:
        last_check = time.monotonic()
        while not self._stop.wait(self.beat_s):
            now = time.monotonic()
            # This thread was late too, so the whole process was suspended (SIGSTOP, a sleeping laptop). The loop gets
            # a full limit again; without this every resume would kill a healthy worker.
            if now - last_check > 5 * self.beat_s + 5:
                self._beaten = now
            last_check = now
            if now > self._end_at:
                if self._code == 0:  # everything of ours has stopped; only threads of libraries are left
                    os._exit(0)
                log.critical("the worker did not stop in time; the process is ended")
                _end()
            if now - self._beaten > self.limit_s:
                log.critical("the event loop is stuck; the process is ended", seconds=round(now - self._beaten, 1))
                _end()


def _end() -> None:
    # Written by C code, which needs neither the loop nor the interpreter lock that a stuck thread may hold. `_exit`
    # for the same reason: a normal exit would wait for the threads that hang.
    faulthandler.dump_traceback(file=sys.__stderr__ or sys.stderr, all_threads=True)
    os._exit(ExitCode.INTERNAL)
