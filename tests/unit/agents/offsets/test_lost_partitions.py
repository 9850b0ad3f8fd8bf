"""Where a lost partition goes on: what was settled stays settled, a position set by hand is obeyed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agents.offsets.lost_partitions import LostPartitions, handed_over, resumed
from agents.offsets.offset_metadata import OffsetMetadata, read
from agents.offsets.offset_tracker import OffsetTracker
from agents.offsets.partition import PartitionState

SPAN = 40


def partition(
    number: int, settled: set[int], fetched: int, *, start: int = 100, committed: bool = False
) -> PartitionState:
    """Returns a partition that began at `start`, fetched up to `fetched` and settled these offsets."""
    state = PartitionState("t", number, OffsetTracker(start))
    for offset in range(start, fetched):
        state.tracker.add(offset)
    for offset in sorted(settled):
        state.tracker.settle(offset)
    if committed:
        state.committed = state.tracker.changes
        state.acknowledged = state.requested = state.tracker.committable
    return state


def test_partition_goes_on_where_this_process_stopped() -> None:
    kept = partition(0, {100, 101, 103}, 105)
    mark = resumed(100, OffsetMetadata(), kept.tracker, 100)
    assert (mark.committable, mark.settled) == (102, {103})
    assert mark.changes, "Kafka does not know it, so it is to be committed"


def test_another_owner_that_went_further_wins() -> None:
    kept = partition(0, {100, 101, 120}, 125)
    mark = resumed(110, OffsetMetadata(frozenset({112})), kept.tracker, 100)
    assert (mark.committable, mark.settled) == (110, {112, 120})


def test_position_below_what_kafka_confirmed_was_set_by_hand() -> None:
    kept = partition(0, {100, 101, 102}, 105, committed=True)
    mark = resumed(50, OffsetMetadata(), kept.tracker, kept.acknowledged)
    assert (mark.committable, mark.settled, mark.changes) == (50, set(), 0)


def test_nothing_new_is_nothing_to_commit() -> None:
    kept = partition(0, {100}, 105, committed=True)
    assert resumed(101, OffsetMetadata(), kept.tracker, 101).changes == 0


def test_attempts_and_their_times_survive() -> None:
    kept = partition(0, set(), 105)
    kept.tracker.failed(100, 3, 50.0)
    mark = resumed(100, OffsetMetadata(attempts={100: 2, 101: 1}, due={100: 40.0}), kept.tracker, 100)
    assert (mark.attempts, mark.due) == ({100: 3, 101: 1}, {100: 50.0})


def test_time_of_the_next_attempt_is_the_one_of_the_owner_that_made_the_last() -> None:
    kept = partition(0, set(), 105)
    for offset, attempts, due in ((100, 1, 50.0), (101, 2, 50.0), (102, 2, 50.0), (103, 2, 50.0)):
        kept.tracker.failed(offset, attempts, due)
    metadata = OffsetMetadata(attempts={100: 2, 101: 2, 102: 1, 103: 3}, due={100: 900.0, 101: 900.0, 102: 900.0})
    mark = resumed(100, metadata, kept.tracker, 100)
    assert mark.attempts == {100: 2, 101: 2, 102: 2, 103: 3}
    assert mark.due == {100: 900.0, 101: 900.0, 102: 50.0}, "of 103 all attempts are used up"


@given(
    first=st.sets(st.integers(100, 100 + SPAN)),
    second=st.sets(st.integers(100, 100 + SPAN)),
    failing=st.dictionaries(st.integers(100, 100 + SPAN), st.integers(1, 9)),
)
def test_settled_by_either_owner_is_never_delivered_and_nothing_else_is_left_out(
    first: set[int], second: set[int], failing: dict[int, int]
) -> None:
    ours, theirs = partition(0, first, 101 + SPAN), partition(0, second, 101 + SPAN)
    for offset, attempts in failing.items():
        if offset not in first:
            ours.tracker.failed(offset, attempts)
    committed = theirs.tracker.committable
    metadata = read(committed, theirs.tracker.metadata())
    mark = resumed(committed, metadata, ours.tracker, 100)
    delivered = [offset for offset in range(mark.committable, 101 + SPAN) if mark.add(offset)]
    assert delivered == [offset for offset in range(100, 101 + SPAN) if offset not in first | second]
    assert all(mark.attempts.get(offset, 0) == failing.get(offset, 0) for offset in delivered)
    assert read(mark.committable, mark.metadata()).settled == frozenset(mark.settled)


def test_what_was_kept_counts_once() -> None:
    lost = LostPartitions()
    lost.keep([partition(0, {100}, 101), partition(1, {100}, 101)])
    assert lost.opened("t", 0, 100, "").tracker.committable == 101
    assert lost.opened("t", 0, 100, "").tracker.committable == 100, "what was kept is used up"
    assert lost.opened("t", 1, 100, "").tracker.committable == 101


def test_partition_that_was_never_owned_starts_where_kafka_says() -> None:
    lost = LostPartitions()
    tracker = OffsetTracker(7, OffsetMetadata(frozenset({9})))
    opened = lost.opened("t", 3, 7, tracker.metadata())
    assert (opened.tracker.settled, opened.acknowledged, opened.requested) == ({9}, 7, 7)


def test_next_owner_is_handed_nothing_if_others_have_committed_since() -> None:
    lost = partition(0, {100, 102}, 103)
    lost.acknowledged, lost.requested = 90, 100
    assert [handed_over(lost, committed, "") is None for committed in (89, 90, 91, 100, 101)] == [
        True, False, True, False, True,
    ]  # fmt: skip
    tracker = handed_over(lost, 100, "")
    assert tracker is not None
    assert (tracker.committable, tracker.settled) == (101, {102})
