"""Records of a topic for the command line and the demo: from the beginning, the last few, or those to come.

It joins no consumer group and commits nothing, so looking on changes nothing for anybody. Refuses to interpret records,
and to wait without a limit unless its caller asks for that.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from knative.errors import NotReadyError, PenstockError

_POLL_S = 0.1
_BATCH = 500
_ASK_LIMIT_S = 10.0
_SILENT_S = 15.0  #: without any answer to a fetch, a look at what is stored is given up


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """One record as it lies in Kafka."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    value: bytes | None


class TopicReader:
    """Reads one topic. `kafka`: librdkafka client settings, `bootstrap.servers` among them. Close it, or use `with`."""

    def __init__(self, topic: str, kafka: Mapping[str, Any]) -> None:
        """Raises NotReadyError when Kafka does not answer, PenstockError when there is no such topic."""
        self.topic = topic
        self._consumer = Consumer(
            {
                "group.id": "penstock-reader",  # demanded by the client; nothing joins it and nothing is committed
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "log_level": 0,
                **kafka,
            }
        )
        try:
            self._ranges = self._look_up()
        except KafkaException as problem:
            self.close()
            raise NotReadyError(
                f"Kafka at {kafka['bootstrap.servers']} does not answer ({problem.args[0].str()}).",
                "Start one with `penstock kafka up`, or name yours: --kafka HOST:PORT.",
            ) from problem
        except PenstockError:
            self.close()
            raise

    def __enter__(self) -> TopicReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections."""
        self._consumer.close()

    def _look_up(self) -> dict[int, tuple[int, int]]:
        """Partition -> (first offset, offset after the last)."""
        found = self._consumer.list_topics(self.topic, timeout=_ASK_LIMIT_S).topics[self.topic]
        if found.error is not None:
            raise PenstockError(
                f"There is no topic {self.topic} ({found.error.str()}).",
                "See `penstock status` for channels and their topics.",
            )
        ranges = {}
        for number in sorted(found.partitions):
            partition = TopicPartition(self.topic, number)
            low, high = self._consumer.get_watermark_offsets(partition, timeout=_ASK_LIMIT_S)
            ranges[number] = (low, high)
        return ranges

    def stored(self, last: int | None = None) -> Iterator[StoredRecord]:
        """What was in the topic when this reader was made: all of it by partition, or the `last` ones by time."""
        if last is None:
            yield from self._until_end({number: low for number, (low, _) in self._ranges.items()})
            return
        starts = {number: max(low, high - last) for number, (low, high) in self._ranges.items()}
        found = sorted(
            self._until_end(starts), key=lambda record: (record.timestamp_ms, record.partition, record.offset)
        )
        yield from found[-last:] if last else []

    def coming(self, limit_s: float | None) -> Iterator[StoredRecord]:
        """Records stored after this reader was made, as they come, for `limit_s` (None = for ever)."""
        self._assign({number: high for number, (_, high) in self._ranges.items()})
        end = None if limit_s is None else time.monotonic() + limit_s
        while end is None or time.monotonic() < end:
            for message in self._consumer.consume(_BATCH, _POLL_S):
                if message.error() is None:
                    yield _record(message)
                else:
                    self._check(message.error())

    def _assign(self, starts: Mapping[int, int]) -> None:
        self._consumer.assign([TopicPartition(self.topic, number, offset) for number, offset in starts.items()])

    def _until_end(self, starts: Mapping[int, int]) -> Iterator[StoredRecord]:
        ends = {number: self._ranges[number][1] for number in starts}
        open_ends = {number for number, offset in starts.items() if offset < ends[number]}
        self._assign({number: starts[number] for number in open_ends})
        silent_since = time.monotonic()
        while open_ends:
            messages: Sequence[Message] = self._consumer.consume(_BATCH, _POLL_S)
            if messages:
                silent_since = time.monotonic()
            elif time.monotonic() - silent_since > _SILENT_S:
                raise NotReadyError(f"Kafka stopped answering while {self.topic} was read.", "Try again.")
            for message in messages:
                number, error = message.partition() or 0, message.error()
                if error is not None:
                    self._check(error)
                    open_ends.discard(number)  # the end of the partition (markers of transactions hold offsets too)
                    continue
                record = _record(message)
                if record.offset < ends[number]:
                    yield record
                if record.offset >= ends[number] - 1:
                    open_ends.discard(number)

    def _check(self, error: KafkaError | None) -> None:
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise PenstockError(f"Reading {self.topic} failed: {error.str()}.")


def _record(message: Message) -> StoredRecord:
    headers = message.headers() or []
    pairs = headers.items() if isinstance(headers, dict) else headers
    return StoredRecord(
        topic=message.topic() or "",
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        timestamp_ms=message.timestamp()[1],
        key=_as_bytes(message.key()),
        headers=tuple((name, _as_bytes(value)) for name, value in pairs),
        value=_as_bytes(message.value()),
    )


def _as_bytes(value: object) -> bytes | None:
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else bytes(value)  # type: ignore[call-overload]
