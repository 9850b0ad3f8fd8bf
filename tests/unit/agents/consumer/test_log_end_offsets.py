"""When the committed offset may move over offsets that are no records: never over one that is not settled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.consumer.log_end_offsets import read_to_end, skip_to_end
from agents.ordering.offset_tracker import OffsetTracker
from agents.ordering.partition import Delivery, PartitionState
from agents.ordering.scheduler import Scheduler
from knative.delivery.policy import DeliveryOrder


def _partition(fetched: int = 3, settled: tuple[int, ...] = (), reached: int = 5) -> PartitionState:
    partition = PartitionState("t", 0, OffsetTracker(0))
    for offset in range(fetched):
        partition.tracker.add(offset)
    for offset in settled:
        partition.tracker.settle(offset)
    partition.reached = reached
    return partition


@pytest.mark.parametrize(
    ("settled", "mark"), [((), 0), ((0,), 1), ((1, 2), 0), ((0, 1), 2), ((0, 1, 2), 5), ((2, 1, 0), 5)]
)
def test_the_end_counts_as_far_as_all_below_it_is_settled(settled: tuple[int, ...], mark: int) -> None:
    partition = _partition(settled=settled)
    changes = partition.tracker.changes

    assert read_to_end([partition]) == [partition]
    skip_to_end(partition)

    assert (partition.tracker.committable, partition.tracker.fetched) == (mark, 5)
    assert partition.tracker.changes > changes, "it is committed"
    assert read_to_end([partition]) == []


@pytest.mark.parametrize("reached", [-1, 0, 2, 3])
def test_an_end_at_the_newest_record_or_before_it_changes_nothing(reached: int) -> None:
    partition = _partition(settled=(0, 1, 2), reached=reached)
    changes = partition.tracker.changes

    assert read_to_end([partition]) == []
    skip_to_end(partition)

    assert (partition.tracker.committable, partition.tracker.changes) == (3, changes)


def test_a_stopped_partition_stays_where_it_is() -> None:
    partition = _partition(settled=(0, 1, 2))
    partition.failure = "its topic was recreated"

    assert read_to_end([partition]) == []


def test_what_a_closed_partition_was_handed_is_not_passed_over() -> None:
    """Its records are dropped, and the next owner reads them again."""
    window, partition = Scheduler(lambda _: None, DeliveryOrder.UNORDERED, 10), _partition(fetched=0)
    window.close([partition])
    window.enqueue(partition, [Delivery(partition, offset, None, b"", [], 1) for offset in range(4)])

    skip_to_end(partition)

    assert partition.tracker.committable == 0


@given(
    st.lists(st.booleans(), max_size=60),
    st.lists(st.tuples(st.booleans(), st.integers(0, 60)), max_size=120),
)
def test_the_committable_offset_never_passes_an_unsettled_record(
    log: list[bool], steps: list[tuple[bool, int]]
) -> None:
    """`log`: which offsets are records; a step reads to an offset, or settles one that was read."""
    partition = PartitionState("t", 0, OffsetTracker(0))
    unsettled: set[int] = set()
    read_to = 0
    for reads, at in steps:
        if reads and read_to <= at <= len(log):
            for offset in [offset for offset in range(read_to, at) if log[offset]]:
                assert partition.tracker.add(offset)
                unsettled.add(offset)
            read_to = partition.reached = at
            for found in read_to_end([partition]):
                skip_to_end(found)
            assert partition.tracker.fetched == read_to
        elif at in unsettled:
            partition.tracker.settle(at)
            unsettled.discard(at)
        assert partition.tracker.committable == min(unsettled, default=read_to)
