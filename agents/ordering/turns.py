"""Shares the event loop fairly: a subscription with a deep backlog does not delay the requests of the others.

    start_ready --> starts left, or few in flight? --> start         (no queue and no timer while starts are left)
               | no
               v
             queue --next turn of the loop--> each waiting scheduler gets the same share of starts, and may queue again

In one turn the loop handles all input that has arrived, and each answer starts the next request. Without a limit a turn
takes as long as all slots of all subscriptions together, and a subscription with one slot gets one event per turn. The
number of starts in a turn is what fits into a few milliseconds. A refused connection costs twenty times as much as an
immediate answer, so turns are measured while any scheduler waits.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from agents.ordering.throttle import Throttle

#: A scheduler with fewer requests in flight than this never waits for a turn.
FEW = 4

STARTS_MIN, STARTS_MAX = 4, 256
_STARTS = 64  # in the first turn
_LONG_S, _SHORT_S = 0.004, 0.002
_MORE = 4


def _soon(function: Callable[[], None]) -> object:
    return asyncio.get_running_loop().call_soon(function)


class Pumping(Protocol):
    """A scheduler that starts requests while it has any and `Turns.left` is above 0."""

    waits: bool  #: queued here

    def start_ready(self) -> None:
        """Start ready deliveries."""


class Turns:
    """The turns of one event loop. `left`: starts that are left in this turn; each start subtracts 1, at 0 schedulers
    queue. A turn in which none has queued refills it, so a few subscriptions with little to do never wait."""

    __slots__ = ("_clock", "_fatal", "_of_a_turn", "_soon", "_turned", "_waiting", "left", "throttle")

    def __init__(
        self,
        fatal: Callable[[BaseException], None],
        soon: Callable[[Callable[[], None]], object] = _soon,
        clock: Callable[[], float] = time.thread_time,
        throttle: Throttle | None = None,
    ) -> None:
        """`fatal` ends the process when a start raises. `soon` calls a function in the loop's next turn. `clock`: CPU
        seconds of its thread, since smaller turns do not help when other processes use the CPU."""
        self.throttle = throttle or Throttle(fatal)  #: for subscriptions whose attempts keep failing
        self._fatal = fatal
        self._soon = soon
        self._clock = clock
        self._waiting: deque[Pumping] = deque()
        self._turned: float | None = None  # time of the last turn while turns follow each other, else None
        self._of_a_turn = _STARTS
        self.left: float = _STARTS

    def wait(self, pumping: Pumping) -> None:
        """Queue a scheduler that has more to start than it may now; the next turn calls it."""
        if pumping.waits:
            return
        pumping.waits = True
        if not self._waiting and self._turned is None:
            self._soon(self._turn)
        self._waiting.append(pumping)

    def _turn(self) -> None:
        now = self._clock()
        if self._turned is not None:
            self._adapt(now - self._turned)
        waiting, self._waiting = self._waiting, deque()
        self._turned = now if waiting else None
        share = max(1, self._of_a_turn // max(1, len(waiting)))
        for pumping in waiting:
            pumping.waits = False
            self.left = share
            try:
                pumping.start_ready()
            except Exception as problem:  # the loop only logs what a callback raises
                self._fatal(problem)
        self.left = 0 if self._waiting else self._of_a_turn  # 0 while some want more: the others have to queue too
        if waiting:
            self._soon(self._turn)

    def _adapt(self, took_s: float) -> None:
        if took_s > _LONG_S:
            self._of_a_turn = max(STARTS_MIN, self._of_a_turn * 3 // 4)
        elif took_s < _SHORT_S:
            self._of_a_turn = min(STARTS_MAX, self._of_a_turn + _MORE)


def unlimited() -> Turns:
    """Returns turns without a limit, for a scheduler that has the loop to itself."""
    turns = Turns(lambda _: None)
    turns.left = turns.throttle.left = math.inf
    return turns
