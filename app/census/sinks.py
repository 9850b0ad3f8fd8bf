"""Outputs for chunks and results: a topic, standard output as JSON lines, or none.

A record counts as written when Kafka has acknowledged it. The first one that Kafka does not store ends the command.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from confluent_kafka import KafkaError, Message, Producer

from app.census.choices import WriteTo
from knative.errors import PenstockError
from tables.kafka.acknowledged import not_stored
from tables.kafka.connection import CREATES_NO_TOPICS
from tables.timing import STORED_S


class Sink(Protocol):
    """Takes records; `finish` returns when all of them are stored."""

    def put(self, key: bytes, value: bytes, headers: Sequence[tuple[str, bytes]]) -> None: ...
    def finish(self) -> None: ...


class KafkaSink:
    """Writes to one topic with acks=all, and with the partitioner of Java producers."""

    def __init__(self, kafka: Mapping[str, str], topic: str, written: Callable[[], None]) -> None:
        """`written` is called for each acknowledgement."""
        self._topic, self._written = topic, written
        self._problem: KafkaError | None = None
        conf: dict[str, Any] = {
            **CREATES_NO_TOPICS,
            "acks": "all",
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            "compression.type": "lz4",
            "linger.ms": 20,
            "delivery.timeout.ms": int(STORED_S * 1000),
            "message.max.bytes": 1_048_576,
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
                self._producer.produce(self._topic, value, key, headers=given, on_delivery=self._acknowledged)
            except BufferError:
                self._producer.poll(0.1)
                continue
            self._producer.poll(0)
            return

    def finish(self) -> None:
        """Raises PenstockError when not all were stored."""
        left = self._producer.flush(STORED_S)
        self._check()
        if left:
            raise PenstockError(f"Kafka did not acknowledge {left} records for {self._topic}.", _AGAIN)

    def _acknowledged(self, error: KafkaError | None, message: Message) -> None:
        problem = not_stored(error, message)
        if problem is None:
            self._written()
        elif self._problem is None:
            self._problem = problem

    def _check(self) -> None:
        if self._problem is not None:
            raise PenstockError(f"Kafka did not store a record in {self._topic} ({self._problem.str()}).", _AGAIN)


_AGAIN = "Run the command again when Kafka works: records that are stored already count once."


class StdoutSink:
    """Prints one JSON object a line."""

    def put(self, key: bytes, value: bytes, headers: Sequence[tuple[str, bytes]]) -> None:
        """Print one record; bytes outside ASCII are escaped."""
        row: dict[str, object] = {"id": key.decode("ascii", "backslashreplace")}
        row |= {name: content.decode("utf-8", "replace") for name, content in headers}
        text = value.decode("ascii", "backslashreplace")
        print(json.dumps({**row, "lines": text.split("\n")} if headers else json.loads(text)))

    def finish(self) -> None:
        """Nothing is left."""


class NullSink:
    """Drops everything; reading and counting happen all the same."""

    def put(self, key: bytes, value: bytes, headers: Sequence[tuple[str, bytes]]) -> None:
        """Drop one record."""

    def finish(self) -> None:
        """Nothing is left."""


def make_sink(to: WriteTo, kafka: Mapping[str, str], topic: str, written: Callable[[], None]) -> Sink:
    """The sink for a value of `--write-to`."""
    if to is WriteTo.KAFKA:
        return KafkaSink(kafka, topic, written)
    return StdoutSink() if to is WriteTo.STDOUT else NullSink()
