"""The admin port: the console, metrics, health and statistics of subscriptions, on an aiohttp server of its own.

It also answers while the ingress port is full or draining. All pages but those of the console are read-only.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson
import structlog
from aiohttp import web as http
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from app.observability.debug_pages import INDEX as DEBUG_INDEX
from app.observability.debug_pages import DebugPages
from app.observability.merging import families, health
from app.observability.others import SAMPLES, Others
from web.http.config import cannot_listen
from web.http.listening import open_sockets

if TYPE_CHECKING:
    from app.observability.metrics import Metrics
    from web.console.server import Console
    from web.pages.health import Check
    from web.pages.subscribers import SubscribersPage

log = structlog.get_logger(__name__)

#: The hint for a port that is not available.
OTHER_ADMIN_PORT = "Choose another with PENSTOCK_ADMIN_PORT (0 = none)."

_INDEX = """\
Penstock admin

/metrics  Prometheus metrics
/healthz  whether the process is alive
/readyz   whether it is ready for requests
/subscribers/<namespace>/<channel>?wide  statistics of the subscriptions of a channel or broker
"""


@dataclass(frozen=True, slots=True)
class AdminConfig:
    """Port 0 = no admin server at all."""

    bind: str = "127.0.0.1"
    port: int = 8081
    debug: bool = False  #: serve `app/observability/debug_pages` too
    path: str | None = None  #: of a socket, in place of the port: this is one of several processes, and not the first
    began_at: float = 0.0  #: of this process, by the monotonic clock


class AdminServer:
    """Serves until `stop`. `alive` and `ready` are the functions that the health pages of ingress call too; its page of
    subscribers is the same, with `?wide`."""

    def __init__(
        self,
        config: AdminConfig,
        metrics: Metrics,
        alive: Check,
        ready: Check,
        subscribers: SubscribersPage,
        tls: ssl.SSLContext | None = None,
        console: Console | None = None,
        others: Others | None = None,
    ) -> None:
        """`tls` None: HTTP without TLS. `console` None: a list of the pages in its place. `others`: processes that the
        pages are about too."""
        self._others = others
        self._tls = tls
        self._console = console
        self.config = config
        self._metrics = metrics
        self._alive = alive
        self._ready = ready
        self._subscribers = subscribers
        self._debug = DebugPages() if config.debug else None
        self._runner: http.AppRunner | None = None

    async def start(self, sockets: Sequence[socket.socket] = ()) -> None:
        """Listen, on these sockets if there are any. Raises PenstockError when the port cannot be opened."""
        if not self.config.port:
            return
        bind, port = self.config.bind, self.config.port
        runner = http.AppRunner(self._application(), access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await runner.setup()
        try:
            if self.config.path is not None:
                await http.UnixSite(runner, self.config.path).start()
                self._runner = runner
                return
            for listener in sockets or open_sockets(bind, port, hint=OTHER_ADMIN_PORT):
                listener.listen()  # uvloop would not say that the port is taken by now
                await http.SockSite(runner, listener, ssl_context=self._tls).start()
        except OSError as problem:
            await runner.cleanup()
            raise cannot_listen(bind, port, problem, OTHER_ADMIN_PORT) from problem
        self._runner = runner
        log.info("admin server listens", bind=bind, port=port)
        if self._others is not None:  # what they count from now on is new
            await self._others.metrics(self._metrics.registry)

    async def leave(self) -> None:
        """The process is about to end: what people have started in the console ends, within a limit."""
        if self._console is not None:
            await self._console.leave()

    async def stop(self, limit_s: float) -> None:
        """Close the port; requests that still run after `limit_s` are aborted."""
        runner, self._runner = self._runner, None
        if self._debug is not None:
            self._debug.stop()
        if self._console is not None:
            self._console.stop()
        if runner is None:
            return
        try:
            async with asyncio.timeout(limit_s):
                await runner.cleanup()
        except TimeoutError:
            log.warning("admin server did not stop in time", limit_s=limit_s)

    def _application(self) -> http.Application:
        application = http.Application(client_max_size=1024)
        if self._console is None:
            application.router.add_get("/", self._index)
        else:
            self._console.add_to(application.router)
        application.router.add_get("/metrics", self._show_metrics)
        application.router.add_get("/healthz", self._healthz)
        application.router.add_get("/readyz", self._readyz)
        if self.config.path is not None:
            application.router.add_get(SAMPLES, self._show_samples)
        application.router.add_get("/subscribers/{namespace}/{channel}", self._show_subscribers)
        if self._debug is not None:
            self._debug.add_to(application.router)
        return application

    async def _index(self, _request: http.Request) -> http.Response:
        return http.Response(text=_INDEX if self._debug is None else _INDEX + DEBUG_INDEX)

    async def _show_metrics(self, request: http.Request) -> http.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        shown: Collector = self._metrics.registry
        if self._others is not None:
            shown = await self._others.metrics(shown)
        body = await asyncio.to_thread(encode, shown)  # thousands of lines would block the loop
        return http.Response(body=body, headers={"Content-Type": content_type})

    async def _show_samples(self, _request: http.Request) -> http.Response:
        body = await asyncio.to_thread(self._samples)
        return http.Response(body=body, content_type="application/json")

    def _samples(self) -> bytes:
        return orjson.dumps({"began_at": self.config.began_at, "families": families(self._metrics.registry.collect())})

    async def _healthz(self, request: http.Request) -> http.Response:
        return await self._page(request.path, self._alive, ("ok", "failing"), one_is_enough=False)

    async def _readyz(self, request: http.Request) -> http.Response:
        return await self._page(request.path, self._ready, ("ready", "not ready"), one_is_enough=True)

    async def _page(self, path: str, check: Check, words: tuple[str, str], *, one_is_enough: bool) -> http.Response:
        good, fields = check()
        if self._others is not None:
            good, fields = health((good, fields), await self._others.ask(path), words, one_is_enough=one_is_enough)
        body = orjson.dumps({"status": words[not good], **fields})
        return http.Response(body=body, status=200 if good else 503, content_type="application/json")

    async def _show_subscribers(self, request: http.Request) -> http.Response:
        names = request.match_info
        answer = self._subscribers.answer(names["namespace"], names["channel"], wide="wide" in request.query)
        body = orjson.dumps(answer.body)
        return http.Response(body=body, status=answer.status, headers=answer.headers, content_type="application/json")
