"""Faust's own aiohttp driver without its index page: `web="aiohttp://"`, for users who need its middlewares.

Events, answers and the limits on header lines are the same as on `web/http/driver`. The messages about exceeded limits,
and the time limits, are aiohttp's.
"""

from __future__ import annotations

from typing import Any

from aiohttp.typedefs import Handler, Middleware
from aiohttp.web import (
    Application,
    AppRunner,
    HTTPRequestHeaderFieldsTooLarge,
    Request,
    SockSite,
    StreamResponse,
    middleware,
)
from faust.web.drivers import aiohttp as faust_aiohttp

from tables.faust_support import runner_of, use_runner
from web.http.config import DriverConfig, cannot_listen
from web.http.listening import open_sockets


def _bound_heads(bytes_max: int) -> Middleware:
    """Answers 431 if all header lines together exceed the limit. aiohttp only limits each line."""

    @middleware
    async def bound(request: Request, handler: Handler) -> StreamResponse:
        # A line is a name, ": ", a value and CR LF.
        if sum(len(name) + len(value) + 4 for name, value in request.raw_headers) > bytes_max:
            raise HTTPRequestHeaderFieldsTooLarge(reason=f"header lines of more than {bytes_max} bytes")
        return await handler(request)

    return bound


class Web(faust_aiohttp.Web):
    """The server of one Faust app."""

    production_blueprints = ()  # Faust's index page on `/`

    def __init__(self, app: Any, **kwargs: Any) -> None:
        super().__init__(app, **kwargs)
        config: DriverConfig = getattr(app, "driver_config", None) or DriverConfig()
        # aiohttp rejects a body of exactly client_max_size, so the limit is one byte higher.
        options = {**(app.conf.web_application_options or {}), "client_max_size": config.event_bytes_max + 1}
        options["middlewares"] = [
            _bound_heads(config.header_bytes_max),
            *options.get("middlewares", ()),
        ]  # must be a list: OpenTelemetry adds its middleware to it
        application = Application(**options)
        runner = AppRunner(
            application,
            access_log=None,
            auto_decompress=False,
            max_line_size=config.url_bytes_max,
            max_field_size=config.header_bytes_max,
            max_headers=config.header_count_max,
        )
        use_runner(self, application, runner)

    async def start_server(self) -> None:
        """Listen. Raises PenstockError if the address is not available."""
        runner, conf = runner_of(self), self.app.conf
        await runner.setup()
        try:
            for listener in getattr(self.app, "sockets", None) or open_sockets(conf.web_bind, conf.web_port):
                listener.listen()  # uvloop would not say that the port is taken by now
                await SockSite(runner, listener, ssl_context=conf.web_ssl_context).start()
        except OSError as error:
            raise cannot_listen(conf.web_bind, conf.web_port, error) from error

    async def drain(self, limit_s: float, *, hands_over: bool = False) -> int:
        """Stop accepting and let busy connections finish for `limit_s` seconds; returns 0 (aiohttp does not count)."""
        runner = runner_of(self)
        for site in list(runner.sites):
            await site.stop()
        server = runner.server
        if server is not None:
            server.pre_shutdown()
            await server.shutdown(limit_s)
        return 0
