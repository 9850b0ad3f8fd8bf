"""A log filter against floods: passes one line of each kind in 30 s, with the number of lines dropped before it.

librdkafka logs every failed connection of every client to every broker: one minute without Kafka would cause thousands
of lines.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

_EVERY_S = 30.0
_KINDS_MAX = 100


class Repeats(logging.Filter):
    """A log filter. The logger's first argument must be the kind of line, such as librdkafka's facility."""

    def __init__(self, every_s: float = _EVERY_S, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._every_s, self._clock = every_s, clock
        self._seen: dict[str, tuple[float, int]] = {}  # kind -> when one passed, how many were dropped since

    def filter(self, record: logging.LogRecord) -> bool:
        """Returns whether the line passes."""
        kind = str(record.args[0]) if isinstance(record.args, tuple) and record.args else record.msg
        now = self._clock()
        at, held = self._seen.get(kind, (-self._every_s, 0))
        if now - at < self._every_s:
            self._seen[kind] = (at, held + 1)
            return False
        if len(self._seen) >= _KINDS_MAX:
            self._seen.clear()
        self._seen[kind] = (now, 0)
        if held:
            record.msg = f"{record.getMessage()} ({held} more like it before)"
            record.args = None
        return True
