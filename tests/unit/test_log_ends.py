"""When the committed offset may move over offsets that are no records: never over one that is not settled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.consumer.log_end_offsets import pass_over, read_through
from agents.ordering.offset_tracker import Watermark
from agents.ordering.scheduler import Partition, Record, Window
from knative.delivery.policy import Order


def _partition(fetched: int = 3, settled: tuple[int, ...] = (), reached: int = 5) -> Partition:
    partition = Partition("t", 0, Watermark(0))
    for offset in range(fetched):
        partition.watermark.add(offset)
    for offset in settled:
        partition.watermark.settle(offset)
    partition.reached = reached
    return partition


@pytest.mark.parametrize(
    ("settled", "mark"), [((), 0), ((0,), 1), ((1, 2), 0), ((0, 1), 2), ((0, 1, 2), 5), ((2, 1, 0), 5)]
)
def test_the_end_counts_as_far_as_all_below_it_is_settled(settled: tuple[int, ...], mark: int) -> None:
    partition = _partition(settled=settled)
    changes = partition.watermark.changes

    assert read_through([partition]) == [partition]
    pass_over(partition)

    assert (partition.watermark.next, partition.watermark.fetched) == (mark, 5)
    assert partition.watermark.changes > changes, "it is committed"
    assert read_through([partition]) == []


@pytest.mark.parametrize("reached", [-1, 0, 2, 3])
def test_an_end_at_the_newest_record_or_before_it_changes_nothing(reached: int) -> None:
    partition = _partition(settled=(0, 1, 2), reached=reached)
    changes = partition.watermark.changes

    assert read_through([partition]) == []
    pass_over(partition)

    assert (partition.watermark.next, partition.watermark.changes) == (3, changes)


def test_a_stopped_partition_stays_where_it_is() -> None:
    partition = _partition(settled=(0, 1, 2))
    partition.failure = "its topic was made anew"

    assert read_through([partition]) == []


def test_what_a_closed_partition_was_handed_is_not_passed_over() -> None:
    """Its records are dropped, and the next owner reads them again."""
    window, partition = Window(lambda _: None, Order.UNORDERED, 10), _partition(fetched=0)
    window.close([partition])
    window.feed(partition, [Record(partition, offset, None, b"", [], 1) for offset in range(4)])

    pass_over(partition)

    assert partition.watermark.next == 0


@given(
    st.lists(st.booleans(), max_size=60),
    st.lists(st.tuples(st.booleans(), st.integers(0, 60)), max_size=120),
)
def test_whatever_lies_in_a_log_the_mark_never_passes_a_record_that_is_not_settled(
    log: list[bool], steps: list[tuple[bool, int]]
) -> None:
    """`log`: which offsets are records; a step reads to an offset, or settles one that was read."""
    partition = Partition("t", 0, Watermark(0))
    unsettled: set[int] = set()
    read_to = 0
    for reads, at in steps:
        if reads and read_to <= at <= len(log):
            for offset in [offset for offset in range(read_to, at) if log[offset]]:
                assert partition.watermark.add(offset)
                unsettled.add(offset)
            read_to = partition.reached = at
            for found in read_through([partition]):
                pass_over(found)
            assert partition.watermark.fetched == read_to
        elif at in unsettled:
            partition.watermark.settle(at)
            unsettled.discard(at)
        assert partition.watermark.next == min(unsettled, default=read_to)
