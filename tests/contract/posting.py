"""A Sender under test: posts one after the other or side by side, and proof that nothing is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from agents.http.connection import Pairs
from agents.http.egress_guard import EgressConfig, EgressGuard
from agents.http.pool import ConnectionPool, PoolConfig, SendError
from knative.delivery.policy import Addressable
from knative.delivery.verdicts import Verdict, decide, decide_error

LIMIT_S = 180.0  # guards against hanging, nothing else


@dataclass(slots=True)
class Answer:
    """What `done` was called with."""

    status: int = 0
    headers: Pairs = field(default_factory=list)
    body: bytes = b""
    error: SendError | None = None

    @property
    def kind(self) -> str:
        """Why there was no answer, "" when there was an answer."""
        return self.error.problem if self.error else ""

    @property
    def verdict(self) -> Verdict:
        """What it means."""
        if self.error:
            return decide_error(self.error.problem, self.error.message)
        return decide(self.status, self.headers, self.body)


class Poster:
    """`post` starts an attempt and gives its future, `answer` waits for it."""

    def __init__(self, sender: ConnectionPool) -> None:
        self.sender = sender

    def request(self, body: bytes = b"") -> bytes:
        """A complete request with this body."""
        return self.sender.prefix("default") + b"\r\ncontent-length: %d\r\n\r\n" % len(body) + body

    def post(self, body: bytes = b"", timeout_s: float = LIMIT_S) -> asyncio.Future[Answer]:
        """Exactly one call of `done`: a second one raises in the loop."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def done(status: int | SendError, headers: Pairs | None, data: bytes) -> None:
            assert type(data) is bytes
            if isinstance(status, SendError):
                future.set_result(Answer(error=status))
            else:
                future.set_result(Answer(status, headers or [], data))

        self.sender.post(self.request(body), timeout_s, done)
        assert not future.done()
        return future

    async def answer(self, body: bytes = b"", timeout_s: float = LIMIT_S) -> Answer:
        """One attempt to its end."""
        async with asyncio.timeout(2 * LIMIT_S):
            return await self.post(body, timeout_s)


@asynccontextmanager
async def posting(
    uri: str, config: PoolConfig | None = None, *, guard: EgressConfig | None = None, ca_certs: str = ""
) -> AsyncIterator[Poster]:
    """A sender that is closed at the end, and has left nothing then: no task, no socket, no attempt, no complaint."""
    loop = asyncio.get_running_loop()
    complaints: list[object] = []
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    before = asyncio.all_tasks()
    sender = ConnectionPool(Addressable(uri, ca_certs), config or PoolConfig(), EgressGuard(guard), loop=loop)
    try:
        yield Poster(sender)
    finally:
        await sender.close(0.0)
    assert sender.in_flight == 0
    assert sender.open_sockets == 0
    assert {task for task in asyncio.all_tasks() - before if "Sender" in repr(task.get_coro())} == set()
    assert complaints == []
