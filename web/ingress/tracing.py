"""The ingress view of a process that exports traces: every event is a span, from its request to its answer.

A view of its own, chosen when the app is put together, so that a process that exports nothing does not even ask.
It is for `web/http/driver`; on aiohttp the instrumentation of aiohttp begins the span. Refuses to decide anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from knative.tracing import ReceiveSpan, Trace
from web.http.connection import Connection
from web.http.headers import Fields, pairs_of
from web.ingress.view import IngressView


class _Told:
    """A connection, as far as the ingress view needs one, whose answer ends a span."""

    __slots__ = ("_conn", "_span", "head_bytes", "host")

    def __init__(self, conn: Connection, span: ReceiveSpan) -> None:
        self._conn = conn
        self._span = span
        self.host = conn.host
        self.head_bytes = conn.head_bytes

    def finish(self, wire: bytes, keep: bool) -> None:
        """The answer: `HTTP/1.1 202 ...`."""
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
                super().post_raw(cast(Connection, _Told(conn, span)), target, info, fields, body, keep)
        except Exception:
            span.ended(500)  # as the driver will answer
            raise


def traced_view(trace: Trace) -> type[IngressView]:
    """The view to register."""
    return type("TracedIngressView", (TracedIngressView,), {"trace": trace})
