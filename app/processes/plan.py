"""What the supervisor does: a table of seats' states and events, without I/O and without a clock.

                  FORK                  started             the supervisor executes itself again
    PAUSED ---------------> STARTING ------------> SERVING ------------------------------> OLD
      ^   the pause is over    |  ^                   |                                     | its turn
      +---------- died --------+  +----- it left -----+------------- LEAVING <--------------+ HAND_OVER
                                                  died: PAUSED from all of them

    STOPPING <--- STOP --- from all that have a process; then GONE

A seat is a place for one worker process. A process *dies*, or it *leaves*: then it has handed over, and wants another
in its place. When the first one leaves, there are new settings or new code. So the supervisor executes itself again,
and replaces the other processes one after the other; those that are too many hand over last, and get no other. If the
new ones do not start, the old ones that are left go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, auto

from app.timing import LONGEST_WAIT_S, LOOK_S
from knative.backoff import doubling_s
from knative.errors import ExitCode


class State(Enum):
    """Of a seat."""

    PAUSED = "has no process until its pause is over"
    STARTING = "its process does not serve yet"
    SERVING = "its process serves"
    OLD = "its process serves with former settings or code"
    LEAVING = "its process was told to hand over"
    STOPPING = "its process was told to stop"
    GONE = "has no process, and gets no other"


class Event(Enum):
    """What happens to a seat."""

    DUE = auto()  #: its pause is over
    STARTED = auto()
    DIED = auto()
    LEFT = auto()
    TURN = auto()  #: it is the next one to replace
    STOP = auto()


class Action(Enum):
    """What the supervisor does then."""

    NONE = auto()
    FORK = auto()
    PAUSE = auto()
    HAND_OVER = auto()
    STOP = auto()
    RENEW = auto()  #: execute itself again


_S, _E, _A = State, Event, Action

#: Of an event that is not here, a seat takes no notice.
TRANSITIONS: Mapping[tuple[State, Event], tuple[State, Action]] = {
    (_S.PAUSED, _E.DUE): (_S.STARTING, _A.FORK),
    (_S.PAUSED, _E.STOP): (_S.GONE, _A.NONE),
    (_S.STARTING, _E.STARTED): (_S.SERVING, _A.NONE),
    (_S.STARTING, _E.DIED): (_S.PAUSED, _A.PAUSE),
    (_S.STARTING, _E.LEFT): (_S.STARTING, _A.FORK),
    (_S.STARTING, _E.STOP): (_S.STOPPING, _A.STOP),
    (_S.SERVING, _E.DIED): (_S.PAUSED, _A.PAUSE),
    (_S.SERVING, _E.LEFT): (_S.STARTING, _A.FORK),
    (_S.SERVING, _E.STOP): (_S.STOPPING, _A.STOP),
    (_S.OLD, _E.TURN): (_S.LEAVING, _A.HAND_OVER),
    (_S.OLD, _E.DIED): (_S.PAUSED, _A.PAUSE),
    (_S.OLD, _E.LEFT): (_S.STARTING, _A.FORK),
    (_S.OLD, _E.STOP): (_S.STOPPING, _A.STOP),
    (_S.LEAVING, _E.DIED): (_S.PAUSED, _A.PAUSE),
    (_S.LEAVING, _E.LEFT): (_S.STARTING, _A.FORK),
    (_S.LEAVING, _E.STOP): (_S.STOPPING, _A.STOP),
    (_S.STOPPING, _E.DIED): (_S.GONE, _A.NONE),
    (_S.STOPPING, _E.LEFT): (_S.GONE, _A.NONE),
}


class PlannedSeat:
    """One of the plan."""

    def __init__(self, number: int, state: State) -> None:
        self.number, self.state = number, state
        self.due_at = 0.0  #: when a pause is over
        self._forked_at = 0.0
        self._pauses = doubling_s(LOOK_S, LONGEST_WAIT_S)

    def on(self, event: Event, now: float) -> Action:
        """Follow an event."""
        self.state, action = TRANSITIONS.get((self.state, event), (self.state, Action.NONE))
        if action is Action.FORK:
            self._forked_at = now
        if action is Action.PAUSE:
            if now - self._forked_at > LONGEST_WAIT_S:  # it worked in between
                self._pauses = doubling_s(LOOK_S, LONGEST_WAIT_S)
            self.due_at = now + next(self._pauses)
        return action


Steps = Iterator[tuple[PlannedSeat, Action]]


class Plan:
    """All seats. Times are those of a monotonic clock, in seconds. Each method yields what to do, in this order."""

    def __init__(self, count: int, old: Iterable[int] = ()) -> None:
        """`count` seats are wanted. `old`: numbers of seats whose process an earlier program has forked."""
        kept = set(old)
        self.code: int = ExitCode.DONE  #: of the supervisor
        self.is_stopping = False
        self._count = count
        numbers = range(max([count, *(number + 1 for number in kept)]))
        free = [State.PAUSED if number < count else State.GONE for number in numbers]
        self.seats = [PlannedSeat(number, State.OLD if number in kept else free[number]) for number in numbers]
        self._has_served = bool(kept)

    @property
    def is_over(self) -> bool:
        """No process is left, and none will start."""
        return all(seat.state is State.GONE for seat in self.seats)

    def next_at(self) -> float | None:
        """Returns when the next pause is over; None = there is none."""
        return min((seat.due_at for seat in self.seats if seat.state is State.PAUSED), default=None)

    def due(self, now: float) -> Steps:
        """Yields pauses that are over, and the next process to replace; then those that are too many."""
        for seat in self.seats:
            if seat.due_at <= now:
                yield seat, seat.on(Event.DUE, now)
        if all(seat.state in (State.SERVING, State.OLD) for seat in self.seats[: self._count]):
            old = next((seat for seat in self.seats if seat.state is State.OLD), None)
            if old is not None:
                yield old, old.on(Event.TURN, now)

    def started(self, number: int, now: float) -> None:
        """The process in this seat serves."""
        self._has_served = True
        self.seats[number].on(Event.STARTED, now)

    def ended(self, number: int, code: int, now: float) -> Steps:
        """The process in this seat has ended. `code`: negative for a signal."""
        seat, has_left = self.seats[number], code == ExitCode.LEFT
        if has_left and number == 0 and seat.state in (State.STARTING, State.SERVING):
            seat.state = State.PAUSED
            yield seat, Action.RENEW  # which does not return, or else the next step forks
            return
        if number >= self._count:  # it is too many, so no other takes its place
            seat.state = State.STOPPING
        is_final = code in (ExitCode.USAGE, ExitCode.NOT_READY) and not self._has_served
        if not has_left and (self.is_stopping or is_final):
            self.code = self.code or (code if code >= 0 else ExitCode.FAILED)
        yield seat, seat.on(Event.LEFT if has_left else Event.DIED, now)
        if is_final:  # another start fails in the same way
            yield from self.stop(now)

    def stop(self, now: float) -> Steps:
        """Everything stops."""
        self.is_stopping = True
        for seat in self.seats:
            yield seat, seat.on(Event.STOP, now)
