"""Servers inside a test, each in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from socketserver import BaseServer
from typing import Any, TypeVar

S = TypeVar("S", bound=BaseServer)
T = TypeVar("T")
_LIMIT_S = 180.0
_POLL_S = 0.05


class LoopThread:
    """An event loop in a thread. `stop` cancels what still runs there."""

    def __init__(self, name: str, new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop) -> None:
        self._stop, self._running = asyncio.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, args=(new_loop,), name=name, daemon=True)
        self._thread.start()
        assert self._running.wait(_LIMIT_S), f"thread {name} did not start"

    def _run(self, new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            self.loop = runner.get_loop()
            self._running.set()
            runner.run(self._stop.wait())

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine, from any other thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(_LIMIT_S)

    def stop(self) -> None:
        """End the thread."""
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_LIMIT_S)
        assert not self._thread.is_alive(), f"thread {self._thread.name} did not stop"


@contextmanager
def serving(server: S) -> Iterator[S]:
    """A server of the standard library, which is closed at the end."""
    thread = threading.Thread(target=server.serve_forever, args=(_POLL_S,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
