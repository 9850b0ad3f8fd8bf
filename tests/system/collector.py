"""An OTLP collector inside the test: takes spans over HTTP and protobuf on a free port of loopback, and shows them.

Stores spans only, as they were sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1 import trace_pb2

from tests.support.processes import wait_until
from tests.support.scripted_server import Step
from tests.support.subscriber import Request, ScriptedSubscriber, says


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


class Collector(ScriptedSubscriber):
    """Takes spans, and keeps them."""

    def __init__(self) -> None:
        super().__init__()
        self._spans: list[Span] = []

    @property
    def endpoint(self) -> str:
        """For PENSTOCK_OTLP_ENDPOINT."""
        return self.url("")

    def take(self, request: Request) -> Step:
        if (request.target, request.header("content-type")) != ("/v1/traces", "application/x-protobuf"):
            return says(404)
        self._spans += [
            _span(span, _values(group.resource.attributes))
            for group in ExportTraceServiceRequest.FromString(request.body).resource_spans
            for scope in group.scope_spans
            for span in scope.spans
        ]
        return says(200)

    def spans(self, **attributes: object) -> list[Span]:
        """All that came so far and have these attributes (written with `__` for `.`), by their start."""
        having = {name.replace("__", "."): value for name, value in attributes.items()}.items()
        return sorted((s for s in list(self._spans) if having <= s.attributes.items()), key=lambda s: s.start_ns)

    def of_trace(self, trace: str) -> list[Span]:
        """The spans of one trace, by their start."""
        return [span for span in self.spans() if span.trace == trace]

    def wait_for(self, count: int, trace: str, limit_s: float = 20.0) -> list[Span]:
        """Until a trace has so many spans; gives them."""
        wait_until(f"{count} spans of trace {trace}", lambda: len(self.of_trace(trace)) >= count, limit_s)
        return self.of_trace(trace)


def _span(span: trace_pb2.Span, resource: dict[str, Any]) -> Span:
    kind = trace_pb2.Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_")
    ids = span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()
    failed = span.status.code == trace_pb2.Status.STATUS_CODE_ERROR
    start_ns, attributes = span.start_time_unix_nano, _values(span.attributes)
    return Span(span.name, kind, *ids, span.trace_state, failed, start_ns, attributes, resource)


def _values(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value") or "", None) for pair in pairs}
