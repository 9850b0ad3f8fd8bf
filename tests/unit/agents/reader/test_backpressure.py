"""Backpressure: a full consumer sleeps until half of what it holds is settled, and rarely checks while little comes."""

from __future__ import annotations

import threading
from collections.abc import Callable

from confluent_kafka import Consumer

from agents.offsets.offset_tracker import OffsetTracker
from agents.offsets.partition import PartitionState
from agents.reader.backpressure import Backpressure
from tests.support.fakes import VirtualClock

_BUDGET = 64_000


def _consumer() -> Consumer:
    """A real client that is connected to nothing: partitions are paused and resumed in it alone."""
    return Consumer({"group.id": "g", "bootstrap.servers": "127.0.0.1:1", "log_level": 0})


def _partition(held_bytes: int, held: int) -> PartitionState:
    made = PartitionState("t", 0, OffsetTracker(0))
    made.fetched_bytes, made.fetched_count = held_bytes, held
    return made


def _backpressure(clock: VirtualClock, stop: threading.Event | None = None) -> Backpressure:
    return Backpressure(_BUDGET, stop or threading.Event(), clock.monotonic, clock.sleep)


def _throttle(pace: Backpressure, consumer: Consumer, *partitions: PartitionState) -> bool:
    """By what one member holds, which follows all of them."""
    return pace.throttle(lambda number: partitions[number], consumer, partitions)


def _settling(partition: PartitionState, records: int) -> Callable[[], None]:
    """Settles `records` of 1,000 bytes."""

    def settle() -> None:
        partition.released += records
        partition.released_bytes += 1_000 * records

    return settle


def test_full_until_half_of_it_is_settled() -> None:
    consumer, clock, partition = _consumer(), VirtualClock(), _partition(_BUDGET, 64)
    pace = _backpressure(clock)
    pace.handed(_BUDGET)
    pace.taken(_BUDGET)
    for turn in range(40):
        clock.at(0.001 * (turn + 1), _settling(partition, 1))
    try:
        assert not _throttle(pace, consumer, partition), "nothing is paused"
        assert partition.held_bytes <= _BUDGET // 2
        assert partition.held_bytes > 20_000, "and it did not sleep much longer"
    finally:
        consumer.close()


def test_full_for_too_long_pauses_what_does_not_move() -> None:
    consumer, clock, partition = _consumer(), VirtualClock(), _partition(_BUDGET, 64)
    moving = PartitionState("t", 1, OffsetTracker(0))
    pace = _backpressure(clock)
    pace.handed(_BUDGET)
    pace.taken(_BUDGET)
    try:
        assert _throttle(pace, consumer, partition, moving), "it is paused"
        assert pace.budget.paused == {0}
        partition.released, partition.released_bytes = 64, _BUDGET
        assert not _throttle(pace, consumer, partition, moving), "it is resumed"
    finally:
        consumer.close()


def test_records_that_the_members_have_not_taken_also_cause_backpressure() -> None:
    consumer, clock = _consumer(), VirtualClock()
    pace = _backpressure(clock)
    pace.handed(_BUDGET)
    clock.at(0.02, lambda: pace.taken(_BUDGET))
    try:
        assert not _throttle(pace, consumer, _partition(10, 1))
        assert clock.monotonic() >= 0.02, "it waited"
    finally:
        consumer.close()


def test_reader_whose_members_have_room_does_not_wait_until_they_have_taken_all() -> None:
    consumer, clock = _consumer(), VirtualClock()
    pace = _backpressure(clock)
    pace.handed(_BUDGET // 4)
    try:
        assert not _throttle(pace, consumer, _partition(_BUDGET // 2, 32))
        assert clock.monotonic() == 0.0
    finally:
        consumer.close()


def test_partition_that_nobody_follows_is_paused_until_one_does() -> None:
    consumer, clock, partition = _consumer(), VirtualClock(), _partition(10, 1)
    pace = _backpressure(clock)
    try:
        assert pace.throttle(lambda number: None, consumer, [partition])
        assert pace.budget.paused == {0}
        assert not pace.throttle(lambda number: partition, consumer, [partition]), "it is resumed"
    finally:
        consumer.close()


def test_stop_ends_waiting() -> None:
    stop, clock = threading.Event(), VirtualClock()
    stop.set()
    consumer, partition = _consumer(), _partition(_BUDGET, 64)
    pace = _backpressure(clock, stop)
    pace.handed(_BUDGET)
    try:
        _throttle(pace, consumer, partition)
        assert clock.monotonic() == 0.0
        assert partition.held_bytes == _BUDGET
    finally:
        consumer.close()


def test_small_amounts_are_checked_later() -> None:
    consumer, clock, partition = _consumer(), VirtualClock(), _partition(10, 1)
    pace = _backpressure(clock)
    try:
        assert not _throttle(pace, consumer, partition)
        partition.fetched_bytes = _BUDGET  # more than it was told of
        pace.handed(100)
        assert not _throttle(pace, consumer, partition)
        assert partition.held_bytes == _BUDGET, "it was not waited for"
        pace.handed(_BUDGET)
        clock.at(0.02, lambda: setattr(partition, "released_bytes", _BUDGET))
        assert not _throttle(pace, consumer, partition)
        assert partition.held_bytes == 0, "now it was waited for"
    finally:
        consumer.close()


def test_at_rest_no_member_is_asked() -> None:
    consumer, clock, partition = _consumer(), VirtualClock(), _partition(1_000, 1)
    pace = _backpressure(clock)
    asked: list[int] = []

    def quickest(number: int) -> PartitionState:
        asked.append(number)
        return partition

    def throttle() -> int:
        """How many were asked, after a while."""
        asked.clear()
        clock.sleep(10.0)
        pace.throttle(quickest, consumer, [partition])
        return len(asked)

    try:
        pace.handed(1_000)
        pace.taken(1_000)
        assert [throttle() for _ in range(3)] == [1, 1, 1], "an event is held"
        partition.released, partition.released_bytes = 1, 1_000
        assert [throttle() for _ in range(3)] == [1, 0, 0]
        pace.handed(1_000)
        partition.fetched_count += 1
        assert [throttle() for _ in range(2)] == [1, 1], "its records are on their way, or held"
    finally:
        consumer.close()
