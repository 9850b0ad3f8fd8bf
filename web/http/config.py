"""The web driver's limits, each with a name, a unit and a default; and the refusal that passing one of them is.

Refuses to enforce anything: `web/http/connection` and `web/http/headers` do.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from knative.errors import PenstockError

#: What to do about a port of the web server that cannot be had.
OTHER_PORT = "Choose another port with PENSTOCK_HTTP_PORT or --web-port, or stop the process that has it."


@dataclass(frozen=True, slots=True)
class DriverConfig:
    """Set it as `app.driver_config` on the Faust app before its web server is first touched."""

    event_bytes_max: int = 1024 * 1024  #: one request body; over it 413
    header_bytes_max: int = 128 * 1024  #: all header lines of a request; over it 431
    header_count_max: int = 512  #: over it 431
    url_bytes_max: int = 8 * 1024  #: over it 414
    chunk_extension_bytes_max: int = 4 * 1024  #: of one request; over it 400
    trailer_bytes_max: int = 8 * 1024  #: of one chunked request; over it 431
    receiving_bytes_max: int = 64 * 1024 * 1024  #: of requests that came in part, all connections; over it 429
    connections_max: int = 15_000  #: over it 503 and close
    header_timeout_s: float = 10.0  #: from a request's first byte to the end of its headers; then 408
    body_idle_s: float = 30.0  #: without a byte of the body; then 408
    body_bytes_min_per_s: float = 256.0  #: average a body must keep once `body_idle_s` have passed; below it 408
    keepalive_idle_s: float = 75.0  #: an open connection without a request
    write_idle_s: float = 30.0  #: a client that does not take its answer; then the connection is cut
    linger_s: float = 2.0  #: after a refusal: how long what the client still sends is read and thrown away
    linger_bytes_max: int = 8 * 1024 * 1024  #: and how much of it
    sweep_s: float = 0.5  #: how often deadlines are looked at: their precision
    retry_after_s: int = 1  #: `Retry-After` of the driver's own 429 and 503
    backlog: int = 1024  #: connections the kernel holds until they are accepted
    reuse_port: bool = True  #: SO_REUSEPORT: several processes may listen on one port


def cannot_listen(bind: str, port: int, problem: OSError, hint: str = OTHER_PORT) -> PenstockError:
    """An address that cannot be had."""
    # The event loop's own words name the address once more; an unknown host has an error number of another kind.
    known = problem.errno is not None and problem.errno > 0
    why = os.strerror(problem.errno or 0) if known else str(problem.strerror or problem)
    return PenstockError(f"Cannot listen on {bind}:{port}: {why.lower()}.", hint)


class HttpRejection(Exception):
    """A request that is not served: what to answer before the connection is closed."""

    def __init__(self, status: int, reason: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers = headers
