"""Threads beside the event loop, for Kafka clients and other calls that block.

    event loop                              daemon thread
    LoopThread.start() -------------------> run()
    function(*args) <---------------------- call_soon(function, *args)      does not wait
    function(*args) <---------------------- call(function, *args)           waits for the result, at most LOOP_S
    crashed(problem) <--------------------- an exception of run()
    stop(limit_s): sets `stopping` -------> run() returns

    await call_in_thread(function, ...) --> function()                      one call, with a time limit

All threads are daemons. The event loop's own thread pool is joined when the process exits, so a call to a Kafka that
does not answer would delay every stop. A thread cannot be cancelled either: after a time limit it is left behind.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

LOOP_S = 30.0  #: an event loop that does not answer in this time is considered dead


def call_soon(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *args: object) -> None:
    """Call `function(*args)` on the loop, from any thread, without waiting for it. A loop that was closed meanwhile
    needs no call: a thread that is left behind at the end of a process may still try."""
    try:
        loop.call_soon_threadsafe(function, *args)
    except RuntimeError:
        if not loop.is_closed():
            raise


class LoopThread:
    """One daemon thread, and its calls into the event loop that made it."""

    def __init__(self, run: Callable[[], None], name: str, crashed: Callable[[BaseException], None]) -> None:
        """Make it on the event loop. `run` returns soon after `stopping` is set. `crashed` is called on the loop with
        the exception that ended `run`, and must end the process, which would otherwise go on without this part."""
        self._run, self._crashed = run, crashed
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = asyncio.Event()
        self.stopping = threading.Event()

    # -- event loop

    def start(self) -> None:
        """Start the thread. Returns at once."""
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._guarded, name=self._name, daemon=True).start()

    @property
    def started(self) -> bool:
        """Whether `start` was called."""
        return self._loop is not None

    async def stop(self, limit_s: float) -> bool:
        """Have `run` return, and wait for that. False: it did not return within the limit and is left behind."""
        self.stopping.set()
        if self.started:
            try:
                async with asyncio.timeout(limit_s):
                    await self._ended.wait()
            except TimeoutError:
                return False
        return True

    # -- thread

    def call_soon(self, function: Callable[..., object], *args: object) -> None:
        """Call `function(*args)` on the loop, without waiting for it."""
        assert self._loop is not None
        call_soon(self._loop, function, *args)

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Call `function(*args)` on the loop and return its result. Raises TimeoutError after LOOP_S."""

        async def run() -> T:
            return function(*args)

        return self.begin(run()).result(LOOP_S)

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine on the loop."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _guarded(self) -> None:
        try:
            self._run()
        except Exception as problem:  # passed to `crashed`, which ends the process
            self.call_soon(self._crashed, problem)
        self.call_soon(self._ended.set)


async def call_in_thread(function: Callable[[], T], limit_s: float, name: str) -> T:
    """Returns the function's result, or its exception, from a thread of its own. Raises TimeoutError after `limit_s`:
    then the call goes on, and its result is dropped."""
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
            call_soon(loop, settle, None, problem)
        else:
            call_soon(loop, settle, result, None)

    threading.Thread(target=run, name=name, daemon=True).start()
    async with asyncio.timeout(limit_s):
        return await future
