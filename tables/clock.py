"""The clock for what another process may take over meanwhile: leadership, membership in a group."""

from __future__ import annotations

import time


def now_s() -> float:
    """Returns seconds of a clock that runs on while the process or the machine is stopped."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
