"""A connection pool between simulated peers: thousands of seeded schedules of posts, answers, losses, aborts and time.

Real are the pool, the connector, the connections and their parser. The loop's clock jumps, and its `create_connection`
leads to peers that do at random what subscribers do. A ledger of all posts is checked at each step.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from agents.http.connection import Connection
from agents.http.connector import SendError
from agents.http.egress_guard import EgressGuard
from agents.http.pool import ConnectionPool, PoolConfig
from knative.delivery.policy import Addressable
from knative.delivery.verdicts import SendProblem
from penstock.virtual_loop import VirtualLoop
from tests.support.profiles import share

FINE = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
LAST = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
SHORT_S = 0.06  # no longer pause of the process goes unnoticed
LATE_S = 0.02  # deadlines are looked at each 5 ms at the most, and twice after a pause of the process
IDLE_S = 7.0
RAISED = "a callback raised"


class Peer:
    """The transport of a connection, and the subscriber behind it."""

    def __init__(self, world: World, connection: Connection) -> None:
        self.world = world
        self.connection = connection
        self.asked: Post | None = None  # what it has not answered yet
        self.answers = 0
        self.begun = False  # a part of an answer was sent
        self.open = True

    def write(self, data: bytes) -> None:
        assert self.open, "written on a connection that is closed"
        assert self.asked is None, "two requests at once"
        post = self.asked = self.world.posts[int(data)]
        self.begun = False
        assert not post.ends, "sent after its end"
        assert not post.sent or (post.stale and not self.answers), (
            "only a stale connection is made up for, by a fresh one"
        )
        post.sent += 1
        post.stale = False

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return not self.open

    def abort(self) -> None:
        if self.open:
            self.open = False
            self.world.loop.call_soon(self.connection.connection_lost, None)

    def send(self, data: bytes) -> None:
        """The peer sends this, and it is read."""
        if not self.open:
            return
        if data in (FINE, LAST):
            self.asked = None
            self.answers += 1
        else:
            self.begun = True
        self.connection.data_received(data)

    def hang_up(self, problem: OSError | None) -> None:
        """The peer closes the connection (with a reset if there is a problem)."""
        if not self.open:
            return
        if self.asked is not None and self.answers and not self.begun:
            self.asked.stale = True
        if problem is None and self.world.random.random() < 0.5:
            self.connection.eof_received()
            self.abort()
        else:
            self.open = False
            self.connection.connection_lost(problem)


@dataclass
class Post:
    """One call of `post`."""

    number: int
    deadline: float
    done: Callable[..., None] = print
    ends: list[SendProblem | None] = field(default_factory=list)
    sent: int = 0
    stale: bool = False  # the connection that it was sent on was used before, and is lost


class Loop(VirtualLoop):
    """Connects to peers, when the world says so."""

    def __init__(self) -> None:
        super().__init__()
        self.peers: list[Peer] = []
        self.dials: list[asyncio.Future[OSError | None]] = []
        self.world: World

    async def create_connection(self, factory: Any, *_: Any, **__: Any) -> Any:  # type: ignore[override]
        dial: asyncio.Future[OSError | None] = self.create_future()
        self.dials.append(dial)
        try:
            problem = await dial
        finally:
            self.dials.remove(dial)
        if problem is not None:
            raise problem
        connection = factory()
        peer = Peer(self.world, connection)
        connection.connection_made(peer)
        self.peers.append(peer)
        try:
            if self.world.random.random() < 0.5:
                await asyncio.sleep(0)  # something may happen before the caller runs
            if self.world.random.random() < 0.05:
                peer.hang_up(None)
        except asyncio.CancelledError:
            if self.world.random.random() < 0.5:
                peer.abort()
            peer.open = False  # as uvloop: without `connection_lost`
            raise
        return peer, connection


class World:
    """One pool, its peers, and the ledger of its posts."""

    def __init__(self, seed: int, loop: Loop) -> None:
        self.random = random.Random(seed)
        self.loop = loop
        loop.world = self
        self.most = self.random.choice((1, 2, 3, 8, 100))
        self.posts: list[Post] = []
        self.frozen_at = self.ended_at = -1.0
        self.errors: list[dict[str, Any]] = []
        self.raised = 0
        loop.set_exception_handler(lambda _, context: self.errors.append(context))
        config = PoolConfig(self.most, IDLE_S, connect_limit_s=self.random.choice((0.5, 100.0)))
        self.pool = ConnectionPool(Addressable("http://10.0.0.1/", ""), config, EgressGuard(None), loop=loop)

    # -- what happens

    def post(self, timeout_s: float = 0.0) -> None:
        timeout_s = timeout_s or self.random.choice((0.001, 0.3, 0.3, 5.0, 5.0, 60.0))
        post = Post(len(self.posts), self.loop.time() + timeout_s)
        posting = True

        def done(status: int | SendError, headers: Any, body: bytes) -> None:
            assert not posting, "called before `post` has returned"
            post.ends.append(status.problem if isinstance(status, SendError) else None)
            self.ended_at = self.loop.time()
            assert len(post.ends) == 1, "ended twice"
            if isinstance(status, SendError) and status.problem is SendProblem.TIMEOUT:
                assert post.deadline <= self.loop.time(), "late before its deadline"
            choice = self.random.random()
            if choice < 0.1:
                self.post()
            elif choice < 0.12:
                self.abort()
            elif choice < 0.15 and isinstance(status, SendError):
                self.raised += 1
                raise RuntimeError(RAISED)

        post.done = done
        self.posts.append(post)
        self.pool.post(b"%d" % post.number, timeout_s, done)
        posting = False

    def abort(self) -> None:
        """All that has not ended, or every other one. A post that a callback makes meanwhile is not meant."""
        odd = self.random.choice((None, 0, 1))
        meant = [post for post in self.posts if not post.ends and (odd is None or post.number % 2 == odd)]
        callbacks = {post.done for post in meant}
        self.pool.abort(lambda done: done in callbacks)
        self.aborted = meant

    def peer(self, busy: bool) -> Peer | None:
        peers = [peer for peer in self.loop.peers if peer.open and (peer.asked is not None) == busy]
        return self.random.choice(peers) if peers else None

    def dial(self) -> None:
        waiting = [dial for dial in self.loop.dials if not dial.done()]
        if waiting:
            problem = OSError("refused") if self.random.random() < 0.2 else None
            self.random.choice(waiting).set_result(problem)

    def with_peer(self, busy: bool, happens: Callable[[Peer], None]) -> None:
        peer = self.peer(busy)
        if peer is not None:
            happens(peer)

    async def step(self) -> None:
        choice = self.random.random()
        if choice < 0.25:
            for _ in range(self.random.choice((1, 1, 1, 5, 40))):
                self.post()
        elif choice < 0.45:
            for _ in range(self.random.choice((1, 1, 5))):
                self.dial()
        elif choice < 0.7:
            data = self.random.choice((FINE, FINE, FINE, FINE, LAST, b"HTTP/1.1 2", b"junk\r\n"))
            self.with_peer(True, lambda peer: peer.send(data))
        elif choice < 0.78:
            problem = self.random.choice((None, ConnectionResetError("reset")))
            self.with_peer(self.random.random() < 0.5, lambda peer: peer.hang_up(problem))
        elif choice < 0.8:
            self.with_peer(False, lambda peer: peer.send(b"unasked"))
        elif choice < 0.82:
            self.abort()
            assert all(post.ends for post in self.aborted), "abort is over before its callbacks are"
        elif choice < 0.84:
            self.stand_still()
        elif choice < 0.85:
            for _ in range(20):  # each has a deadline before the next look
                self.post(0.001)
                await asyncio.sleep(0.002)
        elif choice < 0.97:
            await asyncio.sleep(self.random.choice((0.0, 0.001, 0.02, 0.2, 0.6)))
        else:
            await asyncio.sleep(self.random.choice((3.0, IDLE_S, 2 * IDLE_S)))
        if self.random.random() < 0.7:
            await self.settle()
            self.check()

    def stand_still(self) -> None:
        """The process stops for seconds, and the loop asks timers before it reads the answers of that time."""
        seconds = self.random.choice((0.04, 0.3, 6.0))
        peers = [peer for peer in self.loop.peers if peer.open and peer.asked is not None]
        answered = [peer for peer in peers if self.random.random() < 0.5]
        self.loop.frozen(seconds)
        now = self.loop.time()
        again, self.frozen_at = now - seconds - self.frozen_at < 1.0, now
        for peer in answered:
            self.loop.call_at(now, self.answer, peer, peer.asked, again)

    def answer(self, peer: Peer, post: Post | None, again: bool) -> None:
        """It was sent while the process stood still, so it counts; but the process does not wait for it twice."""
        if peer.open and peer.asked is post:
            peer.send(FINE)
        elif post is not None and SendProblem.TIMEOUT in post.ends and not again:
            assert post.deadline > self.frozen_at - SHORT_S, "an answer of that time was not read first"

    async def settle(self) -> None:
        """All that can happen without time and peers has happened."""
        for _ in range(8):
            await asyncio.sleep(0)

    # -- what must hold

    def check(self) -> None:
        under_way = [post for post in self.posts if not post.ends]
        assert self.pool.in_flight == len(under_way)
        busy = [peer for peer in self.loop.peers if peer.open and peer.asked is not None]
        idle = [peer for peer in self.loop.peers if peer.open and peer.asked is None]
        dials = len(self.loop.dials)
        waiting = len(under_way) - len(busy) - dials
        assert waiting >= 0, "a connection is opened, or a request is under way, for no attempt"
        assert len(busy) + len(idle) + dials <= self.most
        assert not (waiting and idle), "an attempt waits beside an idle connection"
        assert not waiting or len(busy) + dials == self.most, "an attempt waits although a connection may be opened"
        assert self.pool.open_sockets == len(busy) + len(idle)
        now = self.loop.time()
        if now - self.frozen_at > LATE_S:
            late = [post for post in under_way if post.deadline + LATE_S * (1 + len(under_way) // 32) < now]
            assert not late, "in flight after its deadline"
        assert self.pool.has_timers or not (under_way or idle)

    async def rest(self) -> None:
        """Nothing is posted any more: all ends, and nothing is left behind."""
        while any(not post.ends for post in self.posts):
            for _ in range(5):
                self.dial()
            await asyncio.sleep(0.5)
        await asyncio.sleep(IDLE_S + 1.0)
        self.check()
        assert self.pool.open_sockets == 0
        assert not self.pool.has_timers

    async def close(self) -> None:
        """In the middle of everything."""
        for _ in range(self.random.choice((0, 3, 10))):
            self.post()
        if self.random.random() < 0.5:
            await self.settle()
        limit_s = self.random.choice((0.0, 0.1, 10.0))
        at = self.loop.time()
        closing = asyncio.create_task(self.pool.close(limit_s))
        for _ in range(self.random.choice((0, 20))):
            await asyncio.sleep(0)
            self.dial()
            self.with_peer(True, lambda peer: peer.send(FINE))
        if self.random.random() < 0.3:
            self.post()
        await closing
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert self.loop.time() <= min(at + limit_s, max(at, self.ended_at)) + LATE_S
        await self.settle()  # a post after the end is told so in the next step of the loop
        assert all(len(post.ends) == 1 for post in self.posts)
        assert (self.pool.in_flight, self.pool.open_sockets, self.pool.has_timers) == (0, 0, False)
        assert not [peer for peer in self.loop.peers if peer.open]
        timers = [timer for timer in self.loop._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
        assert timers == []


async def simulate(seed: int) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, Loop)
    world = World(seed, loop)
    for _ in range(world.random.choice((30, 100, 300))):
        await world.step()
    if world.random.random() < 0.5:
        await world.rest()
    await world.close()
    assert [str(context.get("exception")) for context in world.errors] == [RAISED] * world.raised


@pytest.mark.parametrize("block", range(share(20)))
def test_every_attempt_ends_once_and_in_time_and_no_connection_is_lost(block: int) -> None:
    for seed in range(block * 50, block * 50 + 50):
        with asyncio.Runner(loop_factory=Loop) as runner:
            try:
                runner.run(simulate(seed))
            except AssertionError as problem:
                raise AssertionError(f"seed {seed}") from problem
