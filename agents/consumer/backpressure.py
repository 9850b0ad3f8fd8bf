"""How fast a feed takes records: it waits while too much is held, and pauses partitions that keep the others waiting.

Looking is dear. For each look, and for each call to the client, the event loop has to hand over the interpreter, and
while the thread waits for it every event costs the loop a system call more: so it is looked at after many bytes or
some time, and slept through what the subscriber will need. Refuses to decide who is paused:
`agents/consumer/memory_budget` does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection

from confluent_kafka import Consumer, TopicPartition

from agents.consumer.memory_budget import MemoryBudget
from agents.ordering.partition import PartitionState

_BATCHES_AHEAD = 48  # handed over and not yet taken by the agent; its channel holds 64
_LOOK_S = 0.1  # at least so often it is looked at who holds how much
_LOOK_PART = 16  # and after so small a part of the budget
_AGAIN_S = 0.005  # at least between two looks when all is full
_FULL_S = 0.2  # how long everything may be full before partitions are paused and polling goes on


class Backpressure:
    """Of one feed; used by its thread only, but for `batches_enqueued`. One consumer after the other: `begin` for
    each."""

    def __init__(
        self,
        bytes_max: int,
        stop: threading.Event,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`bytes_max`: of all partitions together. `stop` ends waiting soon. Tests hand in a clock of their own."""
        self._bytes_max = bytes_max
        self._stop = stop
        self._monotonic, self._sleep = monotonic, sleep
        self._handed = self._taken = 0
        self.begin()

    def begin(self) -> None:
        """A fresh consumer: nothing is held or paused."""
        self.budget = MemoryBudget(self._bytes_max)
        self._unseen_bytes = 0  # handed over since the last look
        self._look_at = 0.0

    def handed(self, size: int) -> None:
        """Some batches of `size` bytes together were handed to the event loop."""
        self._handed += 1
        self._unseen_bytes += size

    def batches_enqueued(self) -> None:
        """The batches of one `handed` are in the lanes; on the event loop."""
        self._taken += 1

    @property
    def all_enqueued(self) -> bool:
        """Nothing is on its way to the lanes."""
        return self._taken == self._handed

    def throttle(self, consumer: Consumer, partitions: Collection[PartitionState]) -> bool:
        """Wait while too much is held, pause and resume; True while partitions are paused, which want to be looked at
        often."""
        budget, now = self.budget, self._monotonic()
        if self._unseen_bytes < self._bytes_max // _LOOK_PART and now < self._look_at and not budget.paused:
            return False
        self._unseen_bytes, self._look_at = 0, now + _LOOK_S
        full = budget.is_full(partitions) or self._ahead()
        in_time = self._wait(partitions) if full else True
        pause = budget.to_pause(partitions, self._monotonic(), in_time)
        if pause:
            consumer.pause([TopicPartition(p.topic, p.number) for p in pause])
        resume = budget.to_resume(partitions)
        if resume:
            consumer.resume([TopicPartition(p.topic, p.number) for p in resume])
        return bool(budget.paused)

    def forget(self, consumer: Consumer, partition: PartitionState) -> None:
        """The partition goes, or is assigned anew. It is resumed while it is still there: the client would keep it
        paused over all assignments to come, and nobody would know."""
        consumer.resume([TopicPartition(partition.topic, partition.number)])
        self.budget.forget(partition.number)

    def _ahead(self) -> bool:
        return self._handed - self._taken >= _BATCHES_AHEAD

    def _wait(self, partitions: Collection[PartitionState]) -> bool:
        """False when there is no room after a while. Sleeps for as long as settling the rest will take at the rate
        seen."""
        budget = self.budget
        began = now = self._monotonic()
        first = budget.surplus(partitions)
        wait_s = _AGAIN_S
        while now - began < _FULL_S and not self._stop.is_set():
            self._sleep(wait_s)
            now = self._monotonic()
            surplus = budget.surplus(partitions)
            if surplus <= 0 and not self._ahead():
                return True
            gone = first - surplus
            wait_s = (now - began) * surplus / gone if gone > 0 else 2 * wait_s
            wait_s = min(max(wait_s, _AGAIN_S), max(began + _FULL_S - now, 0.0))
        return False
