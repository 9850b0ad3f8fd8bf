"""A Faust hub app with our web driver, no Kafka, on a free port, in a thread with an event loop of its own.

So that tests can be clients with plain blocking sockets. `RunningWeb.call` runs something inside that loop.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import tempfile
import threading
from collections.abc import Callable, Coroutine
from contextlib import closing
from typing import Any, TypeVar, cast

import faust
import uvloop
from faust.app.base import BootStrategy

from tests.support.processes import free_port
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


def make_app(config: DriverConfig | None = None, port: int | None = None) -> HubApp:
    """A hub app that would listen on a free port of 127.0.0.1."""
    install()
    app = HubApp(
        "web-test",
        broker="kafka://127.0.0.1:1",
        web="httptools://",
        web_bind="127.0.0.1",
        web_port=port or free_port(),
        topic_disable_leader=True,
        web_router_enabled=False,
        web_tables_enabled=False,
        datadir=tempfile.mkdtemp(prefix="penstock-web-"),
    )
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
        self._sockets = sockets
        self._stop: asyncio.Event | None = None
        self._failure: BaseException | None = None
        self._started = threading.Event()
        self._setup, self._config = setup, config
        self._thread = threading.Thread(target=self._run, name="web-under-test", daemon=True)
        self._thread.start()
        assert self._started.wait(LIMIT_S), "the web app did not start"
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._main())
        except BaseException as error:
            self._failure = error
        finally:
            self._started.set()

    async def _main(self) -> None:
        logging.getLogger("faust").setLevel(logging.WARNING)
        self.loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self.app = make_app(self._config)
        if self._sockets is not None:
            self.app.sockets = self._sockets
        self._setup(self.app)
        self.app.finalize()
        self.port: int = self.app.conf.web_port
        try:
            await self.app.start()
            self._started.set()
            await self._stop.wait()
        finally:
            await self.app.stop()
            # Faust makes this loop for a consumer thread that a hub never starts, and so never closes it.
            cast(Any, self.app.consumer)._thread.thread_loop.close()

    @property
    def web(self) -> Any:
        """The driver under test."""
        return self.app.web

    def call(self, work: Callable[[], T | Coroutine[Any, Any, T]]) -> T:
        """Run a function (or a coroutine it makes) in the server's loop; its result."""

        async def run() -> T:
            result = work()
            return cast(T, await result if asyncio.iscoroutine(result) else result)

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(LIMIT_S)

    def stop(self) -> None:
        """Stop the app and wait for its thread."""
        if self._thread.is_alive():
            assert self._stop is not None
            self.loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(LIMIT_S)
        assert not self._thread.is_alive(), "the web app did not stop"

    def __enter__(self) -> RunningWeb:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- a client ------------------------------------------------------------------------------------------------------

    def connect(self, timeout_s: float = 5.0) -> socket.socket:
        """A raw connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout_s)

    def exchange(self, *parts: bytes, pause_s: float = 0.0, timeout_s: float = 5.0, end: bool = False) -> bytes:
        """Send parts (a pause between them), read until the server closes or falls silent; `end`: half-close after."""
        with closing(self.connect(timeout_s)) as client:
            for number, part in enumerate(parts):
                if number and pause_s:
                    threading.Event().wait(pause_s)
                client.sendall(part)
            if end:
                client.shutdown(socket.SHUT_WR)
            return read_all(client)


def read_all(client: socket.socket) -> bytes:
    """All bytes until the server closes; raises TimeoutError when it does not."""
    out = bytearray()
    while True:
        data = client.recv(65536)
        if not data:
            return bytes(out)
        out += data


def statuses(wire: bytes) -> list[int]:
    """The status of each answer in what a server sent (bodies are skipped by their Content-Length)."""
    found, rest = [], wire
    while rest:
        head, _, rest = rest.partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        found.append(int(lines[0].split(b" ")[1]))
        for line in lines[1:]:
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                rest = rest[int(value) :]
    return found
