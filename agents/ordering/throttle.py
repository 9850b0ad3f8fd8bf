"""Limits subscriptions whose attempts keep failing, so that the others get most of the event loop's time.

    more than a third of its attempts fail? --no--> start, as all others
             | yes
             v
    starts left in this tick? --yes--> start
             | no
             v
           wait --next tick--> each waiting subscription gets the same share of the tick's starts

A failed attempt costs several times as much as a successful delivery, and retries follow it. Without a limit a few such
subscriptions fill the loop, and each event of the others waits for several full turns of it. The number of starts in a
tick depends on how busy the loop is: it grows while the loop has idle time. There is no limit while no other
subscription has events.

A throttled attempt only comes later. Order, the number of attempts and dead letters do not change.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from agents.timing import STEADY_S, TICK_S

#: A subscription is failing from this score on. A failure adds 2, a success subtracts 1: so the score grows when more
#: than a third of the attempts fail.
FAILING = 40
_SCORE_MAX = 60

STARTS_MIN, STARTS_MAX = 2.0, 256.0  #: per tick, for all failing subscriptions together
_STARTS = 8.0  # in the first tick
_BUSY = 0.3  # share of a tick for which the loop may be busy before failing subscriptions get fewer starts
_LESS, _MORE = 0.8, 1.05  # limits of the change from one tick to the next


def score(before: int, succeeded: bool) -> int:
    """Returns the score of a subscription after one more attempt."""
    return max(0, before - 1) if succeeded else min(before + 2, _SCORE_MAX)


def adapted(starts: float, busy: float, late_s: float) -> float:
    """Returns the starts of the next tick: `starts` is the present number, `busy` the share of the time for which the
    loop's thread used the CPU, `late_s` the delay of this tick."""
    # CPU time alone is not enough: on a loaded machine the loop gets little of it and is late all the same.
    # A tick that is late by as much as it takes counts as busy too: other threads or processes have the CPU.
    load = max(busy / _BUSY, late_s / TICK_S)
    factor = min(max(1.0 / load, _LESS), _MORE) if load > 0 else _MORE
    return min(max(starts * factor, STARTS_MIN), STARTS_MAX)


class Throttled(Protocol):
    """A scheduler that starts requests while it has any and `Throttle.left` is at least 1."""

    throttled: bool  #: queued here

    def start_ready(self) -> None:
        """Start ready deliveries."""


def _later(delay_s: float, function: Callable[[], None]) -> object:
    return asyncio.get_running_loop().call_later(delay_s, function)


class Throttle:
    """The throttle of one event loop. `left`: starts that failing subscriptions may make before they have to wait; each
    start subtracts 1. There is a timer only while one of them waits."""

    __slots__ = (
        "_at",
        "_clock",
        "_cpu_clock",
        "_cpu_s",
        "_due",
        "_fatal",
        "_later",
        "_others_at",
        "_starts",
        "_ticking",
        "_waiting",
        "left",
        "others",
    )

    def __init__(
        self,
        fatal: Callable[[BaseException], None],
        later: Callable[[float, Callable[[], None]], object] = _later,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        """`fatal` ends the process when a start raises. `later(seconds, function)` calls a function on the loop;
        `clock`: seconds; `cpu_clock`: CPU seconds of the loop's thread."""
        self._fatal = fatal
        self._later = later
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._waiting: deque[Throttled] = deque()
        self._at = self._others_at = clock()  # time of the last tick, and of the last start by another subscription
        self._cpu_s = cpu_clock()  # at the last tick
        self._due = 0.0  # the next tick
        self._starts = _STARTS
        self._ticking = False
        self.left: float = _STARTS
        self.others = False  #: set it when a subscription that is not failing has something to start

    def wait(self, throttled: Throttled) -> None:
        """Queue a scheduler that has more to start than it may now; one of the next ticks calls it."""
        if throttled.throttled:
            return
        throttled.throttled = True
        self._waiting.append(throttled)
        if not self._ticking:
            self._tick_again()

    def _tick_again(self) -> None:
        self._ticking = True
        self._due = self._clock() + TICK_S
        self._later(TICK_S, self._tick)

    def _tick(self) -> None:
        now, cpu_s = self._clock(), self._cpu_clock()
        # Measured since the last tick, even if none had to wait in between: while all of them wait the loop has little
        # to do, and would look idle.
        busy = (cpu_s - self._cpu_s) / max(now - self._at, TICK_S)
        late_s = max(0.0, now - self._due)
        self._starts = adapted(self._starts, busy, late_s)
        self._at, self._cpu_s = now, cpu_s
        if self.others:
            self.others, self._others_at = False, now
        # A late tick allows more starts, so that the minimum is a rate and not a number of ticks.
        least = min(STARTS_MIN * (1.0 + late_s / TICK_S), STARTS_MAX)
        alone = now - self._others_at > STEADY_S
        self._share_out(STARTS_MAX if alone else self.left + max(self._starts, least))
        self._ticking = False
        if self._waiting:
            self._tick_again()

    def _share_out(self, budget: float) -> None:
        waiting, self._waiting = self._waiting, deque()
        share = max(1.0, budget // len(waiting))
        while waiting and budget >= 1.0:
            throttled = waiting.popleft()
            throttled.throttled = False
            self.left = granted = min(share, budget)
            try:
                throttled.start_ready()
            except Exception as problem:  # the loop only logs what a timer raises
                self._fatal(problem)
            budget -= granted - self.left
        waiting.extend(self._waiting)  # these had their share and want more: behind those that had none
        self._waiting = waiting
        # While others queue, only a fraction stays: a whole start left here would go to one that did not queue.
        self.left = budget % 1.0 if waiting else min(budget, self._starts)
