"""Looks up the host of one destination, in a thread of its own and never twice at a time.

A name whose servers do not answer holds its look-up for half a minute. The event loop's own pool has a few threads for
the whole process, so that one such subscriber would keep all others from connecting; here it holds one thread, its own.
Attempts that need the name meanwhile wait for the same answer, each for as long as its own deadline lets it.

Refuses to keep an answer: each new connection asks anew, or shares a question that is under way.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress

from agents.http.endpoint import Endpoint

#: IP addresses in the order in which to try them, or why there are none.
Answer = list[str] | Exception


class Resolver:
    """Of one target, and one event loop."""

    def __init__(self, target: Endpoint, loop: asyncio.AbstractEventLoop) -> None:
        self._endpoint = target
        self._loop = loop
        self._asked: asyncio.Future[Answer] | None = None

    async def addresses(self) -> list[str]:
        """The host's addresses, each once. Raises OSError, UnicodeError."""
        if self._endpoint.address is not None:
            return [self._endpoint.address]
        if self._asked is None:
            asked: asyncio.Future[Answer] = self._loop.create_future()
            try:
                threading.Thread(target=self._ask, args=(asked,), name="look-up", daemon=True).start()
            except RuntimeError as problem:  # no thread is to be had now
                raise OSError(str(problem)) from problem
            self._asked = asked
        answer = await asyncio.shield(self._asked)
        if isinstance(answer, list):
            return answer
        raise answer

    def _ask(self, asked: asyncio.Future[Answer]) -> None:
        answer: Answer
        try:
            found = socket.getaddrinfo(
                self._endpoint.host, self._endpoint.port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
            )
            answer = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        except Exception as error:  # whatever it is: who waits for an answer must get one
            answer = error
        with suppress(RuntimeError):  # the loop has been closed meanwhile: nobody waits
            self._loop.call_soon_threadsafe(self._answered, asked, answer)

    def _answered(self, asked: asyncio.Future[Answer], answer: Answer) -> None:
        self._asked = None
        asked.set_result(answer)
