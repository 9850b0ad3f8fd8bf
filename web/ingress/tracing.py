"""The ingress view of a process that exports traces: every event has a span, from its request to its answer.

It is a class of its own, chosen at start, so that a process without traces does not pay for a check per event.
"""

from __future__ import annotations

from collections.abc import Mapping

from knative.tracing import ReceiveSpan, Trace
from web.http.connection import Connection
from web.http.raw_request import RawRequest
from web.ingress.responses import Response
from web.ingress.view import IngressView


class TracedIngressView(IngressView):
    """Bound to a `Trace` by `traced_view`."""

    trace: Trace

    def __post_init__(self) -> None:
        super().__post_init__()
        self._spans: dict[Connection, ReceiveSpan] = {}  # a connection has one request in progress at most

    def post_raw(self, conn: Connection, info: Mapping[str, str], request: RawRequest) -> None:
        """One event, without a Task and without a Future."""
        span = self._spans[conn] = self.trace.receive(request.target, request.host, request.pairs())
        try:
            with span:
                super().post_raw(conn, info, request)
        except Exception:
            if self._spans.pop(conn, None) is not None:
                span.ended(500)  # the driver's answer to an exception
            raise

    def _finish(self, conn: Connection, answer: Response, keep: bool) -> None:
        self._spans.pop(conn).ended(answer.status)
        super()._finish(conn, answer, keep)


def traced_view(trace: Trace) -> type[IngressView]:
    """Returns the view to register."""
    return type("TracedIngressView", (TracedIngressView,), {"trace": trace})
