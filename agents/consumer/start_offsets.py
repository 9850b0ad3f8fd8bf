"""Finds the start offset of an assigned partition: its committed offset, else the start of its log, never the end.

The calls block the consumer's own thread. Does not guess an offset: when Kafka does not answer in time the call fails,
and the consumer rejoins its group.
"""

from __future__ import annotations

import threading
import time

import structlog
from confluent_kafka import Consumer, KafkaException, TopicPartition

from knative.ports import Observe

log = structlog.get_logger(__name__)

_LIMIT_S = 30.0
_TRY_S = 5.0
_PAUSE_S = 0.2


def committed_offsets(
    consumer: Consumer, assigned: list[TopicPartition], stop: threading.Event
) -> list[TopicPartition]:
    """Committed offsets with their metadata. Tries again while the coordinator loads. Raises KafkaException."""
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


def log_start(label: str, number: int, low: int, high: int, observe: Observe) -> int:
    """The start of the log, `low`, for a partition without a committed offset. Logs a warning if it ever had records,
    and counts those that have expired."""
    assert high >= low
    if high > 0:
        log.warning(
            "no committed offset; reading from the start of the log",
            subscription=label,
            partition=number,
            offset=low,
        )
    if low:
        observe.expired(label, low)
    return low
