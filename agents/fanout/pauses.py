"""Slows the shared consumer down while no member takes more: it waits, then pauses partitions.

One member that can take more is enough to go on: the others get what they miss from `agents/fanout/catch_up`. Waiting
comes first, because pausing drops what the client has fetched ahead.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Protocol

from confluent_kafka import Consumer, TopicPartition

from agents.ordering.partition import PartitionState

_CHECK_EVERY_S = 0.05  # between two looks at what members can take
_FULL_S = 0.2  # how long it waits without polling
_WAIT_S = 0.005
_AHEAD_MAX = 8  # batches handed over that the members have not taken yet


class CanTake(Protocol):
    """Whether a member that follows the shared consumer in this partition can take more. `resume`: after a
    pause."""

    def __call__(self, number: int, *, resume: bool) -> bool: ...


class Pauses:
    """The consumer's thread only, except `taken`. Call `begin` for each new client."""

    def __init__(self, topic: str, can_take: CanTake, stop: threading.Event) -> None:
        """`stop` ends a wait early."""
        self._topic = topic
        self._can_take = can_take
        self._stop = stop
        self._handed = self._taken = 0
        self.begin()

    def begin(self) -> None:
        """Start with a new client: nothing is paused."""
        self.paused: set[int] = set()
        self._check_at = 0.0

    def handed(self) -> None:
        """A batch was handed to the event loop."""
        self._handed += 1

    def taken(self) -> None:
        """The members have what they take of a batch. Event loop only."""
        self._taken += 1

    def throttle(self, consumer: Consumer, heads: Mapping[int, PartitionState], now: float) -> bool:
        """Wait, pause and resume. True while a partition is paused: poll often then, so that it is resumed soon."""
        until = now + _FULL_S
        while self._handed - self._taken >= _AHEAD_MAX and time.monotonic() < until and not self._stop.wait(_WAIT_S):
            pass
        if now < self._check_at and not self.paused:
            return False
        self._check_at = now + _CHECK_EVERY_S
        can_take = self._can_take
        for number in [number for number in self.paused if number in heads]:
            if not heads[number].failure and can_take(number, resume=True):
                self.resume(consumer, number)
        running = [number for number in heads if number not in self.paused]
        full = [number for number in running if not can_take(number, resume=False)]
        while full and len(full) == len(running) and time.monotonic() < until and not self._stop.wait(_WAIT_S):
            full = [number for number in full if not can_take(number, resume=False)]
        for number in full:
            self.pause(consumer, number)
        return bool(self.paused)

    def pause(self, consumer: Consumer, number: int) -> None:
        """Fetch no more of this partition."""
        self.paused.add(number)
        consumer.pause([TopicPartition(self._topic, number)])

    def resume(self, consumer: Consumer, number: int) -> None:
        """Fetch it again. Also before a partition goes: the client keeps a pause over all later assignments."""
        self.paused.discard(number)
        consumer.resume([TopicPartition(self._topic, number)])
