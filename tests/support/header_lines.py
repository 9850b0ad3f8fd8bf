"""Header lines as the web driver has them, for tests that have pairs."""

from __future__ import annotations

from collections.abc import Sequence

from knative.cloudevents.http_binding import Record, lines_to_record


def record_of_lines(pairs: Sequence[tuple[bytes, bytes]], body: bytes | None) -> Record:
    """`to_record`, the way of ingress."""
    return lines_to_record(tuple(name for name, _ in pairs), tuple(value for _, value in pairs), body)
