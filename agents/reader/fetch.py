"""Fetches records from a librdkafka client with as few calls as possible: each call costs as much as a record."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import Consumer, Message

_BATCH = 1000
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
        # Of a lone record too. The client also says where its partition ends: by itself, that would be one more turn of
        # the thread, which contends with the event loop for the interpreter.
        rest = consumer.consume(_BATCH - 1, 0)
        self._much = len(rest) >= _MUCH
        # A rebalance inside consume() may have revoked its partition: then the next owner reads this record.
        moved = self._owner(number) is not owner
        return rest if moved else [first, *rest]
