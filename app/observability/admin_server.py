"""The admin port: the console, metrics, health and statistics of subscriptions.

It answers even while the ingress port is full or draining. All pages but those of the console are read-only. The first
server of a connection is `admin_front`; with the first page for people, `admin_site` and the console are imported.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote

import orjson
import structlog
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from app.observability.admin_front import Front, Page
from app.observability.merging import families, health
from app.observability.others import SAMPLES, Others
from web.http.config import cannot_listen
from web.http.listening import open_sockets

if TYPE_CHECKING:
    from app.observability.admin_site import Site
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
        console: Callable[[], Awaitable[Console]] | None = None,
        others: Others | None = None,
    ) -> None:
        """`tls` None: HTTP without TLS. `console` makes it, for the first page that is asked for; None: a list of the
        pages in its place. `others`: processes that the pages are about too."""
        self._others = others
        self._tls = tls
        self._make_console = console
        self.config = config
        self._metrics = metrics
        self._alive = alive
        self._ready = ready
        self._subscribers = subscribers
        self._servers: list[asyncio.Server] = []
        self._fronts: set[Front] = set()
        self._site: asyncio.Task[tuple[Site, Callable[[], asyncio.Protocol]]] | None = None
        self._is_leaving = False
        self._pages: dict[str, Callable[[str], Awaitable[Page]]] = {
            "/metrics": self._show_metrics,
            "/healthz": lambda _: self._page("/healthz", self._alive, ("ok", "failing"), one_is_enough=False),
            "/readyz": lambda _: self._page("/readyz", self._ready, ("ready", "not ready"), one_is_enough=True),
        }
        if config.path is not None:
            self._pages[SAMPLES] = self._show_samples
        if console is None:
            self._pages["/"] = self._index

    async def start(self, sockets: Sequence[socket.socket] = ()) -> None:
        """Listen, on these sockets if there are any. Raises PenstockError when the port cannot be opened."""
        if not self.config.port:
            return
        bind, port, loop = self.config.bind, self.config.port, asyncio.get_running_loop()

        def connection() -> Front:
            return Front(self._find, self._other, self._fronts)

        try:
            if self.config.path is not None:
                self._servers.append(await loop.create_unix_server(connection, self.config.path))
                return
            for listener in sockets or open_sockets(bind, port, hint=OTHER_ADMIN_PORT):
                listener.listen()  # uvloop would not say that the port is taken by now
                self._servers.append(await loop.create_server(connection, sock=listener, ssl=self._tls))
        except OSError as problem:
            await self.stop(0)
            raise cannot_listen(bind, port, problem, OTHER_ADMIN_PORT) from problem
        log.info("admin server listens", bind=bind, port=port)
        if self._others is not None:  # what they count from now on is new
            await self._others.metrics(self._metrics.registry)

    async def leave(self) -> None:
        """The process is about to end: what people have started in the console ends, within a limit."""
        self._is_leaving = True
        if self._site is not None and (console := (await self._site)[0].console) is not None:
            await console.leave()

    async def stop(self, limit_s: float) -> None:
        """Close the port; requests that still run after `limit_s` are aborted."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        ends = [front.work for front in self._fronts if front.work is not None]
        if self._site is not None:
            ends.append(asyncio.create_task(self._close_site()))
        if ends and (await asyncio.wait(ends, timeout=limit_s))[1]:
            log.warning("admin server did not stop in time", limit_s=limit_s)
        for front in list(self._fronts):
            front.close()

    async def _close_site(self) -> None:
        if self._site is not None:
            await (await self._site)[0].stop()

    def _find(self, target: str, accept: str) -> Awaitable[Page] | None:
        path, _, query = target.partition("?")
        if show := self._pages.get(path):
            return show(accept)
        match path.split("/"):
            case ["", "subscribers", namespace, channel]:
                return self._show_subscribers(unquote(namespace), unquote(channel), query)
        return None

    async def _other(self) -> Callable[[], asyncio.Protocol]:
        if self._site is None:
            self._site = asyncio.create_task(self._start_site())
        return (await asyncio.shield(self._site))[1]

    async def _start_site(self) -> tuple[Site, Callable[[], asyncio.Protocol]]:
        try:
            await asyncio.to_thread(import_module, "app.observability.admin_site")  # 0.1 s, for which events would wait
            from app.observability.admin_site import Site

            console = None if self._make_console is None else await self._make_console()
            if self._is_leaving and console is not None:
                await console.leave()
            site = Site(self._find, (*self._pages, "/subscribers/{namespace}/{channel}"), console, self.config.debug)
            return site, await site.start()
        except Exception:
            self._site = None  # the next connection tries it again
            raise

    async def _index(self, _accept: str) -> Page:
        if not self.config.debug:
            return Page(_INDEX.encode(), content_type="text/plain; charset=utf-8")
        from app.observability.debug_pages import INDEX

        return Page((_INDEX + INDEX).encode(), content_type="text/plain; charset=utf-8")

    async def _show_metrics(self, accept: str) -> Page:
        encode, content_type = choose_encoder(accept)
        collector: Collector = self._metrics.registry
        if self._others is not None:
            collector = await self._others.metrics(collector)
        body = await asyncio.to_thread(encode, collector)  # thousands of lines would block the loop
        return Page(body, content_type=content_type)

    async def _show_samples(self, _accept: str) -> Page:
        return Page(await asyncio.to_thread(self._samples))

    def _samples(self) -> bytes:
        return orjson.dumps({"began_at": self.config.began_at, "families": families(self._metrics.registry.collect())})

    async def _page(self, path: str, check: Check, words: tuple[str, str], *, one_is_enough: bool) -> Page:
        good, fields = check()
        if self._others is not None:
            good, fields = health((good, fields), await self._others.ask(path), words, one_is_enough=one_is_enough)
        return Page(orjson.dumps({"status": words[not good], **fields}), 200 if good else 503)

    async def _show_subscribers(self, namespace: str, channel: str, query: str) -> Page:
        wide = "wide" in parse_qs(query, keep_blank_values=True)
        answer = self._subscribers.answer(namespace, channel, wide=wide)
        return Page(orjson.dumps(answer.body), answer.status, headers=answer.headers)
