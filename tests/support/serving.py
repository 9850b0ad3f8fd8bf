"""Runs a server of the standard library in a thread of its own for as long as a block runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import BaseServer
from typing import TypeVar

S = TypeVar("S", bound=BaseServer)

_POLL_S = 0.05


@contextmanager
def serving(server: S) -> Iterator[S]:
    """The server, which is closed at the end."""
    thread = threading.Thread(target=server.serve_forever, args=(_POLL_S,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
