"""The throttle: failing subscriptions leave the loop's time to the others, get equal shares of the rest, and all of it
when no other subscription needs it."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.offsets.offset_tracker import OffsetTracker
from agents.offsets.partition import Delivery, PartitionState
from agents.ordering.scheduler import Scheduler
from agents.ordering.throttle import FAILING, STARTS_MAX, STARTS_MIN, Throttle, adapted, score
from agents.ordering.turns import STARTS_MAX as A_TURN
from agents.ordering.turns import Turns
from agents.timing import TICK_S
from knative.delivery.policy import DeliveryOrder

DEEP = 8_000
ANSWER_S = 0.002


class Loop:
    """An event loop in virtual time: whatever runs may cost CPU, and everything else waits for so long."""

    def __init__(self) -> None:
        self.now = 0.0
        self.cpu_s = 0.0
        self.problems: list[BaseException] = []
        self.starts: Counter[Scheduler] = Counter()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self.throttle = Throttle(self.problems.append, self.later, lambda: self.now, lambda: self.cpu_s)
        soon = lambda function: self.later(0.0, function)  # noqa: E731
        self.turns = Turns(self.problems.append, soon, lambda: self.cpu_s, self.throttle)

    def later(self, delay_s: float, function: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + delay_s, next(self._numbers), function))

    def work(self, seconds: float) -> None:
        """The loop's thread is busy for so long."""
        self.now += seconds
        self.cpu_s += seconds

    def run(self, seconds: float) -> Counter[Scheduler]:
        """Starts by scheduler meanwhile."""
        before, end = self.starts.copy(), self.now + seconds
        while self._events and self._events[0][0] <= end:
            at, _, function = heapq.heappop(self._events)
            self.now = max(self.now, at)
            function()
        self.now = max(self.now, end)
        return self.starts - before

    def every(self, seconds: float, function: Callable[[], Any]) -> None:
        """Again and again from now on."""

        def once() -> None:
            self.later(seconds, once)
            function()

        self.later(seconds, once)

    def subscription(self, cost_s: float, *, fails: bool, backlog: int = DEEP, concurrency: int = 100) -> Scheduler:
        """Each of its attempts costs so much and is answered a little later: all of them fail (as final failures do,
        the event is settled all the same), or none."""

        def start(record: Delivery) -> None:
            self.work(cost_s)
            self.starts[scheduler] += 1
            self.later(ANSWER_S, lambda: answered(record))

        def answered(record: Delivery) -> None:
            if fails:
                scheduler.judged(False)
                scheduler.attempt_over(record)
                scheduler.settle(record)
            else:
                scheduler.done(record)

        scheduler = Scheduler(start, DeliveryOrder.UNORDERED, concurrency, self.turns)
        partition = PartitionState("t", 0, OffsetTracker(0))
        scheduler.enqueue(partition, [Delivery(partition, offset, None, None, [], 1) for offset in range(backlog)])
        return scheduler

    def trickle(self, per_s: float, seconds: float) -> Scheduler:
        """A healthy one whose events come one by one for so long."""
        scheduler = self.subscription(0.0001, fails=False, backlog=0)
        partition = PartitionState("t", 1, OffsetTracker(0))
        for number in range(int(per_s * seconds)):
            record = Delivery(partition, number, None, None, [], 1)
            self.later(number / per_s, lambda record=record: scheduler.enqueue(partition, [record]))  # type: ignore[misc]
        return scheduler


parts, lates = st.floats(0, 1), st.floats(0, 10)
numbers = st.floats(STARTS_MIN, STARTS_MAX)


@given(numbers, parts, lates)
def test_next_tick_is_within_the_bounds_and_near_the_last(starts: float, busy: float, late_s: float) -> None:
    per_tick = adapted(starts, busy, late_s)
    assert STARTS_MIN <= per_tick <= STARTS_MAX
    assert 0.8 * starts - 1e-9 <= per_tick <= 1.05 * starts + 1e-9 or per_tick in (STARTS_MIN, STARTS_MAX)


@given(numbers, parts, parts, lates, lates)
def test_more_work_and_later_ticks_never_mean_more_starts(
    starts: float, left: float, right: float, left_s: float, right_s: float
) -> None:
    less, more = sorted((left, right))
    early_s, late_s = sorted((left_s, right_s))
    assert adapted(starts, more, late_s) <= adapted(starts, less, early_s)


@pytest.mark.parametrize(
    ("busy", "late_s", "more"),
    [(0.0, 0.0, True), (0.1, 0.002, True), (0.8, 0.0, False), (0.1, 0.09, False)],
    ids=["idle", "little to do", "busy", "idle and late: others have the CPU"],
)
def test_starts_follow_how_busy_the_loop_is(busy: float, late_s: float, more: bool) -> None:
    assert (adapted(10.0, busy, late_s) > 10.0) is more


def test_beside_others_failing_ones_leave_most_of_the_time_and_share_the_rest() -> None:
    loop = Loop()
    failing = [loop.subscription(0.001, fails=True) for _ in range(12)]
    healthy = loop.trickle(40, 20)
    loop.run(10)
    assert all(scheduler.score >= FAILING for scheduler in failing)
    before_s = loop.cpu_s
    counts = loop.run(10)
    assert abs(counts[healthy] - 400) <= 1
    assert 0.1 < (loop.cpu_s - before_s) / 10 < 0.45
    shares = [counts[scheduler] for scheduler in failing]
    assert min(shares) > 0.8 * max(shares)


def test_idle_event_loop_throttles_no_subscription() -> None:
    loop = Loop()
    failing = loop.subscription(0.000_001, fails=True, backlog=20_000)
    loop.trickle(40, 10)
    loop.run(10)
    assert failing.settled == 20_000


def test_however_busy_the_loop_is_failing_ones_go_on() -> None:
    loop = Loop()
    failing = [loop.subscription(0.001, fails=True) for _ in range(3)]
    healthy = loop.subscription(0.0005, fails=False, concurrency=1)
    loop.run(5)
    loop.every(TICK_S, lambda: loop.work(TICK_S))
    counts = loop.run(10)
    assert counts[healthy] > 0
    assert min(counts[scheduler] for scheduler in failing) > 100


def test_alone_failing_ones_have_all_the_time() -> None:
    loop = Loop()
    failing = [loop.subscription(0.001, fails=True, backlog=10 * DEEP) for _ in range(2)]
    loop.run(61)
    before_s = loop.cpu_s
    loop.run(5)
    assert (loop.cpu_s - before_s) / 5 > 0.8
    loop.trickle(40, 20)
    loop.run(5)
    before_s = loop.cpu_s
    counts = loop.run(5)
    assert (loop.cpu_s - before_s) / 5 < 0.45
    assert min(counts[scheduler] for scheduler in failing) > 0


def test_who_succeeds_again_is_as_all_others() -> None:
    loop = Loop()
    failing = [loop.subscription(0.001, fails=True) for _ in range(2)]
    loop.trickle(40, 20)
    loop.run(10)
    throttled = loop.run(1)
    assert any(scheduler.throttled for scheduler in failing)
    recovered = failing[0]

    def succeed() -> None:
        recovered.judged(True)
        recovered.judged(True)

    loop.every(0.001, succeed)
    loop.run(1)
    counts = loop.run(1)
    assert counts[recovered] > 2 * throttled[recovered]
    assert counts[failing[1]] < 1.5 * throttled[failing[1]]


@pytest.mark.parametrize(
    ("pattern", "part"),
    [
        ("x", 1.0),
        ("x" * 25 + "." * 25, 0.8),
        ("xxx.", 1.0),
        ("x.", 1.0),
        ("x..", 0.0),
        ("x" * 19 + "." * 57, 0.0),
        ("x...", 0.0),
    ],
    ids=["always", "flapping", "mostly", "half", "a third", "a short time", "now and then"],
)
def test_subscription_is_failing_by_the_share_of_its_failures(pattern: str, part: float) -> None:
    points, seen = 0, []
    for outcome in pattern * 100:
        points = score(points, outcome == ".")
        seen.append(points >= FAILING)
    later = seen[len(seen) // 2 :]
    assert part <= sum(later) / len(later) <= (1.0 if part else 0.0)


def test_recovery_takes_some_twenty_successes_however_long_it_failed() -> None:
    points = 0
    for _ in range(1000):
        points = score(points, False)
    for _ in range(21):
        points = score(points, True)
    assert points < FAILING


def test_no_timer_runs_while_nothing_waits() -> None:
    loop = Loop()
    loop.subscription(0.001, fails=True, backlog=500)
    loop.trickle(40, 5)
    loop.run(100)
    assert not loop._events


def test_one_that_fails_to_start_ends_the_process_and_the_others_go_on() -> None:
    loop = Loop()
    broken, fine = (loop.subscription(0.001, fails=True) for _ in range(2))
    loop.trickle(40, 20)
    loop.run(5)

    def fail(_: Delivery) -> None:
        raise RuntimeError("by a test")

    broken._start = fail
    counts = loop.run(5)
    assert {str(problem) for problem in loop.problems} == {"by a test"}
    assert counts[fine] > 0


def test_turns_count_for_failing_ones_too() -> None:
    loop = Loop()
    scheduler = loop.subscription(0.0, fails=True, concurrency=10_000)
    assert loop.starts[scheduler] <= A_TURN
