"""The gauges of a subscription, computed from its partitions and its scheduler."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.dispatch import view
from agents.offsets.offset_tracker import OffsetTracker
from agents.offsets.partition import Delivery, PartitionState
from agents.ordering.scheduler import Scheduler
from knative.delivery.policy import DeliveryOrder


def partition(number: int = 0, start: int = 10) -> PartitionState:
    return PartitionState("t", number, OffsetTracker(start))


def records(owner: PartitionState, *stamps_ms: int, key: bytes | None = None) -> list[Delivery]:
    first = owner.tracker.fetched
    made = [Delivery(owner, first + i, key, b"v", [], 100, stamp) for i, stamp in enumerate(stamps_ms)]
    owner.fetched_count += len(made)
    owner.fetched_bytes += 100 * len(made)
    return made


@pytest.mark.parametrize(
    ("ends_and_fetched", "expected"),
    [([(-1, 0)], 0), ([(10, 0)], 0), ([(15, 0)], 5), ([(15, 0), (12, 0)], 7), ([(5, 0)], 0), ([(10, 3)], 3)],
)
def test_lag_counts_what_is_not_settled_up_to_the_known_ends(
    ends_and_fetched: list[tuple[int, int]], expected: int
) -> None:
    owned = []
    for number, (end, fetched) in enumerate(ends_and_fetched):
        partition_state = partition(number)
        partition_state.log_end_offset = end
        for offset in range(10, 10 + fetched):
            partition_state.tracker.add(offset)
        owned.append(partition_state)

    assert view.lag(owned) == expected


def test_oldest_event_and_lanes_are_those_of_the_scheduler() -> None:
    started: list[Delivery] = []
    scheduler, owner = Scheduler(started.append, DeliveryOrder.KEY_ORDERED, 2), partition()
    assert view.oldest(scheduler) == 0

    scheduler.enqueue(owner, records(owner, 3_000, 2_000, key=b"a"))
    scheduler.enqueue(owner, records(owner, 1_500, 0, key=b"b"))
    scheduler.enqueue(owner, records(owner, 1_000, key=b"c"))

    assert [record.key for record in started] == [b"a", b"b"]
    assert view.oldest(scheduler) == 1.0  # the one that waits for a slot counts, the one without a time does not
    assert view.lanes([owner]) == 3
    assert view.buffered_bytes([owner]) == 500
    scheduler.done(started[0])
    assert view.buffered_bytes([owner]) == 400


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        ([(0.0, 0)], 0.0),
        ([(0.0, 0), (0.0, 5)], 0.0),
        ([(0.0, 10), (10.0, 110)], 10.0),
        ([(0.0, 0), (30.0, 3_000), (60.0, 3_000), (90.0, 3_000)], 0.0),
        ([(0.0, 0), (50.0, 0), (100.0, 600)], 10.0),
    ],
)
def test_rate_is_that_of_the_last_minute(looks: list[tuple[float, int]], expected: float) -> None:
    rate, per_s = view.Rate(), -1.0
    for now, count in looks:
        per_s = rate.per_s(count, now)

    assert per_s == expected


def test_rate_keeps_no_more_than_a_minute() -> None:
    rate = view.Rate()
    for second in range(1_000):
        rate.per_s(second * 7, float(second))

    assert rate.per_s(7_000, 1_000.0) == 7.0
    assert len(rate._samples) <= 62


@given(st.lists(st.integers(0, 2), max_size=200))
def test_rate_needs_few_samples_while_nothing_comes(events: list[int]) -> None:
    """Compared with all samples of the last minute, one each second."""
    rate, counts, count = view.Rate(), [0], 0
    rate.per_s(0, 0.0)
    for now, more in enumerate(events, start=1):
        count += more
        counts.append(count)
        first = max(0, now - 60)
        assert rate.per_s(count, float(now)) == (count - counts[first]) / (now - first)
    if len(events) > 2 and not any(events):
        assert len(rate._samples) == 2
