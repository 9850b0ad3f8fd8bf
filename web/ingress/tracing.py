"""The ingress view of a process that exports traces: every event has a span, from its request to its answer.

It is a class of its own, chosen at start, so that a process without traces does not pay for a check per event. It is
for `web/http/driver`; on aiohttp, OpenTelemetry's instrumentation starts the span.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from knative.tracing import ReceiveSpan, Trace
from web.http.connection import Connection
from web.http.headers import Fields, pairs_of
from web.ingress.view import IngressView


class _TracedConnection:
    """The part of a connection that the ingress view needs. Its answer ends a span."""

    __slots__ = ("_conn", "_span", "head_bytes", "host")

    def __init__(self, conn: Connection, span: ReceiveSpan) -> None:
        self._conn = conn
        self._span = span
        self.host = conn.host
        self.head_bytes = conn.head_bytes

    def finish(self, wire: bytes, keep: bool) -> None:
        """Send the answer, `HTTP/1.1 202 ...`, and end the span with its status."""
        self._span.ended(int(wire[9:12]))
        self._conn.finish(wire, keep)


class TracedIngressView(IngressView):
    """Bound to a `Trace` by `traced_view`."""

    trace: Trace

    def post_raw(
        self, conn: Connection, target: bytes, info: Mapping[str, str], fields: Fields, body: bytes | None, keep: bool
    ) -> None:
        """One event, without a Task and without a Future."""
        span = self.trace.receive(target, conn.host, pairs_of(fields))
        try:
            with span:
                super().post_raw(cast(Connection, _TracedConnection(conn, span)), target, info, fields, body, keep)
        except Exception:
            span.ended(500)  # the driver's answer to an exception
            raise


def traced_view(trace: Trace) -> type[IngressView]:
    """The view to register."""
    return type("TracedIngressView", (TracedIngressView,), {"trace": trace})
