"""Runs a blocking call outside the event loop, with a time limit, in a daemon thread.

The event loop's own thread pool is joined at exit, so a call to a Kafka that does not answer would delay every stop.
A thread cannot be cancelled: after the time limit the call goes on and its result is dropped.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def call_in_thread(function: Callable[[], T], limit_s: float, name: str) -> T:
    """The function's result, or its exception. Raises TimeoutError after `limit_s`."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, problem: BaseException | None) -> None:
        if future.done():
            return
        if problem is None:
            future.set_result(result)  # type: ignore[arg-type]  # without a problem, None is a valid T
        else:
            future.set_exception(problem)

    def run() -> None:
        try:
            result = function()
        except Exception as problem:
            _call_soon(loop, settle, None, problem)
        else:
            _call_soon(loop, settle, result, None)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await asyncio.wait_for(future, limit_s)


def _call_soon(loop: asyncio.AbstractEventLoop, settle: Callable[..., None], *args: object) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(settle, *args)
