"""What a pool decides in a given state."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from agents.http.connection import Connection, ConnectionListener, Pairs
from agents.http.connector import SendError
from agents.http.pool_state import NEVER, Attempt, PoolState
from knative.delivery.verdicts import SendProblem

ERROR = SendError(SendProblem.READ, "lost")


class Transport:
    """Takes everything."""

    def write(self, data: bytes) -> None:
        """Nowhere."""


class Case:
    """A state with busy and idle connections, and attempts that wait or have a connection opened for them."""

    def __init__(self, connections_max: int = 10, *, waiting: int = 0, dialing: int = 0, busy: int = 0, idle: int = 0):
        self.state = PoolState(connections_max, idle_s=30.0)
        self.waiting, self.dialing = self.attempts(waiting), self.attempts(dialing)
        self.busy, self.idle = self.connections(busy), self.connections(idle)
        self.state.waiting.extend(self.waiting)
        self.state.dialing.update(self.dialing)
        self.state.connections.update(self.busy + self.idle)
        self.state.idle.extend(self.idle)
        for number, connection in enumerate(self.busy):
            connection.send(b"%d" % number, self.done, 10.0)
        for number, connection in enumerate(self.idle):
            connection.idle_since = float(number)

    def done(self, status: int | SendError, headers: Pairs | None, body: bytes) -> None:
        """Nothing is called here."""

    def attempts(self, count: int) -> list[Attempt]:
        return [Attempt(b"%d" % number, self.done, 10.0) for number in range(count)]

    def connections(self, count: int) -> list[Connection]:
        connections = [Connection(cast(ConnectionListener, None)) for _ in range(count)]
        for connection in connections:
            connection.connection_made(cast(asyncio.BaseTransport, Transport()))
        return connections

    def numbers(self, now: float | None = None) -> tuple[int, int, int, int]:
        """How many it closes, sends, opens, and fails."""
        closes, sends, dials, failures = self.state.decide(now)
        assert self.state.decide() == ([], [], [], []), "what was decided is decided again"
        return len(closes), len(sends), len(dials), len(failures)


ROWS = {
    "at rest": (Case(), None, (0, 0, 0, 0)),
    "all are busy": (Case(busy=3, dialing=2), None, (0, 0, 0, 0)),
    "one waits, one is idle": (Case(waiting=1, idle=2), None, (0, 1, 0, 0)),
    "more wait than are idle": (Case(waiting=3, idle=2), None, (0, 2, 1, 0)),
    "more wait than may be opened": (Case(5, waiting=9, busy=2, dialing=1), None, (0, 0, 2, 0)),
    "no more may be opened": (Case(2, waiting=9, busy=1, dialing=1), None, (0, 0, 0, 0)),
    "idle, with a full pool": (Case(2, waiting=9, busy=1, idle=1), None, (0, 1, 0, 0)),
    "before the deadlines": (Case(waiting=1, dialing=1, busy=1), 9.99, (0, 0, 1, 0)),
    "at the deadlines: two are closed, three fail": (Case(waiting=1, dialing=1, busy=1), 10.0, (2, 0, 0, 3)),
    "late, but time is not looked at": (Case(busy=1), None, (0, 0, 0, 0)),
    "more are late than fail at once": (Case(1, busy=1, waiting=40), 10.0, (1, 0, 1, 32)),
    "idle for too long": (Case(idle=3), 31.0, (2, 0, 0, 0)),
    "idle for too long, but needed": (Case(idle=1, waiting=1), None, (0, 1, 0, 0)),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_pool_decides_as_its_row_says(row: tuple[Case, float | None, tuple[int, int, int, int]]) -> None:
    case, now, numbers = row
    assert case.numbers(now) == numbers


def test_attempt_that_waits_longest_gets_the_connection_that_was_used_last() -> None:
    case = Case(waiting=2, idle=2)
    assert case.state.decide()[1] == [(case.idle[1], case.waiting[0]), (case.idle[0], case.waiting[1])]


@pytest.mark.parametrize("case", [Case(2, busy=2, waiting=1), Case(busy=1, idle=1)], ids=["full", "with an idle one"])
def test_stale_connection_is_replaced_by_a_fresh_one_before_all_others(case: Case) -> None:
    case.state.stale(case.busy[0])
    closes, sends, (again,), failures = case.state.decide()
    assert (closes, sends, failures) == ([case.busy[0]], [], [])
    assert (again.request, again.deadline, again.done) == (b"0", 10.0, case.done)


def test_connection_that_was_opened_is_for_its_attempt() -> None:
    case = Case(waiting=1, dialing=1, idle=1)
    (fresh,) = case.connections(1)
    case.state.dialed(case.dialing[0], fresh)
    assert case.state.decide() == ([], [(fresh, case.dialing[0]), (case.idle[0], case.waiting[0])], [], [])


@pytest.mark.parametrize("way", ["failed", "not opened", "unwanted", "ended"])
def test_one_that_waits_gets_the_place_of_a_connection_that_is_gone(way: str) -> None:
    case = Case(2, waiting=1, dialing=1, busy=1)
    if way == "failed":
        case.state.failed(case.busy[0], ERROR)
    elif way == "not opened":
        case.state.not_sent(case.dialing[0], ERROR)
    elif way == "unwanted":
        case.busy[0].take()
        case.state.spent(case.busy[0])
    else:
        case.state.end(lambda holder: holder is case.dialing[0], ERROR)
    _, sends, dials, failures = case.state.decide()
    assert (sends, dials) == ([], case.waiting)
    assert failures == ([] if way == "unwanted" else [(case.done, ERROR)])


def test_closed_pool_sends_what_waits_and_keeps_nothing_idle() -> None:
    case = Case(waiting=1, idle=3, busy=1)
    case.state.closed = True
    assert case.numbers() == (2, 1, 0, 0)


LOOKS = {
    "at rest": (Case(), 0.0, NEVER),
    "an idle connection": (Case(idle=2), 5.0, 30.0),
    "a deadline that is far": (Case(busy=1), 5.0, 5.5),
    "a deadline that is near": (Case(dialing=1, idle=1), 9.9, 10.0),
    "a deadline that is very near, or over": (Case(waiting=1), 10.0, 10.005),
    "a connection that is idle for long, beside a deadline that is far": (Case(busy=1, idle=1), 29.8, 29.805),
}


@pytest.mark.parametrize("row", LOOKS.values(), ids=LOOKS)
def test_next_look_is_when_time_alone_changes_something(row: tuple[Case, float, float]) -> None:
    case, now, look_at = row
    assert case.state.look_at(now) == pytest.approx(look_at)
