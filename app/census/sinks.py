"""Where chunks and results go: to a topic, to standard output as JSON lines, or nowhere.

A record counts as written when Kafka has acknowledged it. Refuses to go on after one that was not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from confluent_kafka import KafkaError, Message, Producer

from app.census.choices import WriteTo
from knative.errors import PenstockError

_FLUSH_S = 60.0
_DELIVERY_MS = 60_000
_RECORD_BYTES_MAX = 1_048_576


class Sink(Protocol):
    """Takes records; `finish` returns when all of them are where they belong."""

    def put(self, key: bytes, value: bytes, headers: Sequence[tuple[str, bytes]]) -> None: ...
    def finish(self) -> None: ...


class KafkaSink:
    """To one topic, acknowledged by all in-sync replicas, keys where Java producers put them."""

    def __init__(self, kafka: Mapping[str, str], topic: str, written: Callable[[], None]) -> None:
        """`written` is told each acknowledgement."""
        self._topic, self._written = topic, written
        self._problem: KafkaError | None = None
        conf: dict[str, Any] = {
            "acks": "all",
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            "compression.type": "lz4",
            "linger.ms": 20,
            "delivery.timeout.ms": _DELIVERY_MS,
            "message.max.bytes": _RECORD_BYTES_MAX,
            "queue.buffering.max.kbytes": 65_536,
            "log_level": 0,
            **kafka,
        }
        self._producer = Producer(conf)

    def put(self, key: bytes, value: bytes, headers: Sequence[tuple[str, bytes]]) -> None:
        """Waits while the queue is full. Raises PenstockError when a record before it was not stored."""
        given: Any = list(headers)
        while True:
            self._check()
            try:
                self._producer.produce(self._topic, value, key, headers=given, on_delivery=self._told)
            except BufferError:
                self._producer.poll(0.1)
                continue
            self._producer.poll(0)
            return

    def finish(self) -> None:
        """Raises PenstockError when not all were stored."""
        left = self._producer.flush(_FLUSH_S)
        self._check()
        if left:
            raise PenstockError(f"Kafka did not acknowledge {left} records for {self._topic}.", _AGAIN)

    def _told(self, problem: KafkaError | None, _message: Message) -> None:
        if problem is None:
            self._written()
        elif self._problem is None:
            self._problem = problem

    def _check(self) -> None:
        if self._problem is not None:
            raise PenstockError(f"Kafka did not store a record in {self._topic} ({self._problem.str()}).", _AGAIN)


_AGAIN = "Run the command again when Kafka is well: what is stored already counts once."


class StdoutSink:
    """One JSON object a line."""

    def put(self, key: bytes, value: bytes, headers: Sequence[tuple[str, bytes]]) -> None:
        """Bytes that are no ASCII are shown as escapes."""
        row: dict[str, object] = {"id": key.decode("ascii", "backslashreplace")}
        row |= {name: content.decode("utf-8", "replace") for name, content in headers}
        text = value.decode("ascii", "backslashreplace")
        print(json.dumps({**row, "lines": text.split("\n")} if headers else json.loads(text)))

    def finish(self) -> None:
        """Nothing is left."""


class NullSink:
    """Nowhere: reading and counting happen, and nothing is kept."""

    def put(self, key: bytes, value: bytes, headers: Sequence[tuple[str, bytes]]) -> None:
        """Forgets it."""

    def finish(self) -> None:
        """Nothing is left."""


def make_sink(to: WriteTo, kafka: Mapping[str, str], topic: str, written: Callable[[], None]) -> Sink:
    """By the option."""
    if to is WriteTo.KAFKA:
        return KafkaSink(kafka, topic, written)
    return StdoutSink() if to is WriteTo.STDOUT else NullSink()
