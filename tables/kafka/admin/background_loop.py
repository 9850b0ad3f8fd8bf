"""One event loop in a thread of the process, for clients of asyncio that are used by code that blocks."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_LOCK = threading.Lock()


def background_loop() -> asyncio.AbstractEventLoop:
    """Returns the loop, which starts with the first call and ends with the process."""
    with _LOCK:
        return _start()


@functools.cache
def _start() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="background-loop", daemon=True).start()
    return loop


def run_in_background_loop(work: Coroutine[Any, Any, T], limit_s: float) -> T:
    """Returns the result of a coroutine, or its exception. Raises TimeoutError after `limit_s`, and cancels it."""
    future = asyncio.run_coroutine_threadsafe(work, background_loop())
    try:
        return future.result(limit_s)
    except TimeoutError:
        future.cancel()
        raise
