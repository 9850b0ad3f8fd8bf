"""Memory budget: memory stays bounded, and a partition that stands still does not make the others wait."""

from __future__ import annotations

from agents.offsets.offset_metadata import SPAN_MAX
from agents.offsets.offset_tracker import OffsetTracker
from agents.offsets.partition import PartitionState
from agents.reader.memory_budget import RECORDS_MAX, MemoryBudget
from agents.timing import FULL_S


def partition(number: int, held_bytes: int, held: int = 1) -> PartitionState:
    made = PartitionState("t", number, OffsetTracker(0))
    made.fetched_bytes, made.fetched_count = held_bytes, held
    return made


def test_full_until_half_of_it_is_settled() -> None:
    budget = MemoryBudget(1000)
    assert not budget.is_full([])
    assert budget.is_full([partition(0, 600), partition(1, 400)])
    assert not budget.is_full([partition(0, 600), partition(1, 300)])
    assert budget.surplus([partition(0, 600), partition(1, 400)]) == 501
    assert budget.surplus([partition(0, 400), partition(1, 100)]) > 0
    assert budget.surplus([partition(0, 400), partition(1, 99)]) <= 0


def test_one_event_larger_than_everything_is_taken() -> None:
    budget = MemoryBudget(1000)
    assert not budget.is_full([partition(0, 0, 0)])


def test_half_the_budget_pauses_at_once_but_never_the_only_one() -> None:
    budget = MemoryBudget(1000)
    assert budget.to_pause([partition(0, 999)], 0.0, in_time=True) == []
    slow, other = partition(0, 500), partition(1, 10)
    assert budget.to_pause([slow, other], 0.0, in_time=True) == [slow]
    assert budget.to_pause([slow, other], 0.0, in_time=True) == [], "paused already"
    assert not budget.is_full([slow, other]), "a paused one does not count against the others"


def test_above_its_share_it_is_paused_only_when_it_stands_still() -> None:
    budget = MemoryBudget(1000)
    parts = [partition(n, 10) for n in range(4)]
    parts[0].fetched_bytes = 300
    assert budget.to_pause(parts, 0.0, in_time=True) == []
    parts[0].released = 1
    assert budget.to_pause(parts, FULL_S, in_time=True) == []
    assert budget.to_pause(parts, 2.1 * FULL_S, in_time=True) == [parts[0]]


def test_when_waiting_did_not_help_those_above_their_share_are_paused() -> None:
    budget = MemoryBudget(1000)
    parts = [partition(0, 300), partition(1, 100), partition(2, 300), partition(3, 300)]
    assert budget.to_pause(parts, 0.0, in_time=False) == [parts[0], parts[2], parts[3]]


def test_many_small_records_and_wide_gaps_pause() -> None:
    budget = MemoryBudget(10**9)
    many, wide = partition(0, 10, RECORDS_MAX), partition(1, 10)
    wide.tracker.fetched = SPAN_MAX // 2
    assert budget.to_pause([many, wide, partition(2, 1)], 0.0, in_time=True) == [many, wide]


def test_resumed_at_half_its_share_unless_it_has_failed() -> None:
    budget = MemoryBudget(1000)
    partition_state, two = partition(0, 600), partition(1, 600)
    budget.to_pause([partition_state, two], 0.0, in_time=True)
    assert budget.paused == {0, 1}
    partition_state.released_bytes = two.released_bytes = 349
    assert budget.to_resume([partition_state, two]) == []
    partition_state.released_bytes = two.released_bytes = 350
    two.failure = "re-made"
    assert budget.to_resume([partition_state, two]) == [partition_state]
    assert budget.paused == {1}
    budget.forget(1)
    assert budget.paused == set()
