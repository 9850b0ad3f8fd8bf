"""Where an assigned partition is read from: what was committed for it, else the start of its log. Never its end.

Calls to Kafka that wait for the answer, from the consumer's own thread. Refuses to make a position up: when Kafka does
not answer in time the call fails, and the consumer joins its group again.
"""

from __future__ import annotations

import threading
import time

import structlog
from confluent_kafka import Consumer, KafkaException, TopicPartition

log = structlog.get_logger(__name__)

_LIMIT_S = 30.0
_TRY_S = 5.0
_PAUSE_S = 0.2


def committed_offsets(
    consumer: Consumer, assigned: list[TopicPartition], stop: threading.Event
) -> list[TopicPartition]:
    """Committed offsets with their metadata; a coordinator that still loads is asked again. Raises KafkaException."""
    end = time.monotonic() + _LIMIT_S
    while True:
        try:
            found = consumer.committed(assigned, timeout=_TRY_S)
        except KafkaException as problem:
            reason = problem
        else:
            refused = [p.error for p in found if p.error is not None]
            if not refused:
                return found
            reason = KafkaException(refused[0])
        if time.monotonic() > end or stop.is_set():
            raise reason
        stop.wait(_PAUSE_S)


def log_start(consumer: Consumer, where: TopicPartition, label: str) -> int:
    """The first offset of a partition without a committed one; told when there has ever been something in it."""
    low, high = consumer.get_watermark_offsets(where, timeout=2 * _TRY_S)
    if high > 0:
        log.warning(
            "no committed offset; going on at the start of the log",
            subscription=label,
            partition=where.partition,
            offset=low,
        )
    assert high >= low
    return low
