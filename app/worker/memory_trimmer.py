"""Gives memory that is free back to the system: what a burst took, or what is gone, is not kept for ever.

glibc keeps what was freed, in an arena for every thread that ever allocated: the Kafka clients of ten subscriptions
held twice what they used. And what refers to itself is freed by the garbage collector only, which looks at old objects
hardly ever: a subscription that went has to be told of. Looked at once a second; growth and such a word are reasons, so
a process at rest does nothing. Refuses to matter: on a C library without `malloc_trim` only garbage is collected.
"""

from __future__ import annotations

import ctypes
import gc
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

_EVERY_S = 1.0
_GROWTH_BYTES = 8 * 1024 * 1024
_STATM = Path("/proc/self/statm")


def resident_bytes() -> int:
    """Of this process; 0 where the system does not tell."""
    try:
        return int(_STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


class MemoryTrimmer:
    """A thread of its own from `start` on, until the process ends: a call may take some milliseconds."""

    def __init__(self, every_s: float = _EVERY_S, growth_bytes: int = _GROWTH_BYTES) -> None:
        """Looks every `every_s`; trims when `growth_bytes` have come since the last time."""
        self._every_s, self._growth = every_s, growth_bytes
        self._stop = threading.Event()
        self._gone_at = 0.0  # 0 = nothing is gone since the last time

    def start(self) -> None:
        """Begin; returns at once."""
        trim = getattr(ctypes.CDLL(None), "malloc_trim", lambda _: 0)
        threading.Thread(target=self._run, args=(trim,), name="memory", daemon=True).start()

    def stop(self) -> None:
        """No longer."""
        self._stop.set()

    def gone(self) -> None:
        """Something large and old is no longer used: the garbage collector looks for it when no more goes."""
        self._gone_at = time.monotonic()

    def _run(self, trim: Callable[[int], int]) -> None:
        base = resident_bytes()
        while not self._stop.wait(self._every_s):
            if self._gone_at and time.monotonic() - self._gone_at > self._every_s:
                self._gone_at = 0.0
                gc.collect()
            elif resident_bytes() - base <= self._growth:
                continue
            trim(0)  # ctypes lets go of the interpreter meanwhile
            base = resident_bytes()
