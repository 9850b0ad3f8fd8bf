"""Faust's web server on httptools and uvloop: `web="httptools://"`. Views, pages and Blueprints work as on aiohttp.

A View may have a method `post_raw(conn, info, request)`, which is called instead of `post`. It gets a `RawRequest`,
and calls `conn.finish(wire, keep)` exactly once, at once or later. Such a request needs no Task and no Future.

Limits come from `app.driver_config` (a `DriverConfig`), the address from the Faust settings `web_bind`, `web_port`.
Does not support HTTP/2, CORS, a thread of its own, decompression, or a `Date` header.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, MutableMapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, cast
from weakref import WeakSet

import httptools
import structlog
from faust.utils import json as _json
from faust.web import base

from knative import memo
from knative.errors import PenstockError
from web.http.config import DriverConfig, cannot_listen
from web.http.connection import Connection
from web.http.listening import is_passed_on, open_sockets
from web.http.messages import Request, Response, problem
from web.http.raw_request import RawRequest
from web.http.router import Found, Router
from web.http.static import serve_folder

log = structlog.get_logger(__name__)

_bytes = bytes
Raw = Callable[[Connection, Mapping[str, str], RawRequest], None]
_Route = tuple[Found | None, Raw | None, Mapping[str, str]]
#: With TLS: a client that does not finish its handshake, or the end of its connection, costs a socket for so long.
_HANDSHAKE_S, _SHUTDOWN_S = 10.0, 5.0
_INTERNAL_ERROR = problem(500, "internal error")
_NOT_FOUND = problem(404, "nothing is served under this path")


class Web(base.Web):
    """The server of one Faust app."""

    driver_version = f"httptools={httptools.__version__}"
    production_blueprints = ()  # Faust's index page on `/`

    def __init__(self, app: Any, **kwargs: Any) -> None:
        super().__init__(app, **kwargs)
        self.config: DriverConfig = getattr(app, "driver_config", None) or DriverConfig()
        self.now = 0.0
        self.draining = False
        self.receiving_bytes = 0
        self.on_refused: Callable[[int], None] | None = None  #: gets the status of requests that no View has seen
        self._router = Router()
        self._routes: dict[tuple[bytes, bytes], _Route] = {}
        self._connections: set[Connection] = set()
        self._opening: WeakSet[Connection] = WeakSet()  # accepted; one whose TLS handshake fails just goes away
        self._all_closed = asyncio.Event()
        self._answering: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self._sweep: asyncio.TimerHandle | None = None
        self._running_loop: asyncio.AbstractEventLoop | None = None

    # -- life ----------------------------------------------------------------------------------------------------------

    async def on_start(self) -> None:
        """Listen. Raises PenstockError if the address is not available."""
        conf = self.app.conf
        if conf.web_in_thread or conf.web_transport.scheme != "tcp" or conf.web_cors_options:
            raise PenstockError(
                "The web driver httptools:// does not support threads, unix sockets or CORS.",
                "Do not set web_in_thread, web_transport and web_cors_options.",
            )
        self.init_server()
        loop = self._running_loop = asyncio.get_running_loop()
        self.now = loop.time()
        sockets = getattr(self.app, "sockets", None) or open_sockets(conf.web_bind, conf.web_port)
        try:
            for listener in sockets:
                is_new = not is_passed_on(listener)
                listener.listen(self.config.backlog)  # uvloop would not say that the port is taken by now
                server = await loop.create_server(
                    self._accepted,
                    sock=listener,
                    backlog=self.config.backlog,
                    ssl=conf.web_ssl_context,
                    ssl_handshake_timeout=_HANDSHAKE_S if conf.web_ssl_context else None,
                    ssl_shutdown_timeout=_SHUTDOWN_S if conf.web_ssl_context else None,
                    start_serving=is_new,
                )
                self._servers.append(server)
        except OSError as error:
            raise cannot_listen(conf.web_bind, conf.web_port, error) from error
        self._sweep = loop.call_later(self.config.sweep_s, self._check_deadlines)

    async def serve(self) -> None:
        """Take the connections that wait at sockets which were passed on, unless it has stopped before."""
        if self.draining:
            return
        for server in self._servers:
            await server.start_serving()

    async def on_stop(self) -> None:
        """Close all connections that are still open, and cancel their requests."""
        await self.drain(0.0)
        if self._sweep is not None:
            self._sweep.cancel()
        for task in list(self._answering):
            task.cancel()

    @property
    def port(self) -> int:
        """The TCP port of the server; the one that the kernel chose if `web_port` was 0."""
        if not self._servers or not self._servers[0].sockets:
            raise PenstockError("The web server is not listening.")
        return cast(int, self._servers[0].sockets[0].getsockname()[1])

    async def drain(self, limit_s: float, *, hands_over: bool = False) -> int:
        """Stop accepting, close idle connections, let busy ones finish (their answers say `connection: close`).

        `hands_over`: others go on with the sockets. So no client must find its connection closed while it sends: all
        answers say `connection: close` for a while before. Then it waits until each has been used, for some time: the
        client of one that is closed when idle may be about to send, which takes long on a busy machine.
        Returns the number of connections that had to be cut after `limit_s` seconds.
        """
        self.draining = True
        if hands_over:
            await asyncio.sleep(self.config.sweep_s)
        for server in self._servers:
            server.close()
        if hands_over:
            await self._all_closed_within(self.config.hand_over_idle_s, self._opening)
        await asyncio.sleep(0)  # a busy loop may not have read what has arrived, and a close would reset its connection
        for connection in list(self._connections):
            connection.close_if_idle()
        await self._all_closed_within(limit_s)
        left = list(self._connections)
        if left and limit_s > 0:
            log.warning("draining reached its time limit", connections=len(left), limit_s=limit_s)
        for connection in left:
            connection.abort()
        return len(left)

    async def _all_closed_within(self, limit_s: float, opening: Collection[Connection] = ()) -> None:
        """Wait until all connections are closed, and those that are `opening` too, for at most `limit_s` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while self._connections or opening:
                    self._all_closed.clear()
                    await self._all_closed.wait()

    def _check_deadlines(self) -> None:
        loop = cast(asyncio.AbstractEventLoop, self._running_loop)
        now = self.now = loop.time()
        self._sweep = loop.call_later(self.config.sweep_s, self._check_deadlines)
        for connection in list(self._connections):
            connection.check_deadline(now)

    # -- what connections need (web.http.connection.Server) ------------------------------------------------------------

    def _accepted(self) -> Connection:
        connection = Connection(self)
        self._opening.add(connection)
        return connection

    def opened(self, connection: Connection) -> bool:
        """A connection was opened. False: there are too many."""
        self._opening.discard(connection)
        self._connections.add(connection)
        return len(self._connections) <= self.config.connections_max

    def closed(self, connection: Connection) -> None:
        """A connection was closed."""
        self._connections.discard(connection)
        if not self._connections:
            self._all_closed.set()

    def refused(self, status: int) -> None:
        """A request was rejected before any View saw it."""
        if self.on_refused is not None:
            self.on_refused(status)

    def dispatch(self, connection: Connection, request: RawRequest) -> None:
        """Have a request answered."""
        method, target, keep = request.method, request.target, request.keep
        route = self._routes.get((method, target))
        if route is None:
            route = self._find(method, target)
        match, raw, info = route
        if raw is not None:
            try:
                raw(connection, info, request)
            except Exception:
                log.exception("view failed", method=method, target=target)
                connection.finish(_INTERNAL_ERROR, False)
            return
        if match is None:
            self.refused(404)
            self._plain(connection, method, _NOT_FOUND, keep)
        elif match.handler is None:
            self.refused(405)
            refusal = problem(405, f"{method.decode()} is not served under this path", (("allow", match.allow),))
            self._plain(connection, method, refusal, keep)
        else:
            make = partial(
                Request, method.decode(), target, request.host, request.pairs(), request.body, match.info, keep
            )
            loop = cast(asyncio.AbstractEventLoop, self._running_loop)
            task = loop.create_task(self._answer(connection, method, keep, match.handler, make))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    @staticmethod
    def _plain(connection: Connection, method: bytes, wire: bytes, keep: bool) -> None:
        connection.finish(wire.partition(b"\r\n\r\n")[0] + b"\r\n\r\n" if method == b"HEAD" else wire, keep)

    def _find(self, method: bytes, target: bytes) -> _Route:
        path = target.partition(b"?")[0].decode("latin-1")
        match = self._router.find(method.decode(), path)
        raw = getattr(match.handler, "post_raw", None) if match is not None and method == b"POST" else None
        if len(self._routes) >= memo.ENTRIES_MAX:
            self._routes.clear()
        route = self._routes[method, target] = (match, raw, match.info if match is not None else {})
        return route

    async def _answer(
        self, connection: Connection, method: _bytes, keep: bool, handler: Any, make: Callable[[], Request]
    ) -> None:
        try:
            request = make()
            response = await handler(request)
            wire = response.wire(request.method)
        except Exception:
            log.exception("view failed", method=method)
            self._plain(connection, method, _INTERNAL_ERROR, keep)
        else:
            connection.finish(wire, keep)

    # -- what Faust's Views need ---------------------------------------------------------------------------------------

    def route(self, pattern: str, handler: Any, cors_options: Mapping[str, Any] | None = None) -> None:
        """Serve a pattern by a View, or GET and HEAD by an async callable. Raises PenstockError for CORS options."""
        if cors_options:
            raise PenstockError("The web driver httptools:// does not support CORS.", "Remove `cors_options`.")
        methods = handler.get_methods() if hasattr(handler, "get_methods") else {"GET", "HEAD"}
        self._router.add(pattern, methods, handler)
        self._routes.clear()

    def add_static(self, prefix: str, path: Path | str, **kwargs: Any) -> None:
        """Serve the files of a folder."""
        self.route(prefix.rstrip("/") + "/{filename:.+}", serve_folder(Path(path)))

    def text(
        self,
        value: str,
        *,
        content_type: str | None = None,
        status: int = 200,
        reason: str | None = None,
        headers: MutableMapping[str, str] | None = None,
    ) -> base.Response:
        """Returns a text answer."""
        return Response(value.encode(), status, content_type or "text/plain", headers, "utf-8")

    def html(
        self,
        value: str,
        *,
        content_type: str | None = None,
        status: int = 200,
        reason: str | None = None,
        headers: MutableMapping[str, str] | None = None,
    ) -> base.Response:
        """Returns an HTML answer."""
        return Response(value.encode(), status, content_type or "text/html", headers, "utf-8")

    def json(
        self,
        value: Any,
        *,
        content_type: str | None = None,
        status: int = 200,
        reason: str | None = None,
        headers: MutableMapping[str, str] | None = None,
    ) -> base.Response:
        """Returns a JSON answer."""
        text = _json.dumps(value)
        body = text.encode() if isinstance(text, str) else text
        return Response(body, status, content_type or "application/json", headers, "utf-8")

    def bytes(
        self,
        value: _bytes,
        *,
        content_type: str | None = None,
        status: int = 200,
        reason: str | None = None,
        headers: MutableMapping[str, str] | None = None,
    ) -> base.Response:
        """Returns an answer with these bytes."""
        return Response(value, status, content_type, headers)

    def bytes_to_response(self, s: _bytes) -> base.Response:
        """Inverts `response_to_bytes` (Faust's view cache)."""
        status, headers, body = self._bytes_to_response(s)
        return Response(body, int(status), None, headers)

    def response_to_bytes(self, response: base.Response) -> _bytes:
        """Returns an answer in the format of Faust's view cache."""
        return self._response_to_bytes(response.status, response.headers, response.body)

    async def read_request_content(self, request: base.Request) -> _bytes:
        """Returns the body."""
        return await request.read()

    async def wsgi(self) -> Any:
        """WSGI is not supported: raises PenstockError."""
        raise PenstockError("The web driver httptools:// does not support WSGI.")
