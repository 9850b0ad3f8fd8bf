"""The pages of the admin port on aiohttp: all of them, for connections that ask for more than machines do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from aiohttp import web as http

from app.observability.admin_front import Find
from app.observability.debug_pages import DebugPages

if TYPE_CHECKING:
    from web.console.server import Console


class Site:
    """The pages on an aiohttp server, from `start` to `stop`."""

    def __init__(self, find: Find, paths: tuple[str, ...], console: Console | None, debug: bool) -> None:
        """`find` has the pages at `paths`."""
        self.console = console
        self._debug = DebugPages() if debug else None
        self._application = http.Application(client_max_size=1024)

        async def show(request: http.Request) -> http.Response:
            page = find(request.path_qs, request.headers.get("Accept", ""))
            if page is None:
                raise http.HTTPNotFound
            answer = await page
            headers = {**answer.headers, "Content-Type": answer.content_type}
            return http.Response(body=answer.body, status=answer.status, headers=headers)

        if console is not None:
            console.add_to(self._application.router)
        for path in paths:
            self._application.router.add_get(path, show)
        if self._debug is not None:
            self._debug.add_to(self._application.router)
        self._runner = http.AppRunner(self._application, access_log=None, handle_signals=False, shutdown_timeout=1.0)

    async def start(self) -> Callable[[], asyncio.Protocol]:
        """Returns the function that makes a protocol for a connection."""
        await self._runner.setup()
        server = self._runner.server
        assert server is not None, "it is set up"
        return server

    async def stop(self) -> None:
        """Close its connections, after the requests that still run."""
        if self._debug is not None:
            self._debug.stop()
        if self.console is not None:
            self.console.stop()
        await self._runner.cleanup()
