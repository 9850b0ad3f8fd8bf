"""Where the partitions end, as far as the Kafka client knows: what lag is counted against.

The client hears the end with every fetch, so looking costs nothing. It hears nothing while it does not fetch: while a
partition is paused or the client's queue is full, which is when lag is of interest; then, and only then, the broker is
asked, now and then and briefly. Refuses to fail: an end that cannot be had stays as it was.

A log may end in offsets that are no records: markers of transactions, and what was aborted. The client reads over them
in silence, and says only that it has reached the end.
"""

from __future__ import annotations

from collections.abc import Collection

from confluent_kafka import Consumer, KafkaException, TopicPartition

from agents.ordering.partition import PartitionState

REFRESH_S = 1.0
_ASK_S = 5.0
_ASK_LIMIT_S = 0.5


def read_to_end(partitions: Collection[PartitionState]) -> list[PartitionState]:
    """Those that were read to an end beyond their newest record: what lies between is no record. Ask when every record
    that was handed over is in its lane."""
    return [p for p in partitions if p.reached > p.tracker.fetched and not p.failure]


def skip_to_end(partition: PartitionState) -> None:
    """On the event loop: the committed offset may move to the end that was reached, once all below is settled. What
    was handed over to a partition that is closed has been dropped, and is not settled."""
    if partition.open and partition.reached > partition.tracker.fetched:
        partition.tracker.skip_to(partition.reached)


class LogEndOffsets:
    """One consumer's partitions; used by its thread only."""

    def __init__(self) -> None:
        self._look_at = self._ask_at = 0.0

    def refresh(self, consumer: Consumer, partitions: Collection[PartitionState], now: float) -> None:
        """Bring `PartitionState.log_end_offset` up to date when it is time to; `now`: monotonic seconds."""
        if now < self._look_at:
            return
        self._look_at = now + REFRESH_S
        still = []
        for partition in partitions:
            before = partition.log_end_offset
            self._read_cached(consumer, partition)
            if partition.log_end_offset == before and partition.tracker.fetched < before:
                still.append(partition)
        if still and now >= self._ask_at:
            self._ask_at = now + _ASK_S
            self._query(consumer, still)

    @staticmethod
    def _read_cached(consumer: Consumer, partition: PartitionState) -> None:
        where = TopicPartition(partition.topic, partition.number)
        try:
            found = consumer.get_watermark_offsets(where, cached=True)
        except KafkaException:
            return
        if found is not None:
            partition.log_end_offset = max(partition.log_end_offset, found[1])

    @staticmethod
    def _query(consumer: Consumer, partitions: list[PartitionState]) -> None:
        for partition in partitions:
            where = TopicPartition(partition.topic, partition.number)
            try:
                found = consumer.get_watermark_offsets(where, timeout=_ASK_LIMIT_S)
            except KafkaException:
                return  # the others would not answer either
            if found is not None:
                partition.log_end_offset = max(partition.log_end_offset, found[1])
