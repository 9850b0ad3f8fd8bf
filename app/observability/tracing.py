"""Spans with the names and attributes of OpenTelemetry's semantic conventions (HTTP, messaging, CloudEvents).

    request --> receive (SERVER) --> record with its context --> process (CONSUMER) --> attempt (CLIENT), attempt, ...

The record that is stored carries the context of its receive span, each attempt its own to the subscriber, in
`traceparent` and `tracestate`. Imported only when an endpoint is configured (`app/observability/span_export`, which
exports the spans); no other module imports opentelemetry. Invalid headers never raise an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import Token
from urllib.parse import urlsplit

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, SpanKind, TraceFlags, Tracer
from opentelemetry.trace.span import TraceState
from opentelemetry.trace.status import Status, StatusCode
from opentelemetry.util.types import AttributeValue

from knative.cloudevents.trace_context import Parent, parent_in_record, parent_in_request, with_context
from knative.delivery.attempt import Settled
from knative.ports import Headers, Produce, Stored
from knative.tracing import ABANDONED, ProcessSpan, ReceiveSpan, TracedSubscription

_ERROR = Status(StatusCode.ERROR)
_EVENT = {
    "ce_id": "cloudevents.event_id",
    "ce_source": "cloudevents.event_source",
    "ce_type": "cloudevents.event_type",
    "ce_subject": "cloudevents.event_subject",
    "ce_specversion": "cloudevents.event_spec_version",
}
_GOOD_VERDICTS = (Settled.DELIVERED, Settled.FILTERED, ABANDONED)

Attributes = dict[str, AttributeValue]


class Tracing:
    """Implements `knative.tracing.Trace` with an OpenTelemetry tracer. Event loop only."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def receive(self, target: bytes, host: bytes | None, pairs: Sequence[tuple[bytes, bytes]]) -> ReceiveSpan:
        """See `knative.tracing`, as for `process`."""
        parent = parent_in_request(pairs)
        if not_recorded(parent):
            return _NOT_RECORDED
        # An explicit parent context: the event loop's current span, if any, belongs to another request.
        span = self._tracer.start_span("POST", context_of(parent), SpanKind.SERVER)
        if span.is_recording():
            attributes: Attributes = {
                "http.request.method": "POST",
                "url.path": target.partition(b"?")[0].decode("latin-1"),
                "url.scheme": "http",
                "network.protocol.version": "1.1",
                **_server(f"//{host.decode('latin-1')}" if host else ""),
            }
            span.set_attributes(attributes)
        return _Receive(span)

    def process(
        self, subscription: TracedSubscription, partition: int, offset: int, headers: Headers, value: bytes | None
    ) -> ProcessSpan:
        parent = parent_in_record(headers)
        if not_recorded(parent):
            return _NOT_RECORDED
        topic = subscription.topic
        span = self._tracer.start_span(f"process {topic}", context_of(parent), SpanKind.CONSUMER)
        if span.is_recording():
            attributes: Attributes = {
                **_message("process", "process", topic, headers, value),
                "messaging.consumer.group.name": subscription.group,
                "messaging.destination.partition.id": str(partition),
                "messaging.kafka.offset": offset,
                "penstock.subscription": subscription.label,
            }
            span.set_attributes(attributes)
        return _Process(self._tracer, span)


class _NotRecorded:
    """All three spans of an event that its sender decided not to record: its context is passed on unchanged.

    The SDK would create spans that are never exported, at a third of the cost of recorded ones.
    """

    __slots__ = ()

    def __enter__(self) -> _NotRecorded:
        return self

    def __exit__(self, *raised: object) -> None:
        """Does nothing: no span was made current."""

    def attempt(self, url: str, number: int) -> _NotRecorded:
        """The attempts are not recorded either."""
        return self

    def headers(self, stored: Headers) -> Headers:
        """Returns the headers, unchanged."""
        return stored

    def ended(self, result: int | str, problem: str = "") -> None:
        """Does nothing."""


_NOT_RECORDED = _NotRecorded()


def not_recorded(parent: Parent | None) -> bool:
    """Returns whether the sender has decided not to record this trace."""
    return parent is not None and not parent.flags & TraceFlags.SAMPLED


class _Receive:
    """A request at ingress; the span is current while entered, which is how `StoreInSpan` finds it."""

    __slots__ = ("_span", "_token")

    def __init__(self, span: Span) -> None:
        self._span = span
        self._token: Token[Context] | None = None

    def __enter__(self) -> _Receive:
        self._token = context.attach(trace.set_span_in_context(self._span))
        return self

    def __exit__(self, *raised: object) -> None:
        if self._token is not None:
            context.detach(self._token)

    def ended(self, status: int) -> None:
        """End the span. As the conventions for HTTP servers say, a 4xx is not an error of the server."""
        _answered(self._span, status, 500)


class _Process:
    """One event on its way to one subscription."""

    __slots__ = ("_context", "_span", "_tracer")

    def __init__(self, tracer: Tracer, span: Span) -> None:
        self._tracer = tracer
        self._span = span
        # Attempts start later, from callbacks with an unrelated current context: so each gets this one explicitly.
        self._context = trace.set_span_in_context(span, Context())

    def attempt(self, url: str, number: int) -> _Attempt:
        """Returns the span of one request. For an event that is not recorded it is the event's own."""
        if not self._span.is_recording():
            return _Attempt(self._span)
        attributes: Attributes = {
            "http.request.method": "POST",
            "url.full": url,
            "penstock.attempt": number,
            **_server(url),
        }
        if number > 1:
            attributes["http.request.resend_count"] = number - 1
        return _Attempt(self._tracer.start_span("POST", self._context, SpanKind.CLIENT, attributes))

    def ended(self, verdict: str) -> None:
        """End the span: the event was settled, or abandoned to the next owner of the partition."""
        span = self._span
        span.set_attribute("penstock.verdict", verdict)
        if verdict not in _GOOD_VERDICTS:
            span.set_attribute("error.type", verdict)
            span.set_status(_ERROR)
        span.end()


class _Attempt:
    """One request to a subscriber."""

    __slots__ = ("_span",)

    def __init__(self, span: Span) -> None:
        self._span = span

    def headers(self, stored: Headers) -> Headers:
        """Returns the headers with this span's context."""
        return in_context(stored, self._span.get_span_context())

    def ended(self, status: int, problem: str = "") -> None:
        """End the span with the status of the answer, or the reason why there was none."""
        _answered(self._span, status, 400, problem)


class StoreInSpan:
    """Implements `Produce` for ingress: adds the event's attributes to the current span, and the span's context to the
    record.

    The current span is that of `_Receive`.
    """

    def __init__(self, produce: Produce) -> None:
        self._produce = produce

    @property
    def connected(self) -> bool:
        """See `knative.ports.Produce`, as for `send`."""
        return self._produce.connected

    def send(
        self, topic: str, value: bytes | None, key: bytes | None, headers: Headers, done: Stored, partition: int = -1
    ) -> None:
        span = trace.get_current_span()
        if span.is_recording():
            span.update_name(f"receive {topic}")
            span.set_attributes(_message("receive", "send", topic, headers, value))
        self._produce.send(topic, value, key, in_context(headers, span.get_span_context()), done, partition)


def context_of(parent: Parent | None) -> Context:
    """Returns the context for a span with this parent; without a parent the span begins a trace."""
    if parent is None:
        return Context()
    span_context = SpanContext(
        trace_id=int(parent.trace_id, 16),
        span_id=int(parent.span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(parent.flags),
        trace_state=TraceState.from_header([parent.state]) if parent.state else None,
    )
    return trace.set_span_in_context(NonRecordingSpan(span_context), Context())


def in_context(headers: Headers, span: SpanContext) -> Headers:
    """Returns record headers with this span as the parent of later spans."""
    if not span.is_valid:  # the SDK is switched off by its own environment variable
        return headers
    traceparent = b"00-%032x-%016x-%02x" % (span.trace_id, span.span_id, span.trace_flags)
    return with_context(headers, traceparent, span.trace_state.to_header().encode("latin-1"))


def _message(name: str, kind: str, topic: str, headers: Headers, value: bytes | None) -> Attributes:
    attributes: Attributes = {
        "messaging.system": "kafka",
        "messaging.destination.name": topic,
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
        "messaging.message.body.size": len(value or b""),
    }
    for header, content in headers:
        attribute = _EVENT.get(header)
        if attribute is not None and content:
            attributes[attribute] = content.decode("utf-8", "replace")
    return attributes


def _server(url: str) -> Attributes:
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
        host = parts.hostname
    except ValueError:  # a Host header may contain anything
        return {}
    if not host:
        return {}
    return {"server.address": host, "server.port": port} if port else {"server.address": host}


def _answered(span: Span, status: int, error_from: int, problem: str = "") -> None:
    if status:
        span.set_attribute("http.response.status_code", status)
    if problem or status >= error_from:
        span.set_attribute("error.type", problem or str(status))
        span.set_status(_ERROR)
    span.end()
