"""A blocking call away from the event loop, with a limit, in a thread that cannot hold the process up at its end.

The loop's own pool is joined at exit: a call to a Kafka that does not answer would delay every stop. Refuses to cancel
what cannot be cancelled: after its limit a call runs on unheard.
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
            future.set_result(result)  # type: ignore[arg-type]  # None is a T where no problem is
        else:
            future.set_exception(problem)

    def run() -> None:
        try:
            result = function()
        except Exception as problem:
            _tell(loop, settle, None, problem)
        else:
            _tell(loop, settle, result, None)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await asyncio.wait_for(future, limit_s)


def _tell(loop: asyncio.AbstractEventLoop, settle: Callable[..., None], *args: object) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(settle, *args)
