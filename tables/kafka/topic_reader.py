"""Reads records of a topic for commands and the demo: from the beginning, the last ones, or new ones as they come.

It joins no consumer group and commits nothing, so it does not affect any consumer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from knative.cloudevents.record_headers import record_headers
from knative.errors import NotReadyError, PenstockError
from tables.kafka.connection.probe import refusal
from tables.kafka.connection.refusals import Refusals
from tables.kafka.errors import KafkaNotYet, failed, unreachable
from tables.timing import AGAIN_S, ANSWER_S, POLL_S

BATCH = 500  #: records that a client hands over at once
_SILENT_S = 15.0  #: time without records or ends of partitions after which reading stored records fails
#: Errors for a topic that does not exist, or that the broker does not know yet.
_ABSENT = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.TOPIC_EXCEPTION})


class NoSuchTopicError(PenstockError):
    """There is no topic of this name."""


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """One record as it is stored in Kafka."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    value: bytes | None


class TopicReader:
    """Reads one topic. `kafka`: librdkafka client settings, `bootstrap.servers` among them. Close it, or use `with`."""

    def __init__(self, topic: str, kafka: Mapping[str, Any], limit_s: float = ANSWER_S) -> None:
        """`limit_s` is the time limit of each request to Kafka.

        Raises KafkaUnavailable when Kafka does not answer, NoSuchTopicError when there is no such topic,
        PenstockError when the topic cannot be read.
        """
        self.topic = topic
        self._limit_s = limit_s
        bootstrap = str(kafka["bootstrap.servers"])
        if refused := refusal(bootstrap):
            raise unreachable(bootstrap, refused)
        refusals = Refusals(kafka)
        self._consumer = Consumer(
            {
                "group.id": "penstock-reader",  # required by the client; joins no group, commits nothing
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "log_level": 0,
                **kafka,
                "error_cb": refusals.callback,
            }
        )
        try:
            self._ranges = self._look_up()
        except KafkaException as problem:
            unavailable = refusals.unreachable(self._consumer, problem)
            self.close()
            raise unavailable from problem
        except PenstockError:
            self.close()
            raise

    def __enter__(self) -> TopicReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()

    def _look_up(self) -> dict[int, tuple[int, int]]:
        """Returns partition -> (first offset, offset after the last)."""
        topic = self._consumer.list_topics(self.topic, timeout=self._limit_s).topics[self.topic]
        if topic.error is not None and topic.error.code() in _ABSENT:
            raise NoSuchTopicError(
                f"There is no topic {self.topic} ({topic.error.str()}).",
                "See `penstock status` for channels and their topics.",
            )
        if topic.error is not None:  # the topic may exist, for example without permission to read it
            raise PenstockError(f"The topic {self.topic} cannot be read ({topic.error.str()}).")
        return {number: self._range(TopicPartition(self.topic, number)) for number in sorted(topic.partitions)}

    def _range(self, partition: TopicPartition) -> tuple[int, int]:
        """Asks again while the leader changes, or does not yet know of a topic that was just created."""
        end = time.monotonic() + self._limit_s
        while True:
            try:
                low, high = self._consumer.get_watermark_offsets(partition, timeout=self._limit_s)
            except KafkaException as problem:
                if not isinstance(failed(partition.topic, problem), KafkaNotYet) or time.monotonic() > end:
                    raise
                time.sleep(AGAIN_S)
            else:
                return low, high

    @property
    def ranges(self) -> Mapping[int, tuple[int, int]]:
        """Partition -> (first offset, offset after the last), when this reader was made."""
        return self._ranges

    def stored(self, last: int | None = None) -> Iterator[StoredRecord]:
        """Yields records in the topic when this reader was created: all by partition, or the `last` ones by time."""
        if last is None:
            yield from self._until_end({number: low for number, (low, _) in self._ranges.items()})
            return
        records = sorted(self.newest(last), key=lambda record: (record.timestamp_ms, record.partition, record.offset))
        yield from records[-last:] if last else []

    def newest(self, last: int) -> Iterator[StoredRecord]:
        """Yields the records at the `last` offsets of each partition, when this reader was created; by partition."""
        yield from self.at_or_above({number: high - last for number, (_, high) in self._ranges.items()})

    def at_or_above(self, offsets: Mapping[int, int]) -> Iterator[StoredRecord]:
        """Yields records of these partitions in the topic when this reader was created, from these offsets on."""
        starts = {number: offset for number, offset in offsets.items() if number in self._ranges}
        yield from self._until_end({number: max(self._ranges[number][0], offset) for number, offset in starts.items()})

    def since(self, timestamp_ms: int) -> Iterator[StoredRecord]:
        """Yields records that were in the topic when this reader was created, from this time on in each partition."""
        yield from self._until_end(self._starts_at(timestamp_ms))

    def between(self, since_ms: int | None, until_ms: int | None) -> Iterator[StoredRecord]:
        """Yields records in the topic when this reader was created, with timestamps in [`since_ms`, `until_ms`).

        None = no limit on that side. Records far behind `until_ms` are not read.
        """
        starts = {number: low for number, (low, _) in self._ranges.items()}
        if since_ms is not None:
            starts = self._starts_at(since_ms)
        ends = {number: high for number, (_, high) in self._ranges.items()}
        if until_ms is not None:
            ends |= self._starts_at(until_ms)  # without partitions whose records are all older
        for record in self._until_end(starts, ends):
            if until_ms is None or record.timestamp_ms < until_ms:
                yield record

    def count_since(self, timestamp_ms: int) -> int:
        """Returns how many offsets there are from this time on. Reads no records."""
        return sum(high - low for low, high in self.ranges_since(timestamp_ms).values())

    def has_before(self, timestamp_ms: int) -> bool:
        """Returns whether there are offsets before this time. Reads no records."""
        later = self.ranges_since(timestamp_ms)
        return any(low < later.get(number, (high,))[0] for number, (low, high) in self._ranges.items())

    def ranges_since(self, timestamp_ms: int) -> dict[int, tuple[int, int]]:
        """Returns the same as `ranges`, from this time on, without partitions whose records are all older."""
        return {number: (offset, self._ranges[number][1]) for number, offset in self._starts_at(timestamp_ms).items()}

    def _starts_at(self, timestamp_ms: int) -> dict[int, int]:
        asked = [TopicPartition(self.topic, number, timestamp_ms) for number in self._ranges]
        try:
            starts = self._consumer.offsets_for_times(asked, timeout=self._limit_s)
        except KafkaException as problem:
            raise NotReadyError(f"Kafka did not look up a timestamp in {self.topic}.", "Try again.") from problem
        return {
            topic_partition.partition: topic_partition.offset
            for topic_partition in starts
            if topic_partition.offset >= 0
        }

    def at(self, partition: int, offset: int) -> StoredRecord | None:
        """Reads one record; None if this offset has no record."""
        low, high = self._ranges.get(partition, (0, 0))
        if not low <= offset < high:
            return None
        first = next(self._until_end({partition: offset}), None)
        return first if first is not None and first.offset == offset else None

    def coming(self, limit_s: float | None) -> Iterator[StoredRecord]:
        """Yields records stored after this reader was created, as they come, for `limit_s` (None = for ever)."""
        self._assign({number: high for number, (_, high) in self._ranges.items()})
        end = None if limit_s is None else time.monotonic() + limit_s
        while end is None or time.monotonic() < end:
            for message in self._consumer.consume(BATCH, POLL_S):
                if message.error() is None:
                    yield _record(message)
                else:
                    self._check(message.error())

    def _assign(self, starts: Mapping[int, int]) -> None:
        self._consumer.assign([TopicPartition(self.topic, number, offset) for number, offset in starts.items()])

    def _until_end(self, starts: Mapping[int, int], until: Mapping[int, int] | None = None) -> Iterator[StoredRecord]:
        ends = until or {number: self._ranges[number][1] for number in starts}
        open_ends = {number for number, offset in starts.items() if offset < ends[number]}
        self._assign({number: starts[number] for number in open_ends})
        silent_since = time.monotonic()
        while open_ends:
            messages: Sequence[Message] = self._consumer.consume(BATCH, POLL_S)
            if not messages and time.monotonic() - silent_since > _SILENT_S:
                raise NotReadyError(f"Kafka stopped answering while the topic {self.topic} was read.", "Try again.")
            for message in messages:
                number, error = message.partition() or 0, message.error()
                if error is not None:
                    self._check(error)
                    # The end of the partition. Needed because the last offsets may be transaction markers, which are
                    # never returned as records.
                    open_ends.discard(number)
                    continue
                record = _record(message)
                if record.offset < ends[number]:
                    yield record
                if record.offset >= ends[number] - 1:
                    open_ends.discard(number)
            if messages:
                silent_since = time.monotonic()  # after the `yield`s, so that a slow caller does not count as silence

    def _check(self, error: KafkaError | None) -> None:
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise PenstockError(f"Reading {self.topic} failed: {error.str()}.")


def _record(message: Message) -> StoredRecord:
    return StoredRecord(
        topic=message.topic() or "",
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        timestamp_ms=message.timestamp()[1],
        key=_as_bytes(message.key()),
        headers=tuple((name, _as_bytes(value)) for name, value in record_headers(message)),
        value=_as_bytes(message.value()),
    )


def _as_bytes(value: object) -> bytes | None:
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else bytes(value)  # type: ignore[call-overload]
