"""Does long work on the event loop in slices, so that others have their turn in between."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator

from agents.timing import TICK_S

SLICE_S = TICK_S  #: how long the work goes on before others have their turn


class Slices:
    """Work in the order in which it was added. Event loop only, except for `len`."""

    def __init__(self, fatal: Callable[[BaseException], None]) -> None:
        self._fatal = fatal
        self._work: deque[Iterator[None]] = deque()

    def __len__(self) -> int:
        """Returns the number of works that are not done."""
        return len(self._work)

    def add(self, steps: Iterator[None]) -> None:
        """Do the steps of this work behind all others, or begin before this returns if there are none."""
        self._work.append(steps)
        if len(self._work) == 1:
            self._go_on()

    def _go_on(self) -> None:
        until = time.monotonic() + SLICE_S
        try:
            while self._work:
                for _ in self._work[0]:
                    if time.monotonic() >= until:
                        asyncio.get_running_loop().call_soon(self._go_on)
                        return
                self._work.popleft()
        except Exception as problem:
            self._fatal(problem)
