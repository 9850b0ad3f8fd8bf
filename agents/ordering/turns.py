"""Fair turns on the event loop: a subscription with a deep backlog does not make the others wait for its requests.

    pump --> starts left, or few in flight? --> start         (nobody waits: nothing is queued, nothing is scheduled)
               | no
               v
             queue --next turn of the loop--> each that waits gets the same share of starts, and may queue again

In one turn the loop handles everything that has come, and each answer starts the next request. Without a limit a turn
takes as long as all slots of all subscriptions together, and a subscription that may have one event under way gets one
event a turn. The starts of a turn are as many as fit into a few milliseconds. What they cost differs twentyfold,
between an answer at once and a connection that is refused: turns are measured, for as long as somebody waits.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from agents.ordering.throttle import Throttle

#: Who has no more requests under way than this never waits for a turn.
FEW = 4

STARTS_MIN, STARTS_MAX = 4, 256
_STARTS = 64  # in the first turn
_LONG_S, _SHORT_S = 0.004, 0.002
_MORE = 4


def _soon(function: Callable[[], None]) -> object:
    return asyncio.get_running_loop().call_soon(function)


class Pumping(Protocol):
    """A scheduler that starts requests while it has some and `Turns.left` is above 0."""

    waits: bool  #: queued here

    def start_ready(self) -> None:
        """Start what may be started."""


class Turns:
    """Of one event loop. `left`: starts that may still be made before whoever wants more has to queue; each one takes
    1 off. Where nobody waits it is filled up now and then, so that few subscriptions with little to do never notice."""

    __slots__ = ("_clock", "_fatal", "_of_a_turn", "_soon", "_turned", "_waiting", "left", "throttle")

    def __init__(
        self,
        fatal: Callable[[BaseException], None],
        soon: Callable[[Callable[[], None]], object] = _soon,
        clock: Callable[[], float] = time.thread_time,
        throttle: Throttle | None = None,
    ) -> None:
        """`fatal` ends the process: what was to be started is not. `soon` calls a function in the next turn of the
        loop; `clock`: CPU seconds of its thread, since smaller turns do not help where others have the CPU."""
        self.throttle = throttle or Throttle(fatal)  #: for who keeps failing
        self._fatal = fatal
        self._soon = soon
        self._clock = clock
        self._waiting: deque[Pumping] = deque()
        self._turned: float | None = None  # when the last turn was, if the next one follows it at once
        self._of_a_turn = _STARTS
        self.left: float = _STARTS

    def wait(self, one: Pumping) -> None:
        """It has more to start than it may now: it is pumped in the next turn."""
        if one.waits:
            return
        one.waits = True
        if not self._waiting and self._turned is None:
            self._soon(self._turn)
        self._waiting.append(one)

    def _turn(self) -> None:
        now = self._clock()
        if self._turned is not None:
            self._adapt(now - self._turned)
        waiting, self._waiting = self._waiting, deque()
        self._turned = now if waiting else None
        share = max(1, self._of_a_turn // max(1, len(waiting)))
        for one in waiting:
            one.waits = False
            self.left = share
            try:
                one.start_ready()
            except Exception as problem:  # nobody else would hear of it
                self._fatal(problem)
        self.left = 0 if self._waiting else self._of_a_turn  # some want more: until the next turn nobody else has any
        if waiting:
            self._soon(self._turn)

    def _adapt(self, took_s: float) -> None:
        if took_s > _LONG_S:
            self._of_a_turn = max(STARTS_MIN, self._of_a_turn * 3 // 4)
        elif took_s < _SHORT_S:
            self._of_a_turn = min(STARTS_MAX, self._of_a_turn + _MORE)


def unlimited() -> Turns:
    """For who has the loop to itself: nobody ever waits."""
    turns = Turns(lambda _: None)
    turns.left = turns.throttle.left = math.inf
    return turns
