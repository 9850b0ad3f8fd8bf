"""The tables of states: which event is possible in which state, and where it leads."""

from __future__ import annotations

from typing import Any

import pytest

from agents.offsets.commit_state import (
    COMMIT,
    CONFIRMATION,
    CONFIRMING,
    NEXT,
    SOON_S,
    CommitMachine,
    CommitState,
    Confirmation,
    Event,
    NextCommit,
)
from agents.offsets.offset_tracker import OffsetTracker
from agents.offsets.partition import PartitionState


def dirty(number: int = 0) -> PartitionState:
    """With one settled record, which is not committed."""
    partition = PartitionState("t", number, OffsetTracker(0))
    partition.tracker.add(0)
    partition.tracker.settle(0)
    return partition


def machine(*partitions: PartitionState) -> CommitMachine:
    made = CommitMachine(interval_s=0.5, timeout_s=2.0)
    made.attach(0.0, {partition.number: partition for partition in partitions})
    return made


def states(it: CommitMachine) -> tuple[CommitState, NextCommit, Confirmation]:
    return it.state, it.next, it.confirmation


NONE, REQUESTED, SENT = CommitState
NOT_WANTED, SCHEDULED, DUE = NextCommit
CONFIRMED, PENDING, FROZEN, SILENT = Confirmation


TABLES: list[tuple[Any, Any]] = [(COMMIT, CommitState), (NEXT, NextCommit), (CONFIRMATION, Confirmation)]


@pytest.mark.parametrize(("table", "states"), TABLES)
def test_every_state_has_a_row_and_is_reached_from_the_first_one(table: Any, states: Any) -> None:
    assert set(table) == set(states)
    reached = {next(iter(states))}
    for _ in states:
        reached |= {to for state in reached for to in table[state].values()}
    assert reached == set(states)


def test_every_state_can_be_left() -> None:
    assert {Event.SUCCEEDED, Event.CLEAN, Event.FORGOTTEN} == CONFIRMING, "any state of Confirmation is left by these"
    assert all(Event.FORGOTTEN in row for row in COMMIT.values()), "a commit never outlives its partitions"
    assert all(Event.DETACHED in row for row in NEXT.values())


def test_usual_way_of_a_commit() -> None:
    it = machine(dirty())
    assert states(it) == (NONE, NOT_WANTED, CONFIRMED)
    it.schedule(1.0)
    assert (states(it), it.due_at) == ((NONE, SCHEDULED, CONFIRMED), 1.5)
    it.due(1.5)
    assert (states(it), it.due_at, it.overdue_at) == ((REQUESTED, NOT_WANTED, PENDING), None, 3.5)
    commit = it.send()
    assert commit is it.commit
    assert states(it) == (SENT, NOT_WANTED, PENDING)
    assert it.send() is None, "once"
    assert not it.answered(1.6, True)
    assert (states(it), it.commit, it.overdue_at) == ((NONE, NOT_WANTED, CONFIRMED), None, None)


@pytest.mark.parametrize(
    ("within_s", "later_within_s", "due_at"),
    [(None, None, 1.5), (None, 0.0, 1.25), (0.25, None, 1.25), (0.25, 0.0, 1.25), (1.0, None, 1.75)],
)
def test_earliest_time_is_due(within_s: float | None, later_within_s: float | None, due_at: float) -> None:
    it = machine()
    it.schedule(1.0, within_s)
    it.schedule(1.25, later_within_s)
    assert it.due_at == due_at


@pytest.mark.parametrize(
    ("confirmed", "due_while_sent", "next_at"),
    [(True, False, None), (True, True, 2.0 + SOON_S), (False, False, 2.5), (False, True, 2.5)],
)
def test_when_the_next_one_follows_an_answer(confirmed: bool, due_while_sent: bool, next_at: float | None) -> None:
    """Soon only after a success."""
    it = machine(dirty())
    it.schedule(0.0, 0.0)
    it.due(0.0)
    it.send()
    if due_while_sent:
        it.schedule(0.0, 0.0)
        it.due(0.0)
        assert it.next is DUE
        it.schedule(0.0, 0.0)
        assert (it.next, it.due_at) == (DUE, None), "the answer schedules it"
    assert it.answered(2.0, confirmed) is not confirmed
    assert it.due_at == next_at


@pytest.mark.parametrize(
    ("due_s_late", "overdue_s_late", "becomes"),
    [(0.0, 0.0, SILENT), (0.0, 0.9, SILENT), (0.0, 1.1, FROZEN), (2.1, 0.0, SILENT), (2.1, 1.1, FROZEN)],
)
def test_silent_is_only_who_was_awake(due_s_late: float, overdue_s_late: float, becomes: Confirmation) -> None:
    it = machine(dirty())
    it.schedule(0.0, 0.0)
    it.due(due_s_late)
    assert it.confirmation is (FROZEN if due_s_late else PENDING)
    assert it.overdue_at is not None
    it.overdue(it.overdue_at + overdue_s_late)
    assert (it.confirmation, it.waiting) == (becomes, True)


def test_limit_is_that_of_the_first_commit_without_success() -> None:
    it = machine(dirty())
    for now in (0.0, 1.0):
        it.schedule(now, 0.0)
        it.due(now)
        it.send()
        it.answered(now, False)
        assert (it.overdue_at, it.confirmation) == (2.0, PENDING)


def test_what_the_lost_partitions_do_not_concern_is_due_again() -> None:
    it = machine(dirty(0), dirty(1))
    it.schedule(0.0, 0.0)
    it.due(0.0)
    it.send()
    it.forget(1.0)
    assert (states(it), it.due_at) == ((NONE, SCHEDULED, CONFIRMED), 1.5)


@pytest.mark.parametrize("silent", [False, True])
def test_refusal_confirms_nothing_although_its_partition_has_gone(silent: bool) -> None:
    """Then nothing is left to be committed, and the next timer finds that."""
    gone = dirty(0)
    partitions = {0: gone}
    it = CommitMachine(0.5, 2.0)
    it.attach(0.0, partitions)
    it.schedule(0.0, 0.0)
    it.due(0.0)
    it.send()
    if silent:
        it.overdue(2.0)
    del partitions[0]
    assert not it.answered(2.0, False)
    assert (states(it), it.due_at) == ((NONE, SCHEDULED, SILENT if silent else PENDING), 2.5)
    assert gone.committed == 0
    it.due(2.5)
    assert states(it) == (NONE, NOT_WANTED, CONFIRMED)


def test_answer_before_the_request_was_sent_is_a_fault() -> None:
    it = machine(dirty())
    it.schedule(0.0, 0.0)
    it.due(0.0)
    with pytest.raises(AssertionError, match="SUCCEEDED while"):
        it.answered(0.0, True)
