"""Posts events to one destination over a pool of kept-alive HTTP/1.1 connections.

    post --> an idle connection? --> write --> answer --> done(status, headers, body)      callbacks only
              | none                    | lost before a byte, and used before
              v                         v
           connect (a task) <-----------+  once, on a fresh connection, same attempt, same deadline

An attempt has one deadline for connecting, sending and the whole answer. One timer checks the deadlines while requests
are in flight, another one closes connections that are idle for too long. At rest there is neither. An answer that
arrived while the process was stalled counts: sockets are read before attempts are late.

A body over `reply_bytes_max` fails the attempt (READ) if it may be an event. If status and headers decide
without the body (202, any status that is not 2xx, no event headers), they are reported with the start of the body.
Of an answer that is not 2xx at most 8 KiB are read. In all these cases the connection is closed.

Sends a token to the installation's own ingress (`agents/http/own_ingress`), and no other credentials. Does not follow
redirects or retry. `knative/delivery/verdicts` decides what an answer means.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from agents.bounded_wait import at_most
from agents.http.connection import Connection, Done
from agents.http.connector import SendError, connect
from agents.http.egress_guard import EgressGuard
from agents.http.endpoint import BadEndpoint, Endpoint, read_endpoint
from agents.http.own_ingress import OwnIngress
from agents.http.resolver import Resolver
from knative.delivery.policy import Addressable
from knative.delivery.verdicts import SendProblem

__all__ = ["ConnectionPool", "Done", "PoolConfig", "SendError"]

_SWEEP_S_MIN = 0.005
_SWEEP_S_MAX = 0.5
_STALLED_S = 0.05  # a sweep that comes later than this: the process did not run
_LATE_MAX = 32  # per sweep: requests that began together time out together, and other subscriptions wait meanwhile
_NEVER = float("inf")
_LINGER_S = 1.0  # how long `close` waits for sockets that were closed at once


@dataclass(frozen=True, slots=True)
class PoolConfig:
    """Limits of one connection pool."""

    connections_max: int = 1_000  #: further attempts wait in a queue while their deadlines run
    idle_s: float = 30.0  #: an unused connection is closed after this
    connect_limit_s: float = 10.0  #: per address, TLS included; the deadline of the attempt applies too
    head_bytes_max: int = 65_536  #: headers of an answer
    reply_bytes_max: int = 1_048_576  #: body of an answer; less is read of a failure


class _Attempt:
    """A request that has no connection yet: it waits, or a connection is being opened for it."""

    __slots__ = ("deadline", "done", "request", "task")

    def __init__(self, request: bytes, done: Done, deadline: float) -> None:
        self.request = request
        self.done = done
        self.deadline = deadline
        self.task: asyncio.Task[None] | None = None


_NOWHERE = Endpoint("", 0, False, "invalid", "/", None)  # never sent: every post is refused


class ConnectionPool:
    """A pool for one destination; event loop only. `in_flight` counts posts whose `done` has not been called.

    An invalid destination does not raise: every post ends with SendProblem.REFUSED.
    """

    def __init__(
        self,
        destination: Addressable,
        config: PoolConfig,
        guard: EgressGuard,
        own_ingress: OwnIngress | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.in_flight = 0
        self.head_bytes_max = config.head_bytes_max
        self.body_bytes_max = config.reply_bytes_max
        self._destination = destination
        self._config = config
        self._guard = guard
        self._loop = loop or asyncio.get_running_loop()
        self._time = self._loop.time
        self._refusal = ""
        self._endpoint: Endpoint | None = None
        self._own_ingress: OwnIngress | None = None
        try:
            self._endpoint = read_endpoint(destination.uri)
            self._resolver = Resolver(self._endpoint, self._loop)
            if own_ingress is not None and own_ingress.has(self._endpoint):
                self._own_ingress = own_ingress
        except BadEndpoint as problem:
            self._refusal = str(problem)
        self._prefixes: dict[str, bytes] = {}
        self._authorization = ""  # that the prefixes have
        self._idle: list[Connection] = []  # a stack: connections that are not needed age at its bottom
        self._connections: set[Connection] = set()  # idle or with a request
        self._sockets: set[Connection] = set()  # `_connections` and those that are being closed
        self._connecting: set[_Attempt] = set()
        self._waiting: deque[_Attempt] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._sweep_at = _NEVER
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._stalled = False
        self._idle_timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._end = SendProblem.CLOSED  # of what `close` aborts
        self._at_rest: asyncio.Event | None = None

    # -- for the owner of the pool

    @property
    def open_sockets(self) -> int:
        """Number of connections that are not closed yet, including idle ones."""
        return len(self._sockets)

    @property
    def has_timers(self) -> bool:
        """False at rest."""
        return self._sweep_timer is not None or self._idle_timer is not None

    def prefix(self, namespace: str) -> bytes:
        """The request head for `kafka_binding.to_request`. Raises ValueError if it is not a valid namespace."""
        own = self._own_ingress
        if own is not None and own.authorization != self._authorization:
            self._authorization = own.authorization
            self._prefixes.clear()  # of former tokens nothing stays
        prefix = self._prefixes.get(namespace)
        if prefix is None:
            endpoint = self._endpoint or _NOWHERE
            self._prefixes[namespace] = prefix = endpoint.prefix(namespace, self._authorization)
        return prefix

    def post(self, request: bytes, timeout_s: float, done: Done) -> None:
        """Send a complete request. Calls `done` exactly once, and never before `post` has returned."""
        if self._closed:
            self._loop.call_soon(done, SendError(self._end, "the connection pool is closed"), None, b"")
            return
        self.in_flight += 1
        deadline = self._time() + timeout_s
        if deadline < self._sweep_at:
            self._sweep_by(deadline)
        # An idle connection implies that none wait: `answered` gives a free connection to a waiting attempt first.
        idle = self._idle
        if idle:
            idle.pop().send(request, done, deadline)
        else:
            self._waiting.append(_Attempt(request, done, deadline))
            self._connect_next()

    def abort(self, which: Callable[[Done], bool] = lambda _: True) -> None:
        """Fail the requests in flight whose `done` matches `which` with SendProblem.CLOSED (or what `close` was called
        with), now. Requests that the callbacks post are not affected."""
        error = SendError(self._end, "stopped before an answer")
        # Collect all of them first: callbacks may post again, which takes connections and changes these collections.
        busy = [(each, each.done) for each in self._connections if each.done is not None and which(each.done)]
        unsent = [attempt for attempt in (*self._waiting, *self._connecting) if which(attempt.done)]
        for attempt in unsent:
            self._give_up(attempt, error)
        for connection, done in busy:
            if connection.done is done:  # still the same request, whatever the callbacks have posted
                self.failed(connection, error)

    def shorten(self, limit_s: float) -> None:
        """Give the requests in flight at most `limit_s` from now."""
        deadline = self._time() + limit_s
        for connection in self._connections:
            connection.deadline = min(connection.deadline, deadline)
        for attempt in (*self._connecting, *self._waiting):
            attempt.deadline = min(attempt.deadline, deadline)
        if self.in_flight:
            self._sweep_by(deadline)

    async def close(self, limit_s: float, end: SendProblem = SendProblem.CLOSED) -> None:
        """Accept no more posts, wait up to `limit_s` for those in flight, abort the rest and close all sockets. `end`:
        why the rest has no answer."""
        self._closed = True
        self._end = end
        self._at_rest = self._at_rest or asyncio.Event()
        if self.in_flight:
            await at_most(self._at_rest.wait(), limit_s)
        self.abort()
        for connection in list(self._connections):
            self._drop(connection)
        for timer in (self._sweep_timer, self._idle_timer):
            if timer is not None:
                timer.cancel()
        self._sweep_timer, self._idle_timer = None, None
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_LINGER_S)
        if self._sockets:
            self._at_rest.clear()
            await at_most(self._at_rest.wait(), _LINGER_S)

    # -- for connections

    def opened(self, connection: Connection) -> None:
        """See `ConnectionListener`, also for the next five."""
        self._sockets.add(connection)

    def answered(self, connection: Connection, keep: bool) -> None:
        self.in_flight -= 1
        # A connection that stays open serves a waiting attempt at once, else it becomes idle.
        if keep and not self._waiting and not self._closed:
            connection.idle_since = self._time()
            self._idle.append(connection)
            if self._idle_timer is None:
                self._idle_timer = self._loop.call_later(self._config.idle_s, self._close_idle)
            return
        self._check_at_rest()
        if keep and self._waiting:
            attempt = self._waiting.popleft()
            connection.send(attempt.request, attempt.done, attempt.deadline)
        else:
            self._drop(connection)

    def failed(self, connection: Connection, error: SendError) -> None:
        done = connection.take()
        self._drop(connection)
        assert done is not None
        self._fail(done, error)

    def stale(self, connection: Connection) -> None:
        # The peer closed the connection while it was idle, so it has probably not seen the request. A second loss is
        # reported as a failure, since the attempt then has a fresh connection.
        assert connection.done is not None
        attempt = _Attempt(connection.request, connection.done, connection.deadline)
        connection.take()
        self._waiting.appendleft(attempt)  # it has waited longest; dropping its connection makes room for a new one
        self._drop(connection)

    def unwanted(self, connection: Connection) -> None:
        self._drop(connection)

    def lost(self, connection: Connection) -> None:
        self._sockets.discard(connection)
        if connection in self._connections:
            self._drop(connection)
        if not self._sockets:
            self._check_at_rest()

    # -- connecting

    def _connect_next(self) -> None:
        """Open a connection for each waiting attempt, up to `connections_max`."""
        while self._waiting and len(self._connections) + len(self._connecting) < self._config.connections_max:
            attempt = self._waiting.popleft()
            self._connecting.add(attempt)
            attempt.task = self._loop.create_task(self._connect(attempt))
            self._tasks.add(attempt.task)
            attempt.task.add_done_callback(self._tasks.discard)

    async def _connect(self, attempt: _Attempt) -> None:
        # Only `_give_up` cancels this task, and it reports to the caller itself.
        made: list[Connection] = []

        def make() -> Connection:
            made.append(Connection(self))
            return made[-1]

        try:
            if self._endpoint is None:
                raise SendError(SendProblem.REFUSED, self._refusal)
            connection = await connect(
                self._endpoint,
                self._destination.ca_certs,
                self._guard,
                self._config.connect_limit_s,
                self._loop,
                self._resolver,
                make,
            )
        except asyncio.CancelledError:
            self._sockets.difference_update(made)  # uvloop closes one that has just opened without `connection_lost`
            raise
        except SendError as error:
            self._give_up(attempt, error)
            return
        except Exception as problem:
            self._loop.call_exception_handler({"message": "unexpected error while connecting", "exception": problem})
            self._give_up(attempt, SendError(SendProblem.CONNECT, repr(problem)))
            return
        if connection.is_closing():  # lost after it opened and before this step: no callback would report it any more
            self._give_up(attempt, SendError(SendProblem.READ, "connection lost before an answer"))
            return
        self._connecting.discard(attempt)
        self._connections.add(connection)
        connection.send(attempt.request, attempt.done, attempt.deadline)

    def _give_up(self, attempt: _Attempt, error: SendError) -> None:
        """Fail an attempt that has no connection, unless it has one by now or has failed already."""
        if attempt in self._connecting:
            self._connecting.discard(attempt)
            if attempt.task is not None and attempt.task is not asyncio.current_task(self._loop):
                attempt.task.cancel()
        elif attempt in self._waiting:
            self._waiting.remove(attempt)
        else:
            return
        self._connect_next()
        self._fail(attempt.done, error)

    # -- endings

    def _fail(self, done: Done, error: SendError) -> None:
        self.in_flight -= 1
        assert self.in_flight >= 0, "an attempt ended twice"
        self._check_at_rest()
        try:
            done(error, None, b"")
        except Exception as problem:
            # A callback that raises must not prevent the other callbacks of a sweep.
            self._loop.call_exception_handler(
                {"message": "a callback of a connection pool raised", "exception": problem}
            )

    def _check_at_rest(self) -> None:
        if self._at_rest is not None and not self.in_flight:
            self._at_rest.set()

    def _drop(self, connection: Connection) -> None:
        """Close a connection without a request, and open one for a waiting attempt in its place."""
        self._connections.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        connection.abort()
        self._connect_next()

    # -- time

    def _sweep_by(self, deadline: float) -> None:
        # Not later than `_SWEEP_S_MAX`, and not more often than each `_SWEEP_S_MIN`: one timer serves all deadlines.
        now = self._time()
        at = now + min(max(deadline - now, _SWEEP_S_MIN), _SWEEP_S_MAX)
        if at >= self._sweep_at:
            return
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        self._sweep_at = at
        self._sweep_timer = self._loop.call_at(at, self._sweep)

    def _sweep(self) -> None:
        """Fail up to `_LATE_MAX` late requests, and set the timer for the next deadline if any are in flight."""
        planned_at, self._sweep_timer, self._sweep_at = self._sweep_at, None, _NEVER
        now = self._time()
        if now - planned_at > _STALLED_S and not self._stalled:
            # uvloop asks timers before sockets: what was answered meanwhile is not read yet, and would be sent again.
            self._stalled = True
            self._sweep_by(now)
            return
        self._stalled = False
        busy = [connection for connection in self._connections if connection.done is not None]
        late = [connection for connection in busy if connection.deadline <= now][:_LATE_MAX]
        unsent = [attempt for attempt in (*self._connecting, *self._waiting) if attempt.deadline <= now][:_LATE_MAX]
        error = SendError(SendProblem.TIMEOUT, "no complete answer within the time limit")
        for connection in late:
            # Check again: the callback of another request may have ended this one, or sent a new one here.
            if connection.done is not None and connection.deadline <= now:
                self.failed(connection, error)
        for attempt in unsent:
            self._give_up(attempt, error)
        if self.in_flight:
            pending = [connection.deadline for connection in self._connections if connection.done is not None]
            pending += [attempt.deadline for attempt in (*self._connecting, *self._waiting)]
            self._sweep_by(min(pending))

    def _close_idle(self) -> None:
        self._idle_timer = None
        oldest = self._time() - self._config.idle_s
        count = sum(each.idle_since <= oldest for each in self._idle)
        expired, self._idle[:] = self._idle[:count], self._idle[count:]  # the oldest are first: it is a stack
        for connection in expired:
            self._drop(connection)
        if self._idle:
            self._idle_timer = self._loop.call_at(self._idle[0].idle_since + self._config.idle_s, self._close_idle)
