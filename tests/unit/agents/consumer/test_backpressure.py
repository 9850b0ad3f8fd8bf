"""Pace: a full feed sleeps until half of what it holds is settled, and looks at nothing while little comes."""

from __future__ import annotations

import threading
import time

from confluent_kafka import Consumer

from agents.consumer.backpressure import Backpressure
from agents.ordering.offset_tracker import OffsetTracker
from agents.ordering.scheduler import PartitionState

_BUDGET = 64_000


def _consumer() -> Consumer:
    """A real client that is connected to nothing: partitions are paused and resumed in it alone."""
    return Consumer({"group.id": "g", "bootstrap.servers": "127.0.0.1:1", "log_level": 0})


def _partition(held_bytes: int, held: int) -> PartitionState:
    made = PartitionState("t", 0, OffsetTracker(0))
    made.fetched_bytes, made.fetched_count = held_bytes, held
    return made


def test_full_until_half_of_it_is_settled() -> None:
    consumer, pace, partition = _consumer(), Backpressure(_BUDGET, threading.Event()), _partition(_BUDGET, 64)
    pace.handed(_BUDGET)
    pace.batches_enqueued()

    def settle() -> None:
        for _ in range(40):
            time.sleep(0.001)
            partition.released += 1
            partition.released_bytes += 1_000

    settling = threading.Thread(target=settle)
    settling.start()
    try:
        assert not pace.throttle(consumer, [partition]), "nothing is paused"
        assert partition.held_bytes < _BUDGET // 2
    finally:
        settling.join()
        consumer.close()


def test_batches_that_nobody_takes_hold_it_up_too() -> None:
    consumer, pace = _consumer(), Backpressure(_BUDGET, threading.Event())
    partition = _partition(10, 1)
    for _ in range(48):
        pace.handed(_BUDGET)
    taking = threading.Timer(0.02, pace.batches_enqueued)
    taking.start()
    try:
        assert not pace.all_enqueued
        assert not pace.throttle(consumer, [partition])
        taking.join()
        for _ in range(47):
            pace.batches_enqueued()
        assert pace.all_enqueued
    finally:
        consumer.close()


def test_a_stop_ends_waiting() -> None:
    stop = threading.Event()
    stop.set()
    consumer, pace, partition = _consumer(), Backpressure(_BUDGET, stop), _partition(_BUDGET, 64)
    pace.handed(_BUDGET)
    try:
        pace.throttle(consumer, [partition])
        assert partition.held_bytes == _BUDGET
    finally:
        consumer.close()


def test_little_is_not_looked_at_for_a_while() -> None:
    consumer, pace, partition = _consumer(), Backpressure(_BUDGET, threading.Event()), _partition(10, 1)
    try:
        assert not pace.throttle(consumer, [partition])
        partition.fetched_bytes = _BUDGET  # more than it was told of
        pace.handed(100)
        assert not pace.throttle(consumer, [partition])
        assert partition.held_bytes == _BUDGET, "it was not waited for"
        pace.handed(_BUDGET)
        settling = threading.Timer(0.02, setattr, (partition, "released_bytes", _BUDGET))
        settling.start()
        assert not pace.throttle(consumer, [partition])
        settling.join()
        assert partition.held_bytes == 0, "now it was waited for"
    finally:
        consumer.close()
