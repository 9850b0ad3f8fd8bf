"""Posting events byte for byte: a request as bytes over a socket, the answer read by the standard library.

Does not add or change headers: the ingress sees what the test wrote.
"""

from __future__ import annotations

import http.client
import socket
from collections.abc import Sequence
from dataclasses import dataclass

HeaderLines = Sequence[tuple[str, str | bytes]]
LIMIT_S = 180.0

#: The attributes every event needs, except its id.
PLAIN: HeaderLines = [("ce-specversion", "1.0"), ("ce-source", "/test"), ("ce-type", "test.event")]


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


def exchange(port: int, data: bytes, method: str = "POST") -> Answered:
    """Send exactly these bytes to loopback, all of them, then read one answer, as many clients do: what is refused must
    be read to its end. Raises OSError or HTTPException when none comes."""
    with socket.create_connection(("127.0.0.1", port), LIMIT_S) as connection:
        connection.settimeout(LIMIT_S)
        connection.sendall(data)
        response = http.client.HTTPResponse(connection, method=method)
        try:
            response.begin()
            headers = {name.lower(): value for name, value in response.getheaders()}
            return Answered(response.status, headers, response.read())
        finally:
            response.close()


def request(
    target: str,
    headers: HeaderLines,
    body: bytes | None = None,
    method: str = "POST",
    host: str = "ingress.test",
) -> bytes:
    """A whole request. `body` None = no body and no content-length."""
    lines = [f"{method} {target} HTTP/1.1".encode(), b"host: " + host.encode()]
    for name, value in headers:
        lines.append(name.encode() + b": " + (value if isinstance(value, bytes) else value.encode()))
    if body is not None:
        lines.append(b"content-length: %d" % len(body))
    return b"\r\n".join(lines) + b"\r\n\r\n" + (body or b"")


def post(port: int, target: str, event_id: str, body: bytes | None = b"", headers: HeaderLines = ()) -> Answered:
    """A binary-mode event with the plain attributes; those in `headers` win."""
    given = {name for name, _ in headers}
    plain = [pair for pair in [("ce-id", event_id), *PLAIN] if pair[0] not in given]
    return exchange(port, request(target, [*plain, *headers], body))
