"""The web driver's limits, each with a unit and a default, and the exception for a request that exceeds one."""

from __future__ import annotations

import os
from dataclasses import dataclass

from knative.errors import PenstockError

#: The hint for a port of the web server that is not available.
OTHER_PORT = "Choose another port with PENSTOCK_HTTP_PORT or --web-port, or stop the process that uses this port."


@dataclass(frozen=True, slots=True)
class DriverConfig:
    """Limits of the web driver. Set it as `app.driver_config` on the Faust app before its web server is first used."""

    event_bytes_max: int = 1024 * 1024  #: one request body; above it 413
    header_bytes_max: int = 128 * 1024  #: all header lines of a request; above it 431
    header_count_max: int = 512  #: header lines of a request; above it 431
    url_bytes_max: int = 8 * 1024  #: above it 414
    chunk_extension_bytes_max: int = 4 * 1024  #: of one request; above it 400
    trailer_bytes_max: int = 8 * 1024  #: of one chunked request; above it 431
    receiving_bytes_max: int = 64 * 1024 * 1024  #: of incomplete requests of all connections, in memory; above it 429
    #: What a header line takes in memory beside its bytes: hundreds of short ones fit into 4 kB, and take 85.
    line_extra_bytes: int = 160
    connections_max: int = 15_000  #: above it 503, and the connection is closed
    header_timeout_s: float = 10.0  #: from a request's first byte to the end of its headers; then 408
    body_idle_s: float = 30.0  #: without a byte of the body; then 408
    body_bytes_min_per_s: float = 256.0  #: average rate of a body once `body_idle_s` have passed; below it 408
    keepalive_idle_s: float = 75.0  #: how long a connection may stay open without a request
    write_idle_s: float = 30.0  #: how long a client may not read its answer; then the connection is cut
    linger_s: float = 2.0  #: after a rejection: how long bytes that the client still sends are read and discarded
    linger_bytes_max: int = 8 * 1024 * 1024  #: and how many
    #: How long a connection may be idle while its process hands over, until it is closed. With 0.5 s, a client that
    #: stood still for 0.3 s in each second got no answer to 100 of 13,600 requests; with 2 s it got all.
    hand_over_idle_s: float = 2.0
    sweep_s: float = 0.5  #: how often deadlines are checked, which is their precision
    retry_after_s: int = 1  #: `Retry-After` of the driver's own 429 and 503
    backlog: int = 1024  #: connections that the kernel queues until they are accepted


def cannot_listen(bind: str, port: int, problem: OSError, hint: str = OTHER_PORT) -> PenstockError:
    """Returns the error for an address that is not available."""
    # The event loop's own message repeats the address, so use the text of the error number. Name resolution has error
    # numbers of another kind (not positive) and a text of its own.
    has_number = problem.errno is not None and problem.errno > 0
    why = os.strerror(problem.errno or 0) if has_number else str(problem.strerror or problem)
    return PenstockError(f"Cannot listen on {bind}:{port}: {why.lower()}.", hint)


class HttpRejection(Exception):
    """A request that is rejected: the answer that is sent before the connection is closed."""

    def __init__(self, status: int, reason: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers = headers
