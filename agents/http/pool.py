"""Posts events to one destination over a pool of kept-alive HTTP/1.1 connections.

    post --> an idle connection? --> write --> answer --> done(status, headers, body)      callbacks only
              | none                    | lost before a byte, and used before
              v                         v
           connect (a task) <-----------+  once, on a fresh connection, same attempt, same deadline

Writing to an idle connection is the happy path, and all of it is in `post` and `answered`. Whatever else happens goes
into `agents/http/pool_state`, which decides what to do, and `_act` does it.

An attempt has one deadline for connecting, sending and the whole answer. One timer is for the deadlines of requests in
flight, and for connections that are idle for too long. At rest there is none. An answer that arrived while the process
was stalled counts: sockets are read before attempts are late.

A body over `reply_bytes_max` fails the attempt (READ) if it may be an event. If status and headers decide
without the body (202, any status that is not 2xx, no event headers), they are reported with the start of the body.
Of an answer that is not 2xx at most 8 KiB are read. In all these cases the connection is closed.

Sends a token to the installation's own ingress (`agents/http/own_ingress`), and no other credentials. Does not follow
redirects or retry. `knative/delivery/verdicts` decides what an answer means.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from agents.bounded_wait import at_most
from agents.http.connection import Connection, Done
from agents.http.connector import SendError, connect
from agents.http.egress_guard import EgressGuard
from agents.http.endpoint import BadEndpoint, Endpoint, read_endpoint
from agents.http.own_ingress import OwnIngress
from agents.http.pool_state import NEVER, Attempt, PoolState
from agents.http.resolver import Resolver
from agents.timing import LATE_S, MOMENT_S
from knative.delivery.policy import Addressable
from knative.delivery.verdicts import SendProblem
from tables.timing import CLOSE_S

__all__ = ["ConnectionPool", "Done", "PoolConfig", "SendError"]


@dataclass(frozen=True, slots=True)
class PoolConfig:
    """Limits of one connection pool."""

    connections_max: int = 1_000  #: further attempts wait in a queue while their deadlines run
    idle_s: float = 30.0  #: an unused connection is closed after this
    connect_limit_s: float = 10.0  #: per address, TLS included; the deadline of the attempt applies too
    head_bytes_max: int = 65_536  #: headers of an answer
    reply_bytes_max: int = 1_048_576  #: body of an answer; less is read of a failure


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
        self._authorization: str | None = None  # that the prefixes have
        self._state = PoolState(config.connections_max, config.idle_s)
        self._idle, self._waiting = self._state.idle, self._state.waiting
        self._sockets: set[Connection] = set()  # until they are closed
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = NEVER
        self._stalled = False
        self._end = SendProblem.CLOSED  # of what `close` aborts
        self._at_rest = asyncio.Event()  # closed, and nothing is left

    # -- for the owner of the pool

    @property
    def open_sockets(self) -> int:
        """Number of connections that are not closed yet, including idle ones."""
        return len(self._sockets)

    @property
    def has_timers(self) -> bool:
        """False at rest."""
        return self._timer is not None

    def prefix(self, namespace: str) -> bytes:
        """Returns the request head for `kafka_binding.to_request`. Raises ValueError if it is not a valid namespace."""
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
        if self._state.closed:
            self._loop.call_soon(done, SendError(self._end, "the connection pool is closed"), None, b"")
            return
        self.in_flight += 1
        now = self._time()
        deadline = now + timeout_s
        # An idle connection implies that none wait: `answered` gives a free connection to a waiting attempt first.
        idle = self._idle
        if idle:
            idle.pop().send(request, done, deadline)
        else:
            self._waiting.append(Attempt(request, done, deadline))
            self._act()
        if deadline < self._timer_at:
            self._look_by(self._state.look_at(now))

    def abort(self, which: Callable[[Done], bool] = lambda _: True) -> None:
        """Fail the requests in flight whose `done` matches `which` with SendProblem.CLOSED (or what `close` was called
        with), now. Requests that the callbacks post are not affected."""
        error = SendError(self._end, "the worker stopped before an answer")
        self._state.end(lambda holder: holder.done is not None and which(holder.done), error)
        self._act()

    def shorten(self, limit_s: float) -> None:
        """Give the requests in flight at most `limit_s` from now."""
        now = self._time()
        self._state.shorten(now + limit_s)
        self._look_by(self._state.look_at(now))

    async def close(self, limit_s: float, end: SendProblem = SendProblem.CLOSED) -> None:
        """Accept no more posts, wait up to `limit_s` for those in flight, abort the rest and close all sockets. `end`:
        why the rest has no answer."""
        self._state.closed = True
        self._end = end
        self._act()
        await at_most(self._at_rest.wait(), limit_s)
        self.abort()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_S)
        await at_most(self._at_rest.wait(), CLOSE_S)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- for connections

    def answered(self, connection: Connection, keep: bool) -> None:
        """See `ConnectionListener`, also for the next four."""
        self.in_flight -= 1
        if keep:
            connection.idle_since = self._time()
            self._idle.append(connection)
            if not self._waiting and not self._state.closed:
                return
        else:
            self._state.spent(connection)
        self._act()

    def failed(self, connection: Connection, error: SendError) -> None:
        self._state.failed(connection, error)
        self._act()

    def stale(self, connection: Connection) -> None:
        self._state.stale(connection)
        self._act()

    def unwanted(self, connection: Connection) -> None:
        self._state.spent(connection)
        self._act()

    def lost(self, connection: Connection) -> None:
        self._sockets.discard(connection)
        self.unwanted(connection)

    # -- what the state decides

    def _act(self, now: float | None = None) -> None:
        closes, sends, dials, failures = self._state.decide(now)
        for closed in closes:
            closed.abort()
        for connection, attempt in sends:
            connection.send(attempt.request, attempt.done, attempt.deadline)
        for attempt in dials:
            attempt.task = self._loop.create_task(self._dial(attempt))
            self._tasks.add(attempt.task)
            attempt.task.add_done_callback(self._tasks.discard)
        for done, error in failures:
            self.in_flight -= 1
            try:
                done(error, None, b"")
            except Exception as problem:
                # A callback that raises must not prevent the other callbacks.
                self._loop.call_exception_handler(
                    {"message": "a callback of a connection pool raised", "exception": problem}
                )
        if self._state.closed and not self.in_flight and not self._sockets:
            self._at_rest.set()

    async def _dial(self, attempt: Attempt) -> None:
        """Open a connection. This task is cancelled only when its attempt has ended."""
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
                lambda: Connection(self),
            )
            if connection.is_closing():  # lost before this step: no callback would report it any more
                raise SendError(SendProblem.READ, "the connection was lost before an answer")
        except SendError as error:
            self._state.not_sent(attempt, error)
        except Exception as problem:
            self._loop.call_exception_handler({"message": "unexpected error while connecting", "exception": problem})
            self._state.not_sent(attempt, SendError(SendProblem.CONNECT, repr(problem)))
        else:
            self._sockets.add(connection)
            self._state.dialed(attempt, connection)
        self._act()

    # -- time

    def _look_by(self, at: float) -> None:
        if at < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer, self._timer_at = self._loop.call_at(at, self._look), at

    def _look(self) -> None:
        planned_at, self._timer, self._timer_at = self._timer_at, None, NEVER
        now = self._time()
        self._stalled = now - planned_at > LATE_S and not self._stalled
        if self._stalled:
            # uvloop asks timers before sockets: what was answered meanwhile is not read yet, and would be sent again.
            self._look_by(now + MOMENT_S)
            return
        self._act(now)
        self._look_by(self._state.look_at(now))
