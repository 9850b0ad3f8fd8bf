"""Fair turns: a turn of the loop starts a bounded number of requests, and each subscription that waits gets a share."""

from __future__ import annotations

from collections.abc import Callable

from agents.offsets.offset_tracker import OffsetTracker
from agents.offsets.partition import Delivery, PartitionState
from agents.ordering.scheduler import Scheduler
from agents.ordering.turns import FEW, STARTS_MAX, STARTS_MIN, Turns
from knative.delivery.policy import DeliveryOrder

DEEP = 5_000


class Loop:
    """An event loop that a test turns by hand; a start costs `start_s`, a turn in which nothing is started nothing."""

    def __init__(self, start_s: float = 0.0) -> None:
        self.start_s = start_s
        self.now = 0.0
        self.started: list[Delivery] = []  # in this turn
        self.problems: list[BaseException] = []
        self.turns = Turns(self.problems.append, self._soon, lambda: self.now)
        self._next: list[Callable[[], None]] = []

    def _soon(self, function: Callable[[], None]) -> None:
        self._next.append(function)

    def start(self, record: Delivery) -> None:
        """What a window calls."""
        self.now += self.start_s
        self.started.append(record)

    def scheduler(self, order: DeliveryOrder, concurrency: int, backlog: int) -> Scheduler:
        """One with so much before it."""
        scheduler = Scheduler(self.start, order, concurrency, self.turns)
        partition = PartitionState("t", 0, OffsetTracker(0))
        scheduler.enqueue(partition, [Delivery(partition, offset, None, None, [], 1) for offset in range(backlog)])
        return scheduler

    def turn(self, windows: dict[Scheduler, set[Delivery]]) -> dict[Scheduler, int]:
        """All requests that are under way are answered, then what was put off is done; starts by window."""
        self.started = []
        for scheduler, flying in windows.items():
            answered, windows[scheduler] = flying, set()
            for record in answered:
                scheduler.done(record)
        functions, self._next = self._next, []
        for function in functions:
            function()
        counts = dict.fromkeys(windows, 0)
        for record in self.started:
            (scheduler,) = [scheduler for scheduler in windows if record in scheduler.started]
            windows[scheduler].add(record)
            counts[scheduler] += 1
        return counts


def _flying(scheduler: Scheduler) -> set[Delivery]:
    return set(scheduler.started)


def test_beside_deep_backlogs_one_in_flight_has_a_start_in_every_turn() -> None:
    loop = Loop(start_s=0.0001)
    greedy = [loop.scheduler(DeliveryOrder.UNORDERED, 100, DEEP) for _ in range(2)]
    ordered = loop.scheduler(DeliveryOrder.ORDERED, 100, DEEP)
    windows = {scheduler: _flying(scheduler) for scheduler in (*greedy, ordered)}
    for _ in range(20):
        loop.turn(windows)  # until it is known what a start costs
    for _ in range(30):
        counts = loop.turn(windows)
        assert counts[ordered] == 1
        assert sum(counts.values()) <= 60, "a turn is some milliseconds"
        assert abs(counts[greedy[0]] - counts[greedy[1]]) <= 2 * FEW


def test_alone_and_cheap_all_slots_are_used() -> None:
    loop = Loop()
    scheduler = loop.scheduler(DeliveryOrder.UNORDERED, 100, DEEP)
    windows = {scheduler: _flying(scheduler)}
    for _ in range(20):
        loop.turn(windows)
    assert [loop.turn(windows)[scheduler] for _ in range(20)] == [100] * 20


def test_dear_starts_make_turns_small_and_cheap_ones_make_them_large_again() -> None:
    loop = Loop(start_s=0.01)
    scheduler = loop.scheduler(DeliveryOrder.UNORDERED, 1_000, 100 * DEEP)
    windows = {scheduler: _flying(scheduler)}
    for _ in range(40):
        counts = loop.turn(windows)
    assert counts[scheduler] <= STARTS_MIN + FEW
    loop.start_s = 0.0
    for _ in range(100):
        counts = loop.turn(windows)
    assert STARTS_MAX <= counts[scheduler] <= STARTS_MAX + FEW


def test_who_has_few_in_flight_does_not_wait() -> None:
    loop = Loop()
    loop.turns.left = 0
    scheduler = loop.scheduler(DeliveryOrder.UNORDERED, 100, FEW + 3)
    assert len(loop.started) == FEW
    assert loop.turn({scheduler: set()})[scheduler] == 3


def test_many_that_wait_all_have_their_turn() -> None:
    loop = Loop()
    loop.turns.left = 0
    windows = {
        scheduler: _flying(scheduler)
        for scheduler in [loop.scheduler(DeliveryOrder.UNORDERED, 9, 9) for _ in range(STARTS_MAX)]
    }
    loop.turn(windows)
    assert min(len(scheduler.started) + scheduler.settled for scheduler in windows) > FEW
    for _ in range(10):
        loop.turn(windows)
    assert {scheduler.settled for scheduler in windows} == {9}


def test_one_that_fails_to_start_ends_the_process_and_the_others_go_on() -> None:
    loop = Loop()
    loop.turns.left = 0
    broken = loop.scheduler(DeliveryOrder.UNORDERED, 100, 10)
    fine = loop.scheduler(DeliveryOrder.UNORDERED, 100, 10)

    def fail(_: Delivery) -> None:
        raise RuntimeError("by a test")

    broken._start = fail
    loop.turn({broken: set(), fine: set()})
    assert [str(problem) for problem in loop.problems] == ["by a test"]
    assert len(fine.started) == 10
