"""One state for all tabs. It is taken again in each interval in which somebody looks, and never otherwise."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from web.console.state import Reads, State


def is_old(age_s: float, every_s: float) -> bool:
    """Returns whether it is time for a new value. The limit is less than an interval: a caller that asks at every
    interval asks a moment before the value is one interval old."""
    return age_s >= 0.75 * every_s


class Snapshots:
    """The state that all tabs share. Event loop only."""

    def __init__(self, reads: Reads, every_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.number = 0  #: of the state; pages of the same one are the same
        self._reads, self._every_s, self._clock = reads, every_s, clock
        self._state: State | None = None
        self._taken_s = 0.0
        self._taking = asyncio.Lock()
        self._rest: asyncio.TimerHandle | None = None

    async def get(self) -> State:
        """Returns a state that is at most `every_s` old."""
        if self._rest is not None:
            self._rest.cancel()
        self._rest = asyncio.get_running_loop().call_later(10 * self._every_s, self.forget)
        async with self._taking:
            now_s = self._clock()
            if self._state is None or is_old(now_s - self._taken_s, self._every_s):
                self._state = await self._reads.state()
                self._taken_s = now_s
                self.number += 1
            return self._state

    def forget(self) -> None:
        """Nobody has looked for ten intervals: keep nothing."""
        if self._rest is not None:
            self._rest.cancel()
        self._state = None
        self._reads.rest()
