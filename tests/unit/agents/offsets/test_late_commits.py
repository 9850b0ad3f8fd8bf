"""What is older, and where to begin, when Kafka may have got an older commit late."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.offsets.late_commits import Start, is_older, start_at
from agents.offsets.offset_metadata import OffsetMetadata, read, write
from agents.offsets.offset_tracker import OffsetTracker
from tables.kafka.admin.answers import GroupOffset


def tracker(start: int, settled: frozenset[int] = frozenset(), attempts: dict[int, int] | None = None) -> OffsetTracker:
    return OffsetTracker(start, OffsetMetadata(settled, attempts or {}))


def committed(offset: int, settled: set[int] | None = None, attempts: dict[int, int] | None = None) -> GroupOffset:
    return GroupOffset(offset, write(offset, settled or set(), attempts or {}, {}))


@pytest.mark.parametrize(
    ("in_kafka", "mine", "older"),
    [
        (committed(38), tracker(488), True),
        (committed(488), tracker(488), False),
        (committed(489), tracker(488), False),
        (committed(5, {7}), tracker(5, frozenset({7, 9})), True),
        (committed(5, {7, 9, 11}), tracker(5, frozenset({7, 9})), False),
        (committed(5), tracker(5, attempts={5: 1}), True),
        (committed(5, attempts={5: 1}), tracker(5, attempts={5: 2}), True),
        (committed(5, attempts={5: 2}), tracker(5, attempts={5: 2}), False),
        (GroupOffset(5, "another client's"), tracker(5, frozenset({7})), True),
        (GroupOffset(5, None), tracker(5), False),
    ],
)
def test_what_is_older_has_less_that_is_settled_or_attempted(
    in_kafka: GroupOffset, mine: OffsetTracker, older: bool
) -> None:
    assert is_older(in_kafka, mine) is older


@given(st.integers(0, 9), st.lists(st.sampled_from(["add", "settle", "fail"]), max_size=60), st.randoms())
def test_later_commit_is_never_older_than_an_earlier_one(start: int, steps: list[str], random: object) -> None:
    """And an earlier one is older, unless it says the same."""
    mine = OffsetTracker(start)
    commits = [GroupOffset(start, "")]
    for step in steps:
        unsettled = [offset for offset in mine.pending if offset not in mine.settled]
        if step == "add":
            mine.add(mine.fetched)
        elif unsettled:
            offset = random.choice(unsettled)  # type: ignore[attr-defined]
            if step == "settle":
                mine.settle(offset)
            else:
                mine.failed(offset, mine.attempts.get(offset, 0) + 1)
        commits.append(GroupOffset(mine.committable, mine.metadata()))
        assert not is_older(commits[-1], mine)
    same = (mine.committable, read(mine.committable, mine.metadata()))
    for commit in commits:
        assert is_older(commit, mine) is ((commit.offset, read(commit.offset, commit.metadata)) != same)


@pytest.mark.parametrize(
    ("in_kafka", "reported", "start"),
    [
        (committed(38), 488, Start(488, "", committed=False)),
        (committed(488, {490}), 488, Start(488, committed(488, {490}).metadata)),
        (committed(500), 488, Start(500, "")),
        (committed(38), None, Start(38, "")),
    ],
)
def test_who_opens_a_partition_begins_where_its_last_owner_was(
    in_kafka: GroupOffset, reported: int | None, start: Start
) -> None:
    assert start_at(in_kafka, reported) == start
