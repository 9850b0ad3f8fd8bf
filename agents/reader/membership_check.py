"""Asks Kafka whether a consumer is still a member of its group, by a commit of its own position.

Kafka accepts a commit only from a member of the present generation, and only another member can own its partitions.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from agents.offsets.partition import PartitionState
from tables.clock import now_s
from tables.timing import AGAIN_S, SPARING_S

log = structlog.get_logger(__name__)

_TRIES = 3  # of a question whose answer is waited for


def positions(heads: Iterable[PartitionState]) -> dict[int, int]:
    """Returns partition -> the offset that is read next."""
    return {head.number: head.tracker.fetched for head in heads}


class MembershipCheck:
    """For one client. Its own thread only."""

    def __init__(self, topic: str, requested: threading.Event, confirmed: Callable[[float], None]) -> None:
        """`requested`: any thread sets it to have Kafka asked soon; the next client shares it. `confirmed`: called with
        the time, of `now_s`, at which Kafka was asked."""
        self._topic = topic
        self._confirmed = confirmed
        self._requested = requested
        self._asked = self._not_before = 0.0  # when the question under way was sent (0 = none)

    @property
    def under_way(self) -> bool:
        """Kafka was asked, and has not answered."""
        return bool(self._asked)

    @property
    def pending(self) -> bool:
        """It is requested or under way, so the thread should poll often."""
        return self._requested.is_set() or self.under_way

    def ask(self, consumer: Consumer, heads: Mapping[int, PartitionState]) -> None:
        """Ask if it is requested; the answer comes to `answered`."""
        now = now_s()
        if not (self._requested.is_set() and heads) or self._asked or now < self._not_before:
            return
        self._requested.clear()
        self._asked, self._not_before = now, now + SPARING_S
        try:
            consumer.commit(offsets=self._places(positions(heads.values())), asynchronous=True)
        except KafkaException as problem:
            self._refused(problem.args[0])

    def answered(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        """Called by the client."""
        asked, self._asked = self._asked, 0.0
        problem = error or next((partition.error for partition in partitions if partition.error is not None), None)
        if problem is None:
            self._confirmed(asked)
        else:
            self._refused(problem)

    def ask_now(self, consumer: Consumer, places: Mapping[int, int]) -> bool:
        """Ask and wait for the answer, inside a callback too. `places`: partition -> position, of any partition."""
        offsets, reason = self._places(places), ""
        for left in reversed(range(_TRIES)):
            asked = now_s()
            try:
                results = consumer.commit(offsets=offsets, asynchronous=False) or []
            except KafkaException as problem:
                reason = problem.args[0].str()
            else:
                refused = [(result.partition, result.error) for result in results if result.error is not None]
                if not refused:
                    self._confirmed(asked)
                    return True
                reason = "; ".join(f"{number}: {error.str()}" for number, error in refused)
            if left:
                time.sleep(AGAIN_S)
        log.warning("Kafka does not confirm the assignment", topic=self._topic, reason=reason)
        return False

    def _places(self, places: Mapping[int, int]) -> list[TopicPartition]:
        return [TopicPartition(self._topic, number, position) for number, position in places.items()]

    def _refused(self, error: KafkaError) -> None:
        log.debug("Kafka does not confirm the assignment; the worker asks again", topic=self._topic, reason=error.str())
        self._asked = 0.0
        self._requested.set()
