"""Takes the events that Penstock delivers: an ASGI application, or a handler of aiohttp.

    request --> token? --> event? --> handled before? --> the function --> answer
                 | no: 401  | no: 400   | yes: the same answer   | raises: 400, 503 or 500

The answer says whether the event comes again:

    204, or 200 with an event    the function has returned: done
    400                          it has raised Reject, or this is not an event: never again, a dead letter at once
    503 with Retry-After         it has raised Retry: again, by the retries of the subscription
    500                          it has raised anything else: the same
    409                          the same event is being handled at this moment: the same
    401, 405, 413                wrong token, not a POST, too large: never again
"""

from __future__ import annotations

import asyncio
import hmac
import inspect
import logging
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from knative.cloudevents.attributes import BadEvent
from knative.errors import UsageError
from penstock.events import as_event, from_message, to_message

if TYPE_CHECKING:
    from aiohttp import web

log = logging.getLogger("penstock")

#: A function of one event, async or not. It returns None, or an event: an object of the SDK, or a mapping for `event`.
Handler = Callable[[Any], Any]
Pairs = Sequence[tuple[bytes, bytes]]
_REASON_MAX = 1_000  # characters; a dead letter quotes the beginning of an answer


class Reject(Exception):
    """Raise it for an event that must not be delivered again: it becomes a dead letter at once."""


class Retry(Exception):
    """Raise it for an event that is to be delivered again. `after_s`: the fewest seconds until then."""

    def __init__(self, reason: str = "", after_s: float | None = None) -> None:
        super().__init__(reason)
        self.after_s = after_s


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a delivery."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


def _said(status: int, reason: str, *headers: tuple[str, str]) -> Answer:
    text = reason[:_REASON_MAX].encode("utf-8", "replace")
    return Answer(status, (("content-type", "text/plain; charset=utf-8"), *headers), text)


_DONE = Answer(204)


class Subscriber:
    """Calls a function for each event and answers by what comes of it. An ASGI application by itself.

    >>> from penstock import Subscriber
    >>> app = Subscriber(lambda event: print(event.get_type()), remember=10_000)

    `uvicorn module:app` serves it; with aiohttp: `web.Application().router.add_post("/", app.aiohttp)`.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        token: str | None = None,
        remember: int = 0,
        event_bytes_max: int = 1_048_576,
        in_thread: bool = True,
    ) -> None:
        """`token`: the bearer token that requests must have. `remember`: the number of events whose answers are kept,
        by source and id, so that an event that comes again is not handled again; in memory only, so a restart forgets
        them. `in_thread`: a function that is not async runs in a thread, so that it may wait."""
        self._handler = handler
        self._token = None if token is None else f"Bearer {token}".encode()
        self._answers: OrderedDict[tuple[str, str], Answer | None] = OrderedDict()  # None: being handled
        self._remember = remember
        self._event_bytes_max = event_bytes_max
        self.waits_in_thread = in_thread

    async def answer(self, pairs: Pairs, body: bytes) -> Answer:
        """The answer to a POST with these headers and this body. Raises nothing but what a cancellation raises."""
        if self._token is not None and not _has(pairs, self._token):
            return _said(401, "the request has no token that this subscriber accepts", ("www-authenticate", "Bearer"))
        if len(body) > self._event_bytes_max:
            return self._too_large()
        try:
            event = from_message(pairs, body)
        except BadEvent as problem:
            return _said(400, str(problem))
        if not self._remember:
            return await self._handled(event)
        return await self._handled_once((event.get_source(), event.get_id()), event)

    async def _handled_once(self, key: tuple[str, str], event: Any) -> Answer:
        if key in self._answers:
            return self._answers[key] or _said(409, "the same event is already being handled")
        self._answers[key] = None
        answer: Answer | None = None
        try:
            answer = await self._handled(event)
        finally:
            # What is to be delivered again is to be handled again.
            if answer is None or answer.status >= 500:
                del self._answers[key]
            else:
                self._answers[key] = answer
                self._forget()
        return answer

    def _forget(self) -> None:
        """The oldest answers go first; what is being handled stays."""
        while len(self._answers) > self._remember:
            oldest = next((key for key, answer in self._answers.items() if answer is not None), None)
            if oldest is None:
                return
            del self._answers[oldest]

    async def _handled(self, event: Any) -> Answer:
        try:
            if inspect.iscoroutinefunction(self._handler) or not self.waits_in_thread:
                result = self._handler(event)
            else:
                result = await asyncio.to_thread(self._handler, event)
            if inspect.isawaitable(result):
                result = await result
            return _DONE if result is None else self._reply(result)
        except Reject as problem:
            return _said(400, str(problem) or "rejected")
        except Retry as problem:
            after = () if problem.after_s is None else (("retry-after", str(math.ceil(problem.after_s))),)
            return _said(503, str(problem) or "to be delivered again", *after)
        except Exception as problem:
            log.exception("handler failed for the event %s of %s", event.get_id(), event.get_source())
            return _said(500, f"{type(problem).__name__}: {problem}")

    @staticmethod
    def _reply(result: Any) -> Answer:
        if not (isinstance(result, Mapping) or hasattr(result, "get_attributes")):
            raise UsageError(f"A handler returned {type(result).__name__}.", "Return None, or an event as the reply.")
        headers, body = to_message(as_event(result, None, {}))
        return Answer(200, tuple(headers.items()), body)

    def _too_large(self) -> Answer:
        return _said(413, f"the event has more than {self._event_bytes_max} bytes")

    async def aiohttp(self, request: web.Request) -> web.Response:
        """A handler of aiohttp, for POST."""
        from aiohttp import web

        answer = await self.answer(request.raw_headers, await request.read())
        return web.Response(status=answer.status, headers=answer.headers, body=answer.body)

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        """As ASGI calls it."""
        if scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        if scope["type"] != "http":
            raise ValueError(f"a subscriber accepts HTTP requests only, not {scope['type']}")
        answer = await self._asgi_answer(scope, receive)
        if answer is not None:
            headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
            if answer.status != _DONE.status:
                headers.append((b"content-length", b"%d" % len(answer.body)))
            await send({"type": "http.response.start", "status": answer.status, "headers": headers})
            await send({"type": "http.response.body", "body": answer.body})

    async def _asgi_answer(
        self, scope: Mapping[str, Any], receive: Callable[[], Awaitable[Mapping[str, Any]]]
    ) -> Answer | None:
        """None: the client has gone."""
        if scope["method"] != "POST":
            return _said(405, "send events with POST", ("allow", "POST"))
        body = bytearray()
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            if len(body) > self._event_bytes_max:
                return self._too_large()
            more = message.get("more_body", False)
        return await self.answer(scope["headers"], bytes(body))


def _has(pairs: Pairs, authorization: bytes) -> bool:
    given = [value for name, value in pairs if name.lower() == b"authorization"]
    return len(given) == 1 and hmac.compare_digest(given[0], authorization)
