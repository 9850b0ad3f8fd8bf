"""The metrics of one command on a port of its own.

The names have no `_total`, which Prometheus' own library would add to those of counters, so the page is written here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from knative.errors import PenstockError, os_reason

Counts = Callable[[], Mapping[str, int]]  #: -> what follows kafka_scale_ in the name, and the value


@contextmanager
def served(port: int | None, bind: str, counts: Counts) -> Iterator[None]:
    """Serve GET /metrics inside the block; `port` None = not at all. Raises PenstockError if it cannot be opened.
    `counts` is called in another thread."""
    if port is None:
        yield
        return

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            lines = (
                f"# TYPE kafka_scale_{name} counter\nkafka_scale_{name} {count}\n" for name, count in counts().items()
            )
            self.send_response(200)
            self.send_header("content-type", "text/plain; version=0.0.4; charset=utf-8")
            self.end_headers()
            self.wfile.write("".join(lines).encode())

        def log_message(self, *_: object) -> None:
            """Scrapes are not logged."""

    try:
        server = ThreadingHTTPServer((bind, port), Handler)
    except OSError as problem:
        raise PenstockError(
            f"The port {bind}:{port} for metrics cannot be opened ({os_reason(problem)}).",
            "Free it, or choose another one: --metrics-port PORT.",
        ) from problem
    with server:
        threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()
