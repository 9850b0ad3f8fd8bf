"""The scheduler and the offset tracker, case by case; `test_scheduler_simulation` has the schedules at random."""

from __future__ import annotations

import random

import pytest

from agents.offsets.offset_metadata import METADATA_MAX, SPAN_MAX, STARTED_MAX, OffsetMetadata, read
from agents.offsets.offset_tracker import OffsetTracker
from agents.offsets.partition import Delivery, PartitionState
from agents.offsets.state import TRANSITIONS, DeliveryState
from agents.ordering.scheduler import Scheduler
from knative.delivery.policy import DeliveryOrder
from tests.support.checked_state import CheckedDelivery


def test_compacted_away_settled_offset_is_forgotten() -> None:
    mark = OffsetTracker(10, OffsetMetadata(frozenset({12, 14})))
    for offset in (10, 13, 14, 20):
        mark.add(offset)
    for offset in (10, 13, 20):
        mark.settle(offset)
    assert (mark.committable, mark.settled) == (21, set())


def test_records_lost_to_retention_move_the_mark_when_nothing_is_open() -> None:
    mark = OffsetTracker(10)
    mark.skip_to(50)
    assert mark.committable == 50
    mark.add(50)
    mark.skip_to(90)
    assert mark.committable == 50
    mark.settle(50)
    assert mark.committable == 90


def test_record_fetched_twice_is_delivered_once() -> None:
    mark = OffsetTracker(10)
    assert mark.add(10)
    assert not mark.add(10)
    mark.settle(10)
    assert not mark.add(10)
    assert mark.committable == 11


def test_attempts_of_a_record_that_is_gone_do_not_reach_the_next_commit() -> None:
    mark = OffsetTracker(10, OffsetMetadata(attempts={10: 2, 12: 1}, due={10: 1.8e9}))
    mark.add(11)
    mark.settle(11)
    mark.add(12)
    assert read(12, mark.metadata()) == OffsetMetadata(attempts={12: 1})


def test_far_above_the_mark_nothing_starts_until_it_moves() -> None:
    started: list[Delivery] = []
    scheduler = Scheduler(started.append, DeliveryOrder.UNORDERED, 10)
    partition = PartitionState("t", 0, OffsetTracker(0))
    records = [Delivery(partition, o, None, None, [], 1) for o in (0, 1, SPAN_MAX, SPAN_MAX + 1)]
    scheduler.enqueue(partition, records)
    assert [r.offset for r in started] == [0, 1]
    scheduler.done(records[0])
    assert [r.offset for r in started] == [0, 1, SPAN_MAX]
    scheduler.done(records[1])
    assert [r.offset for r in started] == [0, 1, SPAN_MAX, SPAN_MAX + 1]


def test_at_most_so_many_of_a_partition_are_started() -> None:
    started: list[Delivery] = []
    scheduler = Scheduler(started.append, DeliveryOrder.UNORDERED, 10_000)
    partition = PartitionState("t", 0, OffsetTracker(0))
    scheduler.enqueue(partition, [Delivery(partition, o, None, None, [], 1) for o in range(STARTED_MAX + 5)])
    assert len(started) == STARTED_MAX
    scheduler.done(started[0])
    assert len(started) == STARTED_MAX + 1


def test_while_paused_only_retries_start() -> None:
    started: list[int] = []
    scheduler = Scheduler(lambda record: started.append(record.offset), DeliveryOrder.UNORDERED, 2)
    partition = PartitionState("t", 0, OffsetTracker(0))
    records = [Delivery(partition, o, None, None, [], 1) for o in range(4)]
    scheduler.enqueue(partition, records)
    scheduler.pause(True)
    scheduler.attempt_over(records[0])
    scheduler.done(records[1])
    assert started == [0, 1]
    scheduler.retry(records[0], lambda: started.append(100))
    assert started == [0, 1, 100]
    scheduler.pause(False)
    assert started == [0, 1, 100, 2]


def test_closed_partition_starts_nothing_and_others_go_on() -> None:
    started: list[Delivery] = []
    scheduler = Scheduler(started.append, DeliveryOrder.ORDERED, 1)
    partition_state, two = PartitionState("t", 0, OffsetTracker(0)), PartitionState("t", 1, OffsetTracker(0))
    scheduler.enqueue(partition_state, [Delivery(partition_state, o, None, None, [], 1) for o in range(3)])
    scheduler.enqueue(two, [Delivery(two, o, None, None, [], 1) for o in range(3)])
    scheduler.close([partition_state])
    scheduler.done(started[0])
    assert [r.partition for r in started] == [partition_state, two]
    assert partition_state.tracker.committable == 1
    scheduler.enqueue(partition_state, [Delivery(partition_state, 3, None, None, [], 1)])
    scheduler.done(started[1])
    assert [r.partition for r in started] == [partition_state, two, two]


def test_what_waits_in_a_closed_partition_is_abandoned_and_what_is_under_way_is_not() -> None:
    scheduler = Scheduler(lambda _: None, DeliveryOrder.KEY_ORDERED, 3)
    partition = PartitionState("t", 0, OffsetTracker(0))
    keys = (b"a", b"a", b"b", b"c", b"d", b"e")
    deliveries = [CheckedDelivery(partition, o, key, None, [], 1) for o, key in enumerate(keys)]
    scheduler.enqueue(partition, deliveries)
    scheduler.attempt_over(deliveries[2])
    scheduler.retry(deliveries[2], lambda: None)
    states = DeliveryState
    waits = (states.IN_FLIGHT, states.QUEUED, states.BACKING_OFF, states.IN_FLIGHT, states.IN_FLIGHT, states.READY)
    assert tuple(delivery.state for delivery in deliveries) == waits
    scheduler.close([partition])
    late = CheckedDelivery(partition, 9, b"z", None, [], 1)
    scheduler.enqueue(partition, [late])
    scheduler.done(deliveries[0])
    scheduler.attempt_over(deliveries[3])
    scheduler.abandon(deliveries[3])
    ends = (states.SETTLED, states.ABANDONED, states.IN_FLIGHT, states.ABANDONED, states.IN_FLIGHT, states.ABANDONED)
    assert tuple(delivery.state for delivery in (*deliveries, late)) == (*ends, states.ABANDONED)


@pytest.mark.parametrize("state", DeliveryState)
def test_every_state_can_be_reached_and_left_until_the_end(state: DeliveryState) -> None:
    assert state is DeliveryState.QUEUED or any(state in following for following in TRANSITIONS.values())
    ends = {DeliveryState.SETTLED, DeliveryState.ABANDONED}
    assert (not TRANSITIONS[state]) == (state in ends)
    assert state in ends or DeliveryState.ABANDONED in TRANSITIONS[state]


@pytest.mark.parametrize("gap", [1, SPAN_MAX, 100 * SPAN_MAX])
def test_hole_in_the_log_stops_nothing(gap: int) -> None:
    """Compaction and aborted transactions leave holes larger than what metadata can span."""
    started: list[int] = []
    scheduler = Scheduler(lambda record: started.append(record.offset), DeliveryOrder.ORDERED, 10)
    partition = PartitionState("t", 0, OffsetTracker(5))
    records = [Delivery(partition, offset, b"k", b"", [], 1) for offset in (5 + gap, 5 + 2 * gap, 6 + 2 * gap)]
    scheduler.enqueue(partition, records)
    assert partition.tracker.committable == 5 + gap
    for record in records:
        assert started[-1] == record.offset
        scheduler.done(record)
    assert partition.tracker.committable == 7 + 2 * gap


def test_attempts_that_do_not_fit_are_forgotten_before_anything_settled() -> None:
    """An earlier owner in another order mode may have counted other records than the ones that fail now."""
    numbers = random.Random(1)
    many = {offset: numbers.randint(128, 16_000) for offset in range(1, SPAN_MAX, 5)}
    tracker = OffsetTracker(0, OffsetMetadata(attempts=many))
    for offset in range(SPAN_MAX):
        tracker.add(offset)
    settled = {offset for offset in range(1, SPAN_MAX) if numbers.random() < 0.5}
    for offset in settled:
        tracker.settle(offset)
    text = tracker.metadata()
    assert len(text) <= METADATA_MAX
    metadata = read(0, text)
    assert metadata.settled == settled
    assert metadata.attempts
    assert metadata.attempts.items() <= tracker.attempts.items()


def test_change_of_order_starts_nothing_beyond_the_commit_metadata() -> None:
    """What is too far above the watermark waits on, in whichever lane."""
    started: list[Delivery] = []
    scheduler = Scheduler(started.append, DeliveryOrder.UNORDERED, 10_000)
    partition = PartitionState("t", 0, OffsetTracker(0))
    offsets = (0, 1, SPAN_MAX, SPAN_MAX + 1)
    scheduler.enqueue(partition, [Delivery(partition, o, b"k%d" % o, None, [], 1) for o in offsets])
    assert [record.offset for record in started] == [0, 1]
    scheduler.reorder(DeliveryOrder.KEY_ORDERED, [partition])
    assert [record.offset for record in started] == [0, 1]
    scheduler.done(started[1])
    scheduler.done(started[0])
    assert [record.offset for record in started] == [0, 1, SPAN_MAX, SPAN_MAX + 1]
