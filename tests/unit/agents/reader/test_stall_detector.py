"""When a partition counts as lost by its client."""

from __future__ import annotations

import pytest

from agents.offsets.offset_tracker import OffsetTracker
from agents.offsets.partition import PartitionState
from agents.reader.stall_detector import STALL_S, StallDetector


def _partition(end: int, fetched: int = 0) -> PartitionState:
    partition = PartitionState("t", 0, OffsetTracker(fetched))
    partition.log_end_offset = end
    return partition


def _times_named(detector: StallDetector, partition: PartitionState, paused: set[int], seconds: float) -> int:
    """Returns how often the partition is named in so many seconds, with a look ten times a second."""
    return sum(len(detector.stalled([partition], paused, at / 10)) for at in range(round(10 * seconds)))


def test_partition_that_gives_nothing_is_named_after_ever_longer_waits() -> None:
    """It may be the marker of a transaction, which no client ever gets."""
    assert _times_named(StallDetector(), _partition(5), set(), 2.9 * STALL_S) == 1
    assert _times_named(StallDetector(), _partition(5), set(), 8 * STALL_S) == 3


@pytest.mark.parametrize(
    ("end", "fetched", "paused", "failure"),
    [(5, 5, set(), ""), (-1, 0, set(), ""), (5, 0, {0}, ""), (5, 0, set(), "recreated")],
)
def test_partition_that_may_give_nothing_is_not_named(end: int, fetched: int, paused: set[int], failure: str) -> None:
    partition = _partition(end, fetched)
    partition.failure = failure
    assert _times_named(StallDetector(), partition, paused, 3 * STALL_S) == 0


def test_each_record_and_each_assignment_restart_the_timer() -> None:
    detector, partition = StallDetector(), _partition(100)
    for at in range(0, 200, 10):
        partition.fetched_count += 1
        assert detector.stalled([partition], set(), float(at)) == []
    again = _partition(100)
    again.fetched_count = partition.fetched_count
    assert detector.stalled([again], set(), 200.0 + STALL_S) == []
