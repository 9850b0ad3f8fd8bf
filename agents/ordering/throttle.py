"""The throttle: subscriptions whose attempts keep failing leave most of the event loop's time to the others.

    more than a third of its attempts fail? --no--> start, as all others
             | yes
             v
    starts left in this tick? --yes--> start
             | no
             v
           wait --next tick--> each that waits gets the same share of the tick's starts

An attempt that fails costs several times what a delivery costs, and its retries follow: without a limit a few such
subscriptions fill the loop, and each event of the others waits for several full turns of it. The starts of a tick
follow how busy the loop is: they grow while it has time to spare. There is no limit while no other subscription has
any events.

A throttled attempt comes later, never earlier. Order, the number of attempts and dead letters stay as they are.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

#: A subscription is failing from this score on: a failure adds 2 to it, a success takes 1 off.
FAILING = 40
_SCORE_MAX = 60

TICK_S = 0.01
STARTS_MIN, STARTS_MAX = 2.0, 256.0  #: in a tick, of all failing subscriptions together
_STARTS = 8.0  # in the first tick
_BUSY = 0.3  # the part of a tick that the loop should be at work while failing ones have to wait
_LATE_S = 0.01  # a tick so late weighs as much: other threads or processes have the CPU
_LESS, _MORE = 0.8, 1.05  # at most by so much from one tick to the next
_ALONE_S = 60.0  # nobody else has started anything for so long


def score(before: int, succeeded: bool) -> int:
    """The score of a subscription after one more attempt."""
    return max(0, before - 1) if succeeded else min(before + 2, _SCORE_MAX)


def adapted(starts: float, busy: float, late_s: float) -> float:
    """The starts of the next tick. So far there were `starts` in a tick, the loop's thread was at work for a part
    `busy` of the time, and this tick is `late_s` late."""
    load = max(busy / _BUSY, late_s / _LATE_S)
    factor = min(max(1.0 / load, _LESS), _MORE) if load > 0 else _MORE
    return min(max(starts * factor, STARTS_MIN), STARTS_MAX)


class Throttled(Protocol):
    """A scheduler that starts requests while it has some and `Throttle.left` is at least 1."""

    throttled: bool  #: queued here

    def start_ready(self) -> None:
        """Start what may be started."""


def _later(delay_s: float, function: Callable[[], None]) -> object:
    return asyncio.get_running_loop().call_later(delay_s, function)


class Throttle:
    """Of one event loop. `left`: starts that failing subscriptions may make before they have to wait; each one takes 1
    off. There is a timer only while one of them waits."""

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
        """`fatal` ends the process: what was to be started is not. `later` calls a function on the loop after so many
        seconds; `clock`: seconds; `cpu_clock`: CPU seconds of the loop's thread."""
        self._fatal = fatal
        self._later = later
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._waiting: deque[Throttled] = deque()
        self._at = self._others_at = clock()  # the last tick; when others have started something
        self._cpu_s = cpu_clock()  # at the last tick
        self._due = 0.0  # the next tick
        self._starts = _STARTS
        self._ticking = False
        self.left: float = _STARTS
        self.others = False  #: set it when a subscription that is not failing has something to start

    def wait(self, one: Throttled) -> None:
        """It has more to start than it may now: it is asked in one of the next ticks."""
        if one.throttled:
            return
        one.throttled = True
        self._waiting.append(one)
        if not self._ticking:
            self._tick_again()

    def _tick_again(self) -> None:
        self._ticking = True
        self._due = self._clock() + TICK_S
        self._later(TICK_S, self._tick)

    def _tick(self) -> None:
        now, cpu_s = self._clock(), self._cpu_clock()
        # Since the last tick, also where nobody had to wait in between: while all wait the loop has little to do.
        busy = (cpu_s - self._cpu_s) / max(now - self._at, TICK_S)
        late_s = max(0.0, now - self._due)
        self._starts = adapted(self._starts, busy, late_s)
        self._at, self._cpu_s = now, cpu_s
        if self.others:
            self.others, self._others_at = False, now
        alone = now - self._others_at > _ALONE_S
        least = min(STARTS_MIN * (1.0 + late_s / TICK_S), STARTS_MAX)
        self._share_out(STARTS_MAX if alone else self.left + max(self._starts, least))
        self._ticking = False
        if self._waiting:
            self._tick_again()

    def _share_out(self, budget: float) -> None:
        waiting, self._waiting = self._waiting, deque()
        share = max(1.0, budget // len(waiting))
        while waiting and budget >= 1.0:
            one = waiting.popleft()
            one.throttled = False
            self.left = granted = min(share, budget)
            try:
                one.start_ready()
            except Exception as problem:  # nobody else would hear of it
                self._fatal(problem)
            budget -= granted - self.left
        waiting.extend(self._waiting)  # they have had some: behind those that have not
        self._waiting = waiting
        self.left = budget % 1.0 if waiting else min(budget, self._starts)
