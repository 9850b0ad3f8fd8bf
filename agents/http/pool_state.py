"""Decides what a pool does next: which attempts are sent or fail, which connections are opened or closed. Pure.

    attempt       waiting --> dialing --> sent --> ended        a deadline or an abort ends it in each place
                    |            ^---------'  its connection was stale
                    `--(a connection is idle)--> sent
    connection    dialing --> busy <--> idle --> spent

Neither has a field for its state: the state is the place, and each is in one place. The methods record what has
happened, and `decide` looks at all places. What it returns has left them already, so the callbacks of failed attempts
may post and abort.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from agents.http.connection import Connection, Done
from agents.http.connector import SendError
from agents.timing import MOMENT_S
from knative.delivery.verdicts import SendProblem
from tables.timing import SPARING_S

NEVER = float("inf")
_LATE_MAX = 32  # at once: requests that began together time out together, and other subscriptions wait meanwhile


@dataclass(slots=True, eq=False)
class Attempt:
    """A request that has no connection: it waits, or `task` opens one for it."""

    request: bytes
    done: Done
    deadline: float
    task: asyncio.Task[None] = field(init=False)

    def abort(self) -> None:
        """Open no connection for it."""
        self.task.cancel()


Connections = list[Connection | Attempt]  #: open ones, and those that are being opened
Sends = list[tuple[Connection, Attempt]]
Failures = list[tuple[Done, SendError]]


class PoolState:
    """The attempts and connections of one pool."""

    def __init__(self, connections_max: int, idle_s: float) -> None:
        self._connections_max = connections_max
        self._idle_s = idle_s
        self.closed = False
        self.waiting: deque[Attempt] = deque()
        self.dialing: set[Attempt] = set()
        self.connections: set[Connection] = set()  #: idle or busy
        self.idle: list[Connection] = []  #: a stack: connections that are not needed age at its bottom
        self._closes: Connections = []
        self._sends: Sends = []
        self._dials: list[Attempt] = []
        self._failures: Failures = []

    # -- what has happened

    def dialed(self, attempt: Attempt, connection: Connection) -> None:
        """A connection was opened for an attempt."""
        self.dialing.discard(attempt)
        self.connections.add(connection)
        self._sends.append((connection, attempt))

    def not_sent(self, attempt: Attempt, error: SendError) -> None:
        """An attempt has failed without a connection."""
        self.dialing.discard(attempt)
        if attempt in self.waiting:
            self.waiting.remove(attempt)
        self._failures.append((attempt.done, error))

    def failed(self, connection: Connection, error: SendError) -> None:
        """A request gets no answer."""
        self._failures.append((connection.take(), error))
        self.spent(connection)

    def stale(self, connection: Connection) -> None:
        """The peer closed a connection while it was idle, so it has probably not seen the request."""
        request = connection.request
        # Not sent on an idle connection, which may be stale too: a second loss is reported as a failure.
        self._dial(Attempt(request, connection.take(), connection.deadline))
        self.spent(connection)

    def spent(self, connection: Connection) -> None:
        """A connection without a request takes no other."""
        self.connections.discard(connection)
        if connection in self.idle:
            self.idle.remove(connection)
        self._closes.append(connection)

    def end(self, which: Callable[[Connection | Attempt], bool], error: SendError, most: int | None = None) -> None:
        """Up to `most` of those attempts fail."""
        for holder in list(filter(which, self._under_way()))[:most]:
            if isinstance(holder, Connection):
                self.failed(holder, error)
            else:
                if holder in self.dialing:
                    self._closes.append(holder)
                self.not_sent(holder, error)

    def shorten(self, deadline: float) -> None:
        """No attempt may take longer than that."""
        for holder in self._under_way():
            holder.deadline = min(holder.deadline, deadline)

    # -- what follows

    def decide(self, now: float | None = None) -> tuple[Connections, Sends, list[Attempt], Failures]:
        """Returns what to close, send, open and fail. Only with `now` it looks for what is late or idle too long."""
        if now is not None:
            late = SendError(SendProblem.TIMEOUT, "no complete answer within the time limit")
            self.end(lambda holder: holder.deadline <= now, late, _LATE_MAX)
        while self.waiting and self.idle:
            self._sends.append((self.idle.pop(), self.waiting.popleft()))
        while self.waiting and len(self.connections) + len(self.dialing) < self._connections_max:
            self._dial(self.waiting.popleft())
        while self.idle and (self.closed or (now is not None and self._idle_until() <= now)):
            self.spent(self.idle[0])
        actions = self._closes, self._sends, self._dials, self._failures
        self._closes, self._sends, self._dials, self._failures = [], [], [], []
        return actions

    def look_at(self, now: float) -> float:
        """Returns when time alone changes something; NEVER = nothing is under way, and no connection is idle."""
        first = min((holder.deadline for holder in self._under_way()), default=NEVER)
        look_at = now + min(max(first - now, MOMENT_S), SPARING_S) if first < NEVER else NEVER
        return min(look_at, self._idle_until() if self.idle else NEVER)

    def _dial(self, attempt: Attempt) -> None:
        self.dialing.add(attempt)
        self._dials.append(attempt)

    def _idle_until(self) -> float:
        return self.idle[0].idle_since + self._idle_s

    def _under_way(self) -> Connections:
        busy = [connection for connection in self.connections if connection.done is not None]
        return [*busy, *self.dialing, *self.waiting]
