"""Ctrl-C while Spark works: one KeyboardInterrupt, instead of PySpark's and py4j's own reactions.

PySpark's signal handler calls the JVM from within the signal, on a connection that already waits for another answer.
The result is a Py4JError of several pages, or nothing. The handler here makes no calls.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any


class Interrupts:
    """`with Interrupts() as interrupts:` SIGINT raises KeyboardInterrupt in the main thread and sets `heard`.

    A process that ignored SIGINT before continues to ignore it.
    """

    def __init__(self) -> None:
        self.heard = False
        self._before: Any = None
        self._mine = False
        self._may_raise: Callable[[FrameType | None], bool] | None = None

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.getsignal(signal.SIGINT)
            self._mine = True
            self.set_again()
        return self

    def set_again(self) -> None:
        """Install the handler again. Call this after PySpark has set its own, which it does with every context."""
        if self._mine:
            ignored = self._before is signal.SIG_IGN
            signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else self._hear)

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._mine and self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    @contextlib.contextmanager
    def only_where(self, may_raise: Callable[[FrameType | None], bool]) -> Iterator[None]:
        """Inside, SIGINT raises only where `may_raise(frame)` is true; otherwise it raises at the end of the block."""
        self._may_raise = may_raise
        try:
            yield
        finally:
            self._may_raise = None
        if self.heard:
            raise KeyboardInterrupt

    def _hear(self, _number: int, frame: FrameType | None) -> None:
        self.heard = True
        if self._may_raise is None or self._may_raise(frame):
            raise KeyboardInterrupt
