"""A consumer's membership in its group: what ends it for ever, how to leave, and how long a join may take."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, KafkaError

_UNSUBSCRIBE_S = 2.0  # local work of the client; Kafka is not asked


def is_fatal(error: KafkaError) -> bool:
    """The client can never be used again. A lost answer to a join is enough for that: Kafka takes the client that joins
    again for another one with the same instance id, and fences the first. An error that comes as a message does not say
    that it is fatal, so the codes are checked too."""
    return error.fatal() or error.code() in (KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID)


def leave(consumer: Consumer) -> None:
    """Leave the group at once. A static member that only closes its client stays in it until its session ends."""
    consumer.unsubscribe()
    until = time.monotonic() + _UNSUBSCRIBE_S
    while consumer.assignment() and time.monotonic() < until:
        consumer.poll(0.02)
