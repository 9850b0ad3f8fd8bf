"""Numbers read from partitions, windows and troubles: pure, so by tables."""

from __future__ import annotations

import pytest

from agents.listeners import snapshots
from agents.listeners.failures import Failures
from agents.ordering.offset_tracker import OffsetTracker
from agents.ordering.partition import Delivery, PartitionState
from agents.ordering.scheduler import Scheduler
from app.observability.histogram import BOUNDS_S, Histogram, cumulative
from knative.contract.subscription_stats import FailingDelivery, LastError
from knative.delivery.attempt import Outcome, Settled, Settlement
from knative.delivery.policy import DeliveryOrder
from knative.delivery.verdicts import FinalFailure, RetryableFailure


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
        one = partition(number)
        one.log_end_offset = end
        for offset in range(10, 10 + fetched):
            one.tracker.add(offset)
        owned.append(one)

    assert snapshots.lag(owned) == expected


def test_what_a_window_holds() -> None:
    started: list[Delivery] = []
    scheduler, owner = Scheduler(started.append, DeliveryOrder.KEY_ORDERED, 2), partition()
    assert snapshots.oldest(scheduler) == 0

    scheduler.enqueue(owner, records(owner, 3_000, 2_000, key=b"a"))
    scheduler.enqueue(owner, records(owner, 1_500, 0, key=b"b"))
    scheduler.enqueue(owner, records(owner, 1_000, key=b"c"))

    assert [record.key for record in started] == [b"a", b"b"]
    assert snapshots.oldest(scheduler) == 1.0  # the one that waits for a slot counts, the one without a time does not
    assert snapshots.lanes([owner]) == 3
    assert snapshots.buffered_bytes([owner]) == 500
    scheduler.done(started[0])
    assert snapshots.buffered_bytes([owner]) == 400


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        ([(0.0, 0)], 0.0),
        ([(0.0, 0), (0.0, 5)], 0.0),
        ([(0.0, 10), (10.0, 110)], 10.0),
        ([(0.0, 0), (30.0, 3_000), (60.0, 3_000), (90.0, 3_000)], 0.0),
        ([(0.0, 0), (50.0, 0), (100.0, 600)], 6.0),
    ],
)
def test_the_rate_is_that_of_the_last_minute(looks: list[tuple[float, int]], expected: float) -> None:
    rate, found = snapshots.Rate(), -1.0
    for now, count in looks:
        found = rate.per_s(count, now)

    assert found == expected


def test_the_rate_keeps_no_more_than_a_minute() -> None:
    rate = snapshots.Rate()
    for second in range(1_000):
        rate.per_s(second * 7, float(second))

    assert rate.per_s(7_000, 1_000.0) == 7.0
    assert len(rate._samples) <= 62


def outcome(attempts: int, code: int = 503, body: bytes = b"later", at: float = 100.0) -> Outcome:
    return Outcome(RetryableFailure(code, f"the answer was {code}", body), "http://s/", attempts, at, 0.1)


def test_troubles_know_the_last_error_and_the_heads() -> None:
    failures, owner = Failures(), partition(3)
    first, second, third = records(owner, 1, 1, 1)
    first.headers = [("ce_id", b"e1"), ("ce_source", b"/s"), ("ce_type", b"t"), ("ce_specversion", b"1.0")]

    failures.failed(first, outcome(2), 4.0)
    failures.failed(second, outcome(1, at=101.0), 1.0)
    failures.failed(third, Outcome(FinalFailure(400, "no", b"\xff" * 2_000), "http://s/", 1, 102.0, 0.1), None)

    assert failures.retrying == 2
    assert failures.failing() == (FailingDelivery(3, 10, 2, 104.0, "e1"), FailingDelivery(3, 11, 1, 102.0, ""))
    assert failures.last_error == LastError(102.0, 400, "no", "\ufffd" * 200, "http://s/", 3, 12)
    failures.trying(first)
    failures.failed(second, outcome(2), None)
    assert [head.next_attempt for head in failures.failing()] == [0, 0]
    failures.settled(first, Settlement(Settled.DELIVERED), 1.0, 2)
    failures.settled(second, Settlement(Settled.DEAD_LETTERED), 1.0, 2)
    failures.abandoned(third)
    assert (failures.retrying, failures.failing(), failures.not_delivered) == (0, (), 1)


def test_the_heads_are_bounded_and_those_with_the_most_attempts() -> None:
    failures, owner = Failures(), partition()
    for number, record in enumerate(records(owner, *[1] * 50)):
        failures.failed(record, outcome(number + 1), 1.0)

    assert [head.attempts for head in failures.failing(3)] == [50, 49, 48]
    assert failures.retrying == 50


def test_buckets_are_cumulative_and_their_bounds_belong_to_them() -> None:
    times = Histogram()
    for seconds in (-0.1, 0.0, 0.001, 0.0011, 3_600.0, 3_601.0):
        times.add(seconds)

    rows = cumulative(times.counts)

    assert rows[:2] == [("0.001", 3), ("0.0025", 4)]
    assert rows[-2:] == [("3600", 5), ("+Inf", 6)]
    assert len(rows) == len(BOUNDS_S) + 1
