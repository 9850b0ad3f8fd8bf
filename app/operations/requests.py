"""Stores the requests of commands to the leading controller in the status topic, and withdraws them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from knative.contract.kafka_names import status_topic
from knative.errors import NotReadyError
from tables.kafka.acknowledged import not_stored
from tables.kafka.connection import CREATES_NO_TOPICS
from tables.timing import ANSWER_S


def store_requests(client: Mapping[str, Any], instance: str, records: Sequence[tuple[bytes, bytes | None]]) -> None:
    """Store these keys and values; None withdraws a request. Raises NotReadyError."""
    conf = {**CREATES_NO_TOPICS, "acks": "all", "enable.idempotence": True, "linger.ms": 0, "log_level": 0}
    producer = Producer({**conf, **client})
    failures: list[str] = []

    def done(error: KafkaError | None, message: Message) -> None:
        problem = not_stored(error, message)
        if problem is not None:
            failures.append(problem.str())

    try:
        for key, value in records:
            producer.produce(status_topic(instance), value, key, on_delivery=done)
        waiting = producer.flush(ANSWER_S)
    except (KafkaException, BufferError) as problem:
        raise NotReadyError(f"Kafka has not confirmed the request ({problem}).", "Try again.") from problem
    if waiting or failures:
        raise NotReadyError(f"Kafka has not confirmed the request ({(failures or ['time limit'])[0]}).", "Try again.")
