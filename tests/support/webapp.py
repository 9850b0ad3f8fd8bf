"""A Faust hub app with our web driver, no Kafka, on a free port, in a thread with an event loop of its own.

So that tests can be clients with plain blocking sockets. `RunningWeb.call` runs something inside that loop.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import tempfile
import time
from collections.abc import Callable, Coroutine
from contextlib import closing
from typing import Any, TypeVar, cast

import faust
import uvloop
from faust.app.base import BootStrategy

from tests.support.processes import free_port
from tests.support.serving import LoopThread
from web.http.config import DriverConfig
from web.http.registry import install

T = TypeVar("T")
LIMIT_S = 180.0


class _NoKafka(BootStrategy):
    enable_kafka_consumer = False
    enable_kafka_producer = False


class HubApp(faust.App):
    """The shape of the real hub: consumer and producer off."""

    BootStrategy = _NoKafka
    driver_config: DriverConfig
    sockets: list[socket.socket]


def _make_app(config: DriverConfig | None) -> HubApp:
    """A hub app that would listen on a free port of 127.0.0.1."""
    install()
    app = HubApp(
        "web-test", broker="kafka://127.0.0.1:1", web="httptools://", web_bind="127.0.0.1", web_port=free_port(),
        topic_disable_leader=True, web_router_enabled=False, web_tables_enabled=False,
        datadir=tempfile.mkdtemp(prefix="penstock-web-"),
    )  # fmt: skip
    app.driver_config = config or DriverConfig()
    return app


class RunningWeb:
    """The app's web server, running until `stop`."""

    def __init__(
        self,
        setup: Callable[[HubApp], None],
        config: DriverConfig | None = None,
        sockets: list[socket.socket] | None = None,
    ) -> None:
        """`sockets`: those that it serves, in place of a free port."""
        logging.getLogger("faust").setLevel(logging.WARNING)
        self._thread = LoopThread("web-under-test", uvloop.new_event_loop)
        self.loop = self._thread.loop
        try:
            self._thread.call(self._start(setup, config, sockets))
        except BaseException:
            self.stop()
            raise

    async def _start(
        self, setup: Callable[[HubApp], None], config: DriverConfig | None, sockets: list[socket.socket] | None
    ) -> None:
        self.app = _make_app(config)
        if sockets is not None:
            self.app.sockets = sockets
        setup(self.app)
        self.app.finalize()
        self.port: int = self.app.conf.web_port
        await self.app.start()

    async def _stop(self) -> None:
        await self.app.stop()
        # Faust makes this loop for a consumer thread that a hub never starts, and so never closes it.
        cast(Any, self.app.consumer)._thread.thread_loop.close()

    @property
    def web(self) -> Any:
        return self.app.web

    def call(self, work: Callable[[], T | Coroutine[Any, Any, T]]) -> T:
        """Run a function (or a coroutine it makes) in the server's loop; its result."""

        async def run() -> T:
            result = work()
            return cast(T, await result if asyncio.iscoroutine(result) else result)

        return self._thread.call(run())

    def stop(self) -> None:
        self._thread.call(self._stop())
        self._thread.stop()

    def __enter__(self) -> RunningWeb:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- a client ------------------------------------------------------------------------------------------------------

    def connect(self, timeout_s: float = 5.0) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout_s)

    def exchange(self, *parts: bytes, pause_s: float = 0.0, timeout_s: float = 5.0, end: bool = False) -> bytes:
        """Send parts (a pause between them), read until the server closes or falls silent; `end`: half-close after."""
        with closing(self.connect(timeout_s)) as client:
            for number, part in enumerate(parts):
                if number and pause_s:
                    time.sleep(pause_s)
                client.sendall(part)
            if end:
                client.shutdown(socket.SHUT_WR)
            return read_all(client)


def read_all(client: socket.socket) -> bytes:
    """All bytes until the server closes; raises TimeoutError when it does not."""
    out = b""
    while data := client.recv(65536):
        out += data
    return out


def statuses(wire: bytes) -> list[int]:
    """The status of each answer in what a server sent (bodies are skipped by their Content-Length)."""
    codes, rest = [], wire
    while rest:
        head, _, rest = rest.partition(b"\r\n\r\n")
        codes.append(int(head.split(b" ")[1]))
        length = re.search(rb"(?i)\r\ncontent-length:\s*(\d+)", head)
        rest = rest[int(length[1]) if length else 0 :]
    return codes
