"""An OTLP collector inside the test: takes spans over HTTP and protobuf on a free port of loopback, and shows them.

Stores spans only, as they were sent.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1 import trace_pb2

from tests.support.loopback_server import LoopbackServer
from tests.support.processes import wait_until


@dataclass(frozen=True, slots=True)
class Span:
    """One span as it was exported; ids in hexadecimal, `parent` "" for the first of a trace."""

    name: str
    kind: str  #: SERVER, CONSUMER, CLIENT, ...
    trace: str
    id: str
    parent: str
    state: str
    failed: bool
    start_ns: int
    attributes: dict[str, Any]
    resource: dict[str, Any]


class Collector(LoopbackServer[ThreadingHTTPServer]):
    """Takes spans, and keeps them."""

    def __init__(self) -> None:
        self._spans: list[Span] = []
        self._lock = threading.Lock()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                known = self.path == "/v1/traces" and self.headers["content-type"] == "application/x-protobuf"
                if known:
                    collector._take(body)
                self.send_response(200 if known else 404)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """No log of requests."""

        super().__init__(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        self._server.daemon_threads = True

    @property
    def endpoint(self) -> str:
        """For PENSTOCK_OTLP_ENDPOINT."""
        return self.url("")

    def _take(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        found = [
            _span(span, _values(group.resource.attributes))
            for group in request.resource_spans
            for scope in group.scope_spans
            for span in scope.spans
        ]
        with self._lock:
            self._spans += found

    def spans(self, **attributes: object) -> list[Span]:
        """All that came so far and have these attributes (written with `__` for `.`), by their start."""
        wanted = {name.replace("__", "."): value for name, value in attributes.items()}
        with self._lock:
            found = list(self._spans)
        return sorted((s for s in found if wanted.items() <= s.attributes.items()), key=lambda s: s.start_ns)

    def of_trace(self, trace: str) -> list[Span]:
        """The spans of one trace, by their start."""
        return [span for span in self.spans() if span.trace == trace]

    def wait_for(self, count: int, trace: str, limit_s: float = 20.0) -> list[Span]:
        """Until a trace has so many spans; gives them."""
        wait_until(f"{count} spans of trace {trace}", lambda: len(self.of_trace(trace)) >= count, limit_s)
        return self.of_trace(trace)


def _span(span: trace_pb2.Span, resource: dict[str, Any]) -> Span:
    return Span(
        name=span.name,
        kind=trace_pb2.Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        state=span.trace_state,
        failed=span.status.code == trace_pb2.Status.STATUS_CODE_ERROR,
        start_ns=span.start_time_unix_nano,
        attributes=_values(span.attributes),
        resource=resource,
    )


def _values(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    return getattr(value, kind) if kind else None
