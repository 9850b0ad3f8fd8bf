"""Spans as the thread exports them, without a network: names, parents, attributes, an exporter that fails; and none of
them where tracing is off."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Iterator, Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.testing import capture_logs

from app.observability.span_export import ExportConfig, Exporter, SpanExport
from app.observability.tracing import Tracing
from knative.cloudevents.trace_context import parent_in_record
from knative.contract.records import Subscription
from knative.delivery.policy import Addressable
from knative.ports import Headers
from tests.support.fakes import MemoryProduce
from tests.support.processes import run

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = (b"traceparent", f"00-{TRACE}-{SPAN}-01".encode())
UNSAMPLED = (b"traceparent", f"00-{TRACE}-{SPAN}-00".encode())
HEADERS: Headers = [("ce_id", b"1"), ("ce_source", b"/\xff"), ("ce_type", b"t"), ("ce_specversion", b"1.0")]


class Spans:
    """Tracing into a list."""

    def __init__(self, ratio: float = 1.0) -> None:
        self.memory = InMemorySpanExporter()
        self.export = SpanExport(ExportConfig("http://127.0.0.1:1", ratio, delay_s=60), self.memory)
        self.tracing: Tracing = self.export.tracing

    def ended(self) -> Sequence[ReadableSpan]:
        """What was exported, in the order of their ends."""
        self.export.provider.force_flush()
        return self.memory.get_finished_spans()

    def stop(self) -> None:
        """End the exporter's thread."""
        asyncio.run(self.export.stop(5.0))


@pytest.fixture
def spans() -> Iterator[Spans]:
    made = Spans()
    yield made
    made.stop()


def _subscription() -> Subscription:
    return Subscription(
        uid="u", generation=1, namespace="ns", name="sub", channel_uid="c", channel="ch", partitions=1, topic="topic",
        dlq_topic="topic.dlq", group="kafka.u", subscriber=Addressable("http://sub.test/x"),
    )  # fmt: skip


def _store(spans: Spans, *pairs: tuple[bytes, bytes], host: bytes | None = b"penstock.test:8080") -> Headers:
    """One event through ingress; the headers of its record."""
    memory = MemoryProduce()
    mapped = [*HEADERS, *((name.decode(), value) for name, value in pairs)]
    span = spans.tracing.receive(b"/channels/ns/ch?x=1", host, pairs)
    with span:
        spans.export.storing(memory).send("topic", b"body", None, mapped, lambda _: None)
    span.ended(202)
    return list(memory.records[0].headers.items())


def test_stored_record_names_its_receive_span(spans: Spans) -> None:
    parent = parent_in_record(_store(spans, PARENT, (b"tracestate", b"a=1,b=2")))

    (span,) = spans.ended()
    assert span.parent is not None
    assert (f"{span.parent.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, SPAN)
    assert parent is not None
    assert (parent.trace_id, parent.span_id) == (TRACE, f"{span.context.span_id:016x}")
    assert parent.state == "a=1,b=2"
    assert span.name == "receive topic"
    assert span.attributes is not None
    assert span.attributes["cloudevents.event_source"] == "/\ufffd"
    assert span.attributes["server.address"] == "penstock.test"
    assert span.attributes["server.port"] == 8080
    assert span.attributes["url.path"] == "/channels/ns/ch"


def test_nothing_stays_current_after_a_request(spans: Spans) -> None:
    _store(spans, PARENT)
    memory = MemoryProduce()

    spans.export.storing(memory).send("topic", b"", None, HEADERS, lambda _: None)

    assert "traceparent" not in memory.records[0].headers


@pytest.mark.parametrize("host", [None, b"", b"[::1", b"a:b:c", b"\xff\xfe", b"h:99999"])
def test_any_host_header_will_do(spans: Spans, host: bytes | None) -> None:
    assert parent_in_record(_store(spans, host=host)) is not None


@pytest.mark.parametrize("state", [b"no state at all", b"a=1,a=2", b"\xff=\xff", b"x" * 5000])
def test_spoilt_tracestate_is_left_out(spans: Spans, state: bytes) -> None:
    headers = dict(_store(spans, PARENT, (b"tracestate", state)))

    assert "tracestate" not in headers
    assert headers["traceparent"] is not None


def test_who_is_not_sampled_is_not_exported_but_stays_in_its_trace(spans: Spans) -> None:
    parent = parent_in_record(_store(spans, UNSAMPLED))

    assert parent is not None
    assert (parent.trace_id, parent.span_id, parent.flags) == (TRACE, SPAN, 0)
    assert not spans.ended()


def test_who_is_not_sampled_passes_through_as_he_is(spans: Spans) -> None:
    headers = _store(spans, UNSAMPLED, (b"tracestate", b"a=1"))
    process = spans.tracing.process(_subscription(), 0, 0, headers, b"")
    attempt = process.attempt("http://sub.test/x", 1)

    assert attempt.headers(headers) is headers
    attempt.ended(200)
    process.ended("delivered")
    assert not spans.ended()


def test_event_that_is_not_recorded_has_one_context_for_all_attempts() -> None:
    spans = Spans(ratio=0.0)
    process = spans.tracing.process(_subscription(), 0, 0, HEADERS, b"")
    parents = [parent_in_record(process.attempt("http://sub.test/x", n).headers(HEADERS)) for n in (1, 2)]
    process.ended("delivered")

    assert parents[0] is not None
    assert parents[0] == parents[1]
    assert not parents[0].flags & 1
    assert not spans.ended()
    spans.stop()


def test_ratio_is_for_traces_that_begin_here() -> None:
    spans = Spans(ratio=0.0)
    _store(spans)
    assert not spans.ended()
    _store(spans, PARENT)
    assert len(spans.ended()) == 1
    spans.stop()


def test_attempt_without_an_answer_says_why(spans: Spans) -> None:
    process = spans.tracing.process(_subscription(), 3, 7, HEADERS, None)
    attempt = process.attempt("https://sub.test/x", 1)
    attempt.headers(HEADERS)
    attempt.ended(0, "timeout")
    process.ended("ignored")

    first, last = spans.ended()
    assert first.attributes is not None
    assert first.attributes["error.type"] == "timeout"
    assert first.attributes["server.port"] == 443
    assert "http.response.status_code" not in first.attributes
    assert (first.status.is_ok, last.status.is_ok) == (False, False)
    assert first.parent is not None
    assert first.parent.span_id == last.context.span_id


class _Scripted(SpanExporter):
    def __init__(self, *results: SpanExportResult | Exception) -> None:
        self.results = list(results)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result


def test_failing_exporter_is_logged_once_and_so_is_its_recovery(spans: Spans) -> None:
    _store(spans)
    batch = spans.ended()
    good, bad = SpanExportResult.SUCCESS, SpanExportResult.FAILURE
    exporter = Exporter(_Scripted(good, bad, OSError("x"), bad, good, good, bad), "http://h/v1/traces")

    with capture_logs() as lines:
        results = [exporter.export(batch) for _ in range(7)]

    assert results == [good, bad, bad, bad, good, good, bad]
    assert [line["log_level"] for line in lines] == ["warning", "info", "warning"]
    assert lines[1]["lost"] == 3


def test_spans_beyond_the_limit_are_dropped_and_logged_once() -> None:
    class Slow(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            held.wait(20)
            return SpanExportResult.SUCCESS

    held = threading.Event()
    config = ExportConfig("http://127.0.0.1:1", queue_spans_max=8, batch_spans_max=4, delay_s=60)
    export = SpanExport(config, Slow())
    with capture_logs() as lines:
        for _ in range(40):
            export.provider.get_tracer("t").start_span("s").end()
        held.set()
        asyncio.run(export.stop(20))

    assert [line["log_level"] for line in lines] == ["warning"]
    assert "there are more than can be exported" in lines[0]["event"]


def test_worker_without_an_endpoint_does_not_import_opentelemetry() -> None:
    code = (
        "import sys, app.compose; from app.settings.load import Settings; app.compose.build(Settings());"
        "print([m for m in sys.modules if m.startswith('opentelemetry')])"
    )

    done = run([sys.executable, "-c", code], os.environ)

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
