"""Resolves the host of one destination, in a thread of its own, with at most one query at a time.

When DNS servers do not answer, a query takes half a minute. The event loop's thread pool has a few threads for the
whole process, so one such subscriber would prevent all others from connecting. Here it blocks only its own thread.
Attempts that need the name meanwhile share the query, each until its own deadline. Does not cache answers: each new
connection resolves the name again, or shares a query that is under way.
"""

from __future__ import annotations

import asyncio
import socket
import threading

from agents.http.endpoint import Endpoint
from tables.kafka.loop_thread import call_soon

#: IP addresses in the order in which to try them, or the error.
Answer = list[str] | Exception


class Resolver:
    """The resolver of one endpoint, on one event loop."""

    def __init__(self, endpoint: Endpoint, loop: asyncio.AbstractEventLoop) -> None:
        self._endpoint = endpoint
        self._loop = loop
        self._asked: asyncio.Future[Answer] | None = None

    async def addresses(self) -> list[str]:
        """Returns the host's addresses, each once. Raises OSError, UnicodeError."""
        if self._endpoint.address is not None:
            return [self._endpoint.address]
        if self._asked is None:
            asked: asyncio.Future[Answer] = self._loop.create_future()
            try:
                threading.Thread(target=self._ask, args=(asked,), name="look-up", daemon=True).start()
            except RuntimeError as problem:  # no thread can be started now
                raise OSError(str(problem)) from problem
            self._asked = asked
        answer = await asyncio.shield(self._asked)  # one attempt that is cancelled must not cancel the others' query
        if isinstance(answer, list):
            return answer
        raise answer

    def _ask(self, asked: asyncio.Future[Answer]) -> None:
        answer: Answer
        try:
            entries = socket.getaddrinfo(
                self._endpoint.host, self._endpoint.port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
            )
            answer = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
        except Exception as error:  # of any kind: the attempts that wait must get an answer
            answer = error
        call_soon(self._loop, self._answered, asked, answer)

    def _answered(self, asked: asyncio.Future[Answer], answer: Answer) -> None:
        self._asked = None
        asked.set_result(answer)
