"""The states of a subscription's commits, and which may follow which. No event loop, no Kafka.

    CommitState    is a commit on its way?      NONE ---> REQUESTED ---> SENT ---> NONE
    NextCommit     when is another one due?     NONE ---> SCHEDULED ---> NONE, or ---> DUE while one is on its way
    Confirmation   does Kafka confirm them?     CONFIRMED ---> PENDING ---> SILENT, or ---> FROZEN

Everything that affects these states is in `CommitMachine`. Each method is one event. It changes the states only as the
three tables allow, and the caller makes timers and listeners follow `due_at`, `overdue_at` and `waiting`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from agents.offsets.partition import PartitionState
from agents.timing import LOOK_S, TICK_S

SOON_S = 2 * TICK_S


class CommitState(Enum):
    """Where the one commit is that may be on its way."""

    NONE = "no commit is on its way"
    REQUESTED = "it waits until Kafka has confirmed the assignment"
    SENT = "it is not answered yet"


class NextCommit(Enum):
    """Whether another commit is due after the one on its way."""

    NONE = "nothing has changed since the last request"
    SCHEDULED = "a timer runs"
    DUE = "its timer has ended while another commit was on its way; the answer to that one schedules it again"


class Confirmation(Enum):
    """Whether Kafka confirms commits in time. No first attempts are made while it is FROZEN or SILENT."""

    CONFIRMED = "no commit waits for success"
    PENDING = "the first commit without success is younger than the limit"
    FROZEN = "this process was frozen for the limit: its session may have ended, and others own the partitions"
    SILENT = "no commit has succeeded for the limit while this process ran: probably no member could commit"


class Event(Enum):
    """What changes a state."""

    SCHEDULED = "something has changed"
    REQUESTED = "the timer has ended, and a commit was prepared"
    MISSED = "the timer has ended while another commit was on its way"
    CLEAN = "the timer has ended, and no owned partition has uncommitted changes"
    SENT = "the commit is sent"
    SUCCEEDED = "the commit is confirmed"
    REFUSED = "the commit has failed"
    FORGOTTEN = "partitions were lost, or a new client has joined"
    DETACHED = "the client is about to be closed"
    OVERDUE = "no commit has succeeded for the limit"
    WOKEN = "a timer has ended so late that the process must have been frozen"


_C, _N, _K, _E = CommitState, NextCommit, Confirmation, Event

COMMIT: Mapping[CommitState, Mapping[Event, CommitState]] = {
    _C.NONE: {_E.REQUESTED: _C.REQUESTED, _E.FORGOTTEN: _C.NONE},
    _C.REQUESTED: {_E.SENT: _C.SENT, _E.FORGOTTEN: _C.NONE},
    _C.SENT: {_E.SUCCEEDED: _C.NONE, _E.REFUSED: _C.NONE, _E.FORGOTTEN: _C.NONE},
}

NEXT: Mapping[NextCommit, Mapping[Event, NextCommit]] = {
    _N.NONE: {_E.SCHEDULED: _N.SCHEDULED, _E.DETACHED: _N.NONE},
    _N.SCHEDULED: {
        _E.SCHEDULED: _N.SCHEDULED,  # perhaps earlier
        _E.REQUESTED: _N.NONE,
        _E.CLEAN: _N.NONE,
        _E.MISSED: _N.DUE,
        _E.DETACHED: _N.NONE,
    },
    # What is due is scheduled again, whatever becomes of the commit before it.
    _N.DUE: {_E.SCHEDULED: _N.SCHEDULED, _E.DETACHED: _N.NONE},
}

#: All other events leave it as it is.
CONFIRMATION: Mapping[Confirmation, Mapping[Event, Confirmation]] = {
    _K.CONFIRMED: {_E.REQUESTED: _K.PENDING, _E.WOKEN: _K.FROZEN},
    _K.PENDING: {_E.OVERDUE: _K.SILENT, _E.WOKEN: _K.FROZEN},
    # To SILENT: the process woke up before the limit of its first commit was over, and then Kafka did not answer.
    _K.FROZEN: {_E.OVERDUE: _K.SILENT},
    _K.SILENT: {},
}
#: From any state: a commit has succeeded, or none is needed.
CONFIRMING = frozenset({_E.SUCCEEDED, _E.CLEAN, _E.FORGOTTEN})

_State = TypeVar("_State", CommitState, NextCommit)


def _after(table: Mapping[_State, Mapping[Event, _State]], state: _State, event: Event) -> _State:
    to = table[state].get(event)
    assert to is not None, f"{event} while {state}"
    return to


@dataclass(frozen=True, slots=True)
class Change:
    """What a commit wants for one partition. `changes`: the tracker's counter when the commit was made up."""

    partition: PartitionState
    changes: int
    offset: int
    metadata: str


def _is_dirty(partition: PartitionState) -> bool:
    return partition.tracker.changes != partition.committed


def changes(partitions: Iterable[PartitionState]) -> tuple[Change, ...]:
    """Returns what a commit has to say of each of these partitions that has uncommitted changes."""
    return tuple(
        Change(p, p.tracker.changes, p.tracker.committable, p.tracker.metadata()) for p in partitions if _is_dirty(p)
    )


@dataclass(frozen=True, slots=True, eq=False)
class Commit:
    """One commit, from its request to its answer."""

    changes: tuple[Change, ...]


class CommitMachine:
    """The commits of one subscription."""

    __slots__ = (
        "_interval_s",
        "_partitions",
        "_timeout_s",
        "commit",
        "confirmation",
        "due_at",
        "next",
        "overdue_at",
        "state",
    )

    def __init__(self, interval_s: float, timeout_s: float) -> None:
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._partitions: Mapping[int, PartitionState] = {}
        self.state = CommitState.NONE
        self.next = NextCommit.NONE
        self.confirmation = Confirmation.CONFIRMED
        self.commit: Commit | None = None  #: the one on its way; None in CommitState.NONE
        self.due_at: float | None = None  #: when the timer of the next commit ends; None unless it is SCHEDULED
        self.overdue_at: float | None = None  #: the limit of the first commit without success

    @property
    def waiting(self) -> bool:
        """No first attempts are to be made."""
        return self.confirmation is Confirmation.FROZEN or self.confirmation is Confirmation.SILENT

    # -- what is owned

    def attach(self, now: float, partitions: Mapping[int, PartitionState]) -> None:
        """Commit for the partitions in this live mapping from now on."""
        self._partitions = partitions
        self.forget(now)

    def detach(self, now: float) -> None:
        """Nothing is owned, and nothing is due."""
        self.attach(now, {})
        self.next = _after(NEXT, self.next, Event.DETACHED)
        self.due_at = None

    def forget(self, now: float) -> None:
        """Partitions were lost: ignore the answer to the commit on its way, and do not wait for it."""
        dropped = self.commit is not None
        self.state = _after(COMMIT, self.state, Event.FORGOTTEN)
        self.commit = None
        self._confirm(Event.FORGOTTEN)
        if dropped:  # what it wanted for partitions that are still owned is due again
            self._schedule(now + self._interval_s)

    def owns(self, partition: PartitionState) -> bool:
        """Returns False if it was revoked or lost, even if the same partition came back since."""
        return self._partitions.get(partition.number) is partition

    # -- when the next commit is due

    def schedule(self, now: float, within_s: float | None = None) -> None:
        """Something has changed: a commit is due within the interval, or within `within_s`."""
        if self.next is not NextCommit.DUE:  # then the answer to the commit on its way schedules it
            self._schedule(now + (self._interval_s if within_s is None else within_s))

    def due(self, now: float) -> None:
        """The timer of the next commit has ended: request a commit if that is possible and needed."""
        assert self.due_at is not None
        late = now - self.due_at > self._timeout_s
        self.due_at = None
        if self.state is not CommitState.NONE:
            self.next = _after(NEXT, self.next, Event.MISSED)
        elif uncommitted := changes(self._partitions.values()):
            self.next = _after(NEXT, self.next, Event.REQUESTED)
            self.commit = Commit(uncommitted)
            self.state = _after(COMMIT, self.state, Event.REQUESTED)
            self._observe(Event.REQUESTED)
            if self.overdue_at is None:  # later commits do not move the limit
                self.overdue_at = now + self._timeout_s
        else:  # the changes were in a partition that is revoked (with its own last commit) or lost
            self.next = _after(NEXT, self.next, Event.CLEAN)
            self._confirm(Event.CLEAN)
            return
        if late:
            self._observe(Event.WOKEN)

    def _schedule(self, at: float) -> None:
        """Due at this time, or earlier if it is already."""
        if self.due_at is None or at < self.due_at:
            self.next = _after(NEXT, self.next, Event.SCHEDULED)
            self.due_at = at

    # -- the commit on its way

    def send(self) -> Commit | None:
        """The REQUESTED commit is about to be sent. None: there is none."""
        if self.state is not CommitState.REQUESTED:
            return None
        self.state = _after(COMMIT, self.state, Event.SENT)
        return self.commit

    def answered(self, now: float, confirmed: bool) -> bool:
        """The commit on its way is answered. Returns whether it has failed, for partitions that are still owned."""
        assert self.commit is not None
        owned = [change for change in self.commit.changes if self.owns(change.partition)]
        for change in owned if confirmed else ():
            partition = change.partition
            # `changes` of the request: what has changed since then is not in this commit.
            partition.committed = max(partition.committed, change.changes)
            partition.acknowledged = max(partition.acknowledged, change.offset)
        event = Event.SUCCEEDED if confirmed else Event.REFUSED
        self.state = _after(COMMIT, self.state, event)
        self.commit = None
        if confirmed:
            self._confirm(event)
            if self.next is NextCommit.DUE:
                self._schedule(now + SOON_S)
            elif self.next is NextCommit.NONE and any(map(_is_dirty, self._partitions.values())):
                self._schedule(now + self._interval_s)
        else:  # not soon: a broker that fails would otherwise get a commit every few milliseconds
            self._schedule(now + self._interval_s)
        return bool(owned) and not confirmed

    # -- whether Kafka confirms

    def overdue(self, now: float) -> None:
        """The limit of the first commit without success is over."""
        assert self.overdue_at is not None
        # On time: Kafka was silent, probably to all members. Late: this process was frozen, and others went on.
        on_time = now - self.overdue_at < LOOK_S
        self._observe(Event.OVERDUE if on_time else Event.WOKEN)

    def _observe(self, event: Event) -> None:
        self.confirmation = CONFIRMATION[self.confirmation].get(event, self.confirmation)

    def _confirm(self, event: Event) -> None:
        assert event in CONFIRMING
        self.confirmation = Confirmation.CONFIRMED
        self.overdue_at = None
