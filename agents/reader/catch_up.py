"""Reads again what members have missed because they began further behind, or held too much for a while.

    turn: the member that has waited longest -> assign its partition at its position -> ranges, until it has caught up,
          may hold no more, or a second is over; every other member that a range covers takes it too

One client for all members of a topic, without a group. It exists only while a member is behind.
"""

from __future__ import annotations

import time
from enum import Enum
from typing import Any, Protocol

import structlog
from confluent_kafka import Consumer, KafkaException, TopicPartition

from agents.config import DeliveryConfig
from agents.offsets.offset_tracker import OffsetTracker
from agents.offsets.partition import PartitionState
from agents.reader.decode import decode
from agents.reader.ranges import Range
from agents.reader.settings import consumer_settings
from agents.timing import FULL_S, LATE_S, LOOK_S, MOMENT_S, REST_S, RETRY_S, SELDOM_S
from knative.backoff import doubling_s
from tables.kafka.loop_thread import LoopThread
from tables.timing import CLOSE_S

log = structlog.get_logger(__name__)

_IDLE_S = 10.0  # without a turn for this long, the client is closed
_BATCH = 500
_FETCH_BYTES = 1_048_576


class Taken(Enum):
    """What a member has done with what it was offered in its turn."""

    ALL = "it has taken all, and is still behind"
    PART = "it could not hold all: offer it again"
    DONE = "it has caught up, or is gone"


class CatchUpPort(Protocol):
    """What it needs of the members. On the event loop."""

    def next_turn(self) -> tuple[int, int] | None:
        """Returns partition and position of a member that is behind and may hold more; None if there is none."""

    def take_missed(self, ranges: list[Range]) -> Taken:
        """Take what was read. The answer is about the member whose turn it is."""

    def skip(self, number: int, low: int) -> None:
        """The log begins at `low`."""

    @property
    def any_behind(self) -> bool:
        """Whether a member is behind, and not halted."""

    def fatal(self, problem: BaseException) -> None:
        """The thread cannot continue."""


class CatchUp:
    """The thread and the client. Event loop only, except for the thread."""

    def __init__(self, topic: str, client_name: str, config: DeliveryConfig, owner: CatchUpPort) -> None:
        self._topic = topic
        self._client_name = f"{client_name}-catch-up"
        self._config = config
        self._owner = owner
        self._thread: LoopThread | None = None
        self._name = f"catch-up-{topic}"

    def wake(self) -> None:
        """A member is behind."""
        if self._thread is None:
            # As an argument: `stop` may set `_thread` to None before the first line of `_run`.
            self._thread = thread = LoopThread(lambda: self._run(thread), self._name, self._owner.fatal)
            thread.start()

    async def stop(self) -> None:
        """End the thread."""
        thread, self._thread = self._thread, None
        if thread is not None and not await thread.stop(CLOSE_S):
            log.error("the catch-up consumer did not stop in time", topic=self._topic)

    # -- thread

    def _run(self, thread: LoopThread) -> None:
        waits_s = doubling_s(*RETRY_S)
        while not thread.stopping.is_set():
            consumer = Consumer(self._settings())
            try:
                self._serve(consumer, thread)
                return
            except KafkaException as problem:
                log.warning("the catch-up consumer failed; it starts again", topic=self._topic, reason=str(problem))
                thread.stopping.wait(next(waits_s))
            finally:
                consumer.close()

    def _settings(self) -> dict[str, Any]:
        settings = consumer_settings(self._config, self._client_name, self._client_name, None)
        return {
            **{name: value for name, value in settings.items() if name != "group.instance.id"},
            "queued.max.messages.kbytes": min(settings["queued.max.messages.kbytes"], _FETCH_BYTES // 1024),
        }

    def _serve(self, consumer: Consumer, thread: LoopThread) -> None:
        """Take turns, until none is needed or the thread is stopped."""
        idle_since = time.monotonic()
        while not thread.stopping.is_set():
            turn = thread.call(self._owner.next_turn)
            if turn is not None:
                self._turn(consumer, thread, *turn)
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since > _IDLE_S and thread.call(self._ended, thread):
                return
            else:
                thread.stopping.wait(LATE_S)

    def _ended(self, thread: LoopThread) -> bool:
        """Runs on the event loop, so that no `wake` comes between the look and the end."""
        if self._owner.any_behind:
            return False
        if self._thread is thread:
            self._thread = None
        return True

    def _turn(self, consumer: Consumer, thread: LoopThread, number: int, position: int) -> None:
        head = PartitionState(self._topic, number, OffsetTracker(position))
        consumer.assign([TopicPartition(self._topic, number, position)])
        began = heard = time.monotonic()
        more = True
        while more and not thread.stopping.is_set():
            messages = consumer.consume(_BATCH, REST_S)
            now = time.monotonic()
            if messages:
                heard = now
                # What is left of an earlier turn belongs to other positions.
                mine = [message for message in messages if message.partition() == number or message.partition() is None]
                decoded = decode(mine, {number: head})
                if decoded.out_of_range:
                    self._out_of_range(consumer, thread, number, head.tracker.fetched)
                    break
                for error in decoded.errors:
                    raise KafkaException(error)
                more = self._offer(thread, decoded.ranges, began + LOOK_S)
            elif now - heard > SELDOM_S:
                break
        consumer.unassign()

    def _offer(self, thread: LoopThread, ranges: list[Range], until: float) -> bool:
        """Offer what was read until the member has it all. Returns whether it is still behind and has time left."""
        patience = min(until, time.monotonic() + FULL_S)
        while (taken := thread.call(self._owner.take_missed, ranges)) is Taken.PART and time.monotonic() < patience:
            if thread.stopping.wait(MOMENT_S):
                return False
        return taken is Taken.ALL and time.monotonic() < until

    def _out_of_range(self, consumer: Consumer, thread: LoopThread, number: int, at: int) -> None:
        low, _ = consumer.get_watermark_offsets(TopicPartition(self._topic, number), timeout=10)
        if at < low:
            thread.call(self._owner.skip, number, low)
