"""Fetches records from a librdkafka client with as few calls as possible: each call costs as much as a record."""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import Consumer, Message

_BATCH = 1000
_ALONE_S = 0.0015  # after a gap this long a record is taken alone: a call for more would cost as much as the record
_MUCH = 100  # after a call with this many records, more are probably ready


class Fetcher:
    """The calls for records of one consumer. Its thread only. Call `begin` for each new client."""

    def __init__(self, owner: Callable[[int | None], object]) -> None:
        """`owner(number)`: what stands for the assignment of a partition; another object after it was revoked and
        assigned again. Asked with None for an error of the client."""
        self._owner = owner
        self.begin()

    def begin(self) -> None:
        """Start with a new client."""
        self._much = False  # the last call returned many records, so more are probably ready
        self._last = 0.0  # when the last single record came

    def fetch(self, consumer: Consumer, wait_s: float) -> list[Message]:
        """Return the records that are ready, or arrive within `wait_s`."""
        if self._much:
            ready = consumer.consume(_BATCH, 0)
            self._much = len(ready) >= _MUCH
            if ready:
                return ready
        first = consumer.poll(wait_s)
        if first is None:
            return []
        number = first.partition()
        owner = self._owner(number)
        now = time.monotonic()
        rest = consumer.consume(_BATCH - 1, 0) if now - self._last < _ALONE_S else []
        self._last, self._much = now, len(rest) >= _MUCH
        # A rebalance inside consume() may have revoked its partition: then the next owner reads this record.
        moved = self._owner(number) is not owner
        return rest if moved else [first, *rest]
