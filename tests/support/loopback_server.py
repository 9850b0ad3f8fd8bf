"""Servers inside a test: each listens on a free port of loopback from `with` to the end of it."""

from __future__ import annotations

import threading
from socketserver import TCPServer
from types import TracebackType
from typing import Generic, Self, TypeVar

Server = TypeVar("Server", bound=TCPServer)


class LoopbackServer(Generic[Server]):
    """Runs a server of the standard library in a thread of its own."""

    def __init__(self, server: Server) -> None:
        """`server` listens already, on a port that the kernel has chosen."""
        self._server = server
        self.port: int = server.server_address[1]
        self._thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join(10)
        self._close()

    def _close(self) -> None:
        self._server.server_close()

    def url(self, path: str) -> str:
        """The URL of a path such as `/ok`."""
        return f"http://127.0.0.1:{self.port}{path}"
