"""Calls from a consumer's thread into the event loop, with a time limit on each result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

LOOP_S = 30.0  #: an event loop that does not answer in this time is considered dead


class LoopBridge:
    """Calls into one event loop. Do not call its methods from the loop's own thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Call `function(*args)` on the loop and return its result. Raises TimeoutError after LOOP_S."""

        async def run() -> T:
            return function(*args)

        return self.begin(run()).result(LOOP_S)

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start `work` on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def notify(self, function: Callable[..., object], *args: Any) -> None:
        """Call `function(*args)` on the loop soon, without waiting for it."""
        self._loop.call_soon_threadsafe(function, *args)
