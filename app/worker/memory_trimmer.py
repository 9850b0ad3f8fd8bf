"""Returns free memory to the operating system after a burst, and after a subscription was removed.

glibc keeps freed memory in an arena for each thread that ever allocated: the Kafka clients of ten subscriptions held
twice what they used. Reference cycles are freed by the garbage collector only, which rarely checks old objects, so a
removed subscription is reported with `gone`. The thread checks once a second and acts only on growth or on such a
report; after growth several times, later and later, because what a burst took may still be in use at first. On a C
library without `malloc_trim` it only collects garbage.
"""

from __future__ import annotations

import ctypes
import gc
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from app.timing import LOOK_S
from knative.backoff import doubling_s

_GROWTH_BYTES = 8 * 1024 * 1024
_STATM = Path("/proc/self/statm")


def resident_bytes() -> int:
    """Returns resident memory of this process in bytes; 0 where the system does not report it."""
    try:
        return int(_STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


class MemoryTrimmer:
    """Has a thread of its own from `start` until the process ends, because one call may take some milliseconds."""

    def __init__(self, every_s: float = LOOK_S, growth_bytes: int = _GROWTH_BYTES) -> None:
        """Checks every `every_s`; trims when memory has grown by `growth_bytes` since the last trim."""
        self._every_s, self._growth = every_s, growth_bytes
        self._stop = threading.Event()
        self._gone_at = 0.0  # 0 = nothing was reported since the last collection

    def start(self) -> None:
        """Begin; returns at once."""
        trim = getattr(ctypes.CDLL(None), "malloc_trim", lambda _: 0)
        threading.Thread(target=self._run, args=(trim,), name="memory", daemon=True).start()

    def stop(self) -> None:
        """Stop the thread."""
        self._stop.set()

    def gone(self) -> None:
        """Something large and old is no longer used. A collection follows once no more reports come."""
        self._gone_at = time.monotonic()

    def _run(self, trim: Callable[[int], int]) -> None:
        base, due = resident_bytes(), math.inf
        pauses: Iterator[float] = iter(())
        while not self._stop.wait(self._every_s):
            # Many subscriptions may go at once, and a full collection holds the interpreter: so wait for the last one.
            if self._gone_at and time.monotonic() - self._gone_at > self._every_s:
                self._gone_at = 0.0
                gc.collect()
            elif resident_bytes() - base > self._growth:
                # The last time is 64 checks after the one before.
                pauses = islice(doubling_s(self._every_s, math.inf), 7)
            elif time.monotonic() < due:
                continue
            trim(0)  # ctypes releases the interpreter lock during the call
            base = resident_bytes()
            due = time.monotonic() + next(pauses, math.inf)
