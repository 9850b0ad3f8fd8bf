"""A sampling profiler for the event loop's thread of a running process. It costs nothing while it is not running.

    kernel: every 3-7 ms --SIGALRM--> main thread: handler(frame) -> root;caller;callee  += 1

The text is in the format of flame graph tools: a stack and a count on each line. It uses a timer of the kernel and not
a thread with `sys._current_frames`: a thread mostly runs while the loop waits, so a loop that was busy for 70 % of the
time appeared to wait in nine of ten samples. Time inside C code counts for the Python line that called it, or for the
next one. One profile runs at a time, for at most a minute, and only in the main thread.
"""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Mapping
from pathlib import PurePath
from types import FrameType

SECONDS_MAX = 60.0
_INTERVAL_S = (0.003, 0.007)  # random, so that samples do not coincide with periodic work


class Busy(Exception):
    """Another profile is running."""


def collapse(frame: FrameType | None) -> str:
    """Returns `file:function;file:function;...`, the outermost call first."""
    names: list[str] = []
    while frame is not None and len(names) < 200:
        code = frame.f_code
        names.append(f"{PurePath(code.co_filename).stem}:{code.co_qualname}".replace(";", ",").replace(" ", "_"))
        frame = frame.f_back
    return ";".join(reversed(names))


def report(samples: Mapping[str, int]) -> str:
    """Returns one line per stack, the most frequent first."""
    rows = sorted(samples.items(), key=lambda item: (-item[1], item[0]))
    return "".join(f"{stack} {count}\n" for stack, count in rows)


class Profiler:
    """Profiles the event loop on which it runs. One for each process."""

    def __init__(self) -> None:
        self._ended: asyncio.Event | None = None

    async def run(self, seconds: float) -> str:
        """Sample for `seconds` or until `stop`. Raises Busy."""
        if self._ended is not None:
            raise Busy
        self._ended = asyncio.Event()
        samples: Counter[str] = Counter()

        def sample(_number: int, frame: FrameType | None) -> None:
            samples[collapse(frame)] += 1
            signal.setitimer(signal.ITIMER_REAL, random.uniform(*_INTERVAL_S))

        signal.signal(signal.SIGALRM, sample)
        signal.siginterrupt(signal.SIGALRM, False)
        signal.setitimer(signal.ITIMER_REAL, _INTERVAL_S[0])
        try:
            async with asyncio.timeout(min(seconds, SECONDS_MAX)):
                await self._ended.wait()
        except TimeoutError:
            return report(samples)
        finally:  # even when the client has disconnected
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_IGN)  # not SIG_DFL: a late signal would end the process
            self._ended = None
        return report(samples)

    def stop(self) -> None:
        """End a profile that is running."""
        if self._ended is not None:
            self._ended.set()
