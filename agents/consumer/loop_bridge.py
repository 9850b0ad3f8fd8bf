"""Calls from a consumer's thread into the event loop that wait for the result, each with a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

LOOP_S = 30.0  #: the event loop answers within this, or the process is beyond help


class LoopBridge:
    """For one event loop; every method is for other threads than the loop's."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """The result of `function(*args)`, called on the loop. Raises TimeoutError after LOOP_S."""

        async def run() -> T:
            return function(*args)

        return self.begin(run()).result(LOOP_S)

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start `work` on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def notify(self, function: Callable[..., object], *args: Any) -> None:
        """Call `function(*args)` on the loop soon; does not wait."""
        self._loop.call_soon_threadsafe(function, *args)
