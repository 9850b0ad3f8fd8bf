"""Publishes the traffic deltas of this process once a second: one record for each channel or subscription, type and
source.

    TrafficCounters --take--> deltas --> waiting, bounded --Produce--> topic <instance>.traffic
                                            ^                  | not stored, or not known
                                            +------------------+

A delta that Kafka may have stored is sent again with the same number, by which readers recognize it. The data plane
never waits for this: deltas that cannot be kept are counted as lost, and errors are logged.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

import structlog

from app.timing import LONGEST_WAIT_S, LOOK_S
from knative.backoff import doubling_s
from knative.ports import Clock, Produce, ProduceFailure, ProduceProblem
from knative.traffic.counters import TrafficCounters
from knative.traffic.delta import encode, key_of
from tables.kafka.errors import KafkaFailed

log = structlog.get_logger(__name__)

#: Deltas that wait for Kafka, some 5 MB; the oldest ones are dropped first.
WAITING_MAX = 10_000
_AGAIN = frozenset({ProduceProblem.FULL, ProduceProblem.UNAVAILABLE})

_Waiting = tuple[bytes, bytes]


def _nothing() -> None:
    """The topic exists already."""


class TrafficFlush:
    """Runs from `start` to `stop`. Event loop only."""

    def __init__(
        self,
        topic: str,
        counters: TrafficCounters,
        produce: Produce,
        clock: Clock,
        count: Callable[[str], None],
        make_topic: Callable[[], None] = _nothing,
    ) -> None:
        """`count` gets "stored" or "lost" for each delta. `make_topic` is called in a thread before anything is sent;
        it may block, and is called again when it raises KafkaFailed."""
        self._topic = topic
        self._make_topic = make_topic
        self._there = False
        self._counters = counters
        self._produce = produce
        self._clock = clock
        self._count = count
        self._waiting: deque[_Waiting] = deque()
        self._since = int(clock.time())
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the task. Returns at once."""
        self._since = int(self._clock.time())
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Send the deltas of the last second. The producer's own stop waits until they are stored."""
        if self._task is not None:
            self._task.cancel()
        self._try_flush()

    async def _run(self) -> None:
        making = asyncio.create_task(self._make())
        try:
            await self._every_second()
        finally:
            making.cancel()

    async def _make(self) -> None:
        waits_s = doubling_s(LOOK_S, LONGEST_WAIT_S)
        while not self._there:
            try:
                await asyncio.to_thread(self._make_topic)
                self._there = True
            except KafkaFailed as problem:
                wait_s = next(waits_s)
                log.info("the traffic topic cannot be created yet", reason=str(problem), again_in_s=wait_s)
                await asyncio.sleep(wait_s)

    async def _every_second(self) -> None:
        while True:
            await asyncio.sleep(1.0 - self._clock.time() % 1.0)  # a delta is about one second of the clock
            self._try_flush()

    def _try_flush(self) -> None:
        try:
            self.flush()
        except Exception as problem:  # statistics only: events go on
            log.error("traffic could not be published", exc_info=problem)

    def flush(self) -> None:
        """Send the deltas since the last call and those that wait. While Kafka is unreachable they wait."""
        now = int(self._clock.time())
        for delta in self._counters.take(self._since):
            self._wait(key_of(delta), encode(delta))
        self._since = now
        if not (self._produce.connected and self._there):
            return
        for _ in range(len(self._waiting)):
            key, value = self._waiting.popleft()
            self._produce.send(self._topic, value, key, [], partial(self._sent, key, value))

    def _wait(self, key: bytes, value: bytes) -> None:
        self._waiting.append((key, value))
        if len(self._waiting) > WAITING_MAX:
            self._waiting.popleft()
            self._count("lost")

    def _sent(self, key: bytes, value: bytes, failure: ProduceFailure | None) -> None:
        if failure is None:
            self._count("stored")
        elif failure.problem in _AGAIN:
            self._wait(key, value)
        else:
            log.debug("a traffic delta was not stored", reason=failure.message)
            self._count("lost")
