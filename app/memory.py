"""Gives memory that is free back to the system: what a burst took is not kept for ever.

glibc keeps what was freed, in an arena for every thread that ever allocated: the Kafka clients of ten subscriptions
held twice what they used. Looked at once a second; only growth is a reason, so a process at rest does nothing.
Refuses to matter: on a C library without `malloc_trim` nothing happens.
"""

from __future__ import annotations

import ctypes
import os
import threading
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


class Trimmer:
    """A thread of its own from `start` on, until the process ends: a call may take some milliseconds."""

    def __init__(self, every_s: float = _EVERY_S, growth_bytes: int = _GROWTH_BYTES) -> None:
        """Looks every `every_s`; trims when `growth_bytes` have come since the last time."""
        self._every_s, self._growth = every_s, growth_bytes
        self._stop = threading.Event()

    def start(self) -> None:
        """Begin; returns at once."""
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None and resident_bytes():
            threading.Thread(target=self._run, args=(trim,), name="memory", daemon=True).start()

    def stop(self) -> None:
        """No longer."""
        self._stop.set()

    def _run(self, trim: Callable[[int], int]) -> None:
        base = resident_bytes()
        while not self._stop.wait(self._every_s):
            if resident_bytes() - base > self._growth:
                trim(0)  # ctypes lets go of the interpreter meanwhile
                base = resident_bytes()
