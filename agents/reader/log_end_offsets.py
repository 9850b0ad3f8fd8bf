"""Keeps the log end offset of each partition up to date; lag is counted against it.

Every fetch brings the log end offset, so reading the cached one costs nothing. It gets old while the client does not
fetch: a partition is paused, or the client's queue is full. That is when lag matters, so only then the broker is asked,
with a short timeout and not often. When it does not answer, the last known offset stays.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from agents.offsets.partition import PartitionState
from agents.timing import LOOK_S, SELDOM_S
from tables.timing import SPARING_S


class LogEndOffsets:
    """Log end offsets of one consumer's partitions. Consumer's thread only."""

    def __init__(self) -> None:
        self._refresh_at = self._ask_at = 0.0

    def refresh(self, consumer: Consumer, partitions: Collection[PartitionState], now: float) -> bool:
        """Update `PartitionState.log_end_offset`, once per LOOK_S. `now`: monotonic seconds. False: not yet."""
        if now < self._refresh_at:
            return False
        self._refresh_at = now + LOOK_S
        unchanged = []
        for partition in partitions:
            before = partition.log_end_offset
            with suppress(KafkaException):
                _read(consumer, partition, cached=True)
            # The same end and not all of it read: probably the client is not fetching, and the cached end is old.
            if partition.log_end_offset == before and partition.tracker.fetched < before:
                unchanged.append(partition)
        if unchanged and now >= self._ask_at:
            self._ask_at = now + SELDOM_S
            with suppress(KafkaException):  # no need to wait for the timeout of each partition
                for partition in unchanged:
                    _read(consumer, partition, timeout=SPARING_S)
        return True


def _read(consumer: Consumer, partition: PartitionState, **how: Any) -> None:
    bounds = consumer.get_watermark_offsets(TopicPartition(partition.topic, partition.number), **how)
    if bounds is not None:
        partition.log_end_offset = max(partition.log_end_offset, bounds[1])
