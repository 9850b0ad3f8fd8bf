"""`Clock` on the clocks of the operating system. Simulations have a clock of their own."""

from __future__ import annotations

import time


class SystemClock:
    """The two clocks, called directly: no Python frame on the hot path."""

    monotonic = staticmethod(time.monotonic)
    time = staticmethod(time.time)
