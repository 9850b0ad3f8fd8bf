"""Exports spans in batches over OTLP (HTTP, protobuf) to the configured endpoint, from a thread of its own.

    span ends --> bounded queue --> thread --> POST <endpoint>/v1/traces   queue full, endpoint slow or down: dropped

Imported only when an endpoint is configured. A failing export is logged once, and once when it works again; it never
delays an event, a start or a stop. The environment variables of the OpenTelemetry SDK apply too (headers, certificates,
resource attributes).
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

import structlog
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.aiohttp_client import AioHttpClientInstrumentor
from opentelemetry.instrumentation.aiohttp_server import AioHttpServerInstrumentor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

from app.observability.tracing import StoreInSpan, Tracing
from knative.ports import Produce

log = structlog.get_logger(__name__)

_TRACES_PATH = "/v1/traces"
_UNNAMED = "unknown_service"

#: Loggers with a line for each failed batch and each dropped span. Silenced: `Exporter` logs that once.
_LOUD = (
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.exporter.otlp.common.http",
    "opentelemetry.sdk._shared_internal",
    "urllib3",
)
#: Loggers with a line for each invalid trace header that a client sends.
_REPEATING = ("opentelemetry.trace.span", "opentelemetry.attributes")


@dataclass(frozen=True, slots=True)
class ExportConfig:
    """Endpoint, sampling ratio, names of the process, and limits."""

    endpoint: str  #: base URL of an OTLP receiver, or the whole URL with `/v1/traces`
    ratio: float = 1.0  #: of the traces that begin here; spans with a parent follow its decision
    service: str = "penstock"
    worker: str | None = None
    queue_spans_max: int = 8_192
    batch_spans_max: int = 512
    delay_s: float = 1.0  #: how long a span waits for others at most
    timeout_s: float = 3.0  #: for one batch with all its retries

    @property
    def url(self) -> str:
        """The URL for batches."""
        base = self.endpoint.rstrip("/")
        return base if base.endswith(_TRACES_PATH) else base + _TRACES_PATH


class Exporter(SpanExporter):
    """Wraps the real exporter: logs a warning when exports begin to fail, and a line when they work again."""

    def __init__(self, exporter: SpanExporter, url: str) -> None:
        self._exporter = exporter
        self._url = url
        self._lost = 0
        self._until = float("inf")
        self._overrun = False
        self.handled = 0  #: spans that were sent or dropped after a failure

    def dropped(self) -> None:
        """The queue was full for a span. Logged once in the life of a process."""
        if not self._overrun:
            self._overrun = True
            log.warning(
                "spans are dropped, because there are more than can be exported; lower PENSTOCK_TRACE_RATIO",
                endpoint=self._url,
            )

    def stop_at(self, until: float) -> None:
        """Send nothing after this time (monotonic clock)."""
        self._until = until

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch. Never raises."""
        self.handled += len(spans)
        if time.monotonic() >= self._until:
            return SpanExportResult.FAILURE
        more: dict[str, str] = {}
        try:
            result = self._exporter.export(spans)
        except Exception as problem:
            result, more = SpanExportResult.FAILURE, {"reason": repr(problem)}
        if result is SpanExportResult.SUCCESS:
            if self._lost:
                log.info("spans are exported again", endpoint=self._url, lost=self._lost)
                self._lost = 0
        else:
            if not self._lost:
                log.warning(
                    "spans cannot be exported and are dropped; events are not affected", endpoint=self._url, **more
                )
            self._lost += len(spans)
        return result

    def shutdown(self) -> None:
        """Shut down the real exporter."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Does nothing: this class has no queue."""
        return True


class _Batches(BatchSpanProcessor):
    """Counts queued spans to notice drops: the SDK's queue only logs a line for each span that it drops."""

    def __init__(self, exporter: Exporter, config: ExportConfig) -> None:
        super().__init__(
            exporter,
            max_queue_size=config.queue_spans_max,
            schedule_delay_millis=config.delay_s * 1000,
            max_export_batch_size=config.batch_spans_max,
        )
        self._exporter = exporter
        self._room = config.queue_spans_max + config.batch_spans_max  # one batch may be on its way
        self._ended = 0

    def on_end(self, span: ReadableSpan) -> None:
        """Queue a span that has ended."""
        self._ended += 1
        if self._ended - self._exporter.handled > self._room:
            self._ended = self._exporter.handled + self._room  # dropped spans must not count as queued for ever
            self._exporter.dropped()
        super().on_end(span)


class _Once(logging.Filter):
    """Passes each message of a logger once."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        seen = record.msg in self._seen
        self._seen.add(str(record.msg))
        return not seen


class SpanExport:
    """The tracer provider and its thread, from construction to `stop`."""

    def __init__(self, config: ExportConfig, exporter: SpanExporter | None = None) -> None:
        """`exporter` replaces the OTLP exporter."""
        for name in _LOUD:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        for name in _REPEATING:
            logging.getLogger(name).addFilter(_Once())
        self._exporter = Exporter(exporter or OTLPSpanExporter(config.url, timeout=config.timeout_s), config.url)
        self.provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(config.ratio)),
            resource=_resource(config),
            shutdown_on_exit=False,  # `stop` does this, with a time limit
            span_limits=SpanLimits(max_attribute_length=512),
        )
        self.provider.add_span_processor(_Batches(self._exporter, config))
        self.tracing = Tracing(self.provider.get_tracer("penstock", version("penstock")))

    def storing(self, produce: Produce) -> Produce:
        """Returns `produce` for ingress: each record carries the context of its request's span."""
        return StoreInSpan(produce)

    def instrument_aiohttp(self) -> None:
        """Make spans for aiohttp's servers and clients. Call it before any module imports names from `aiohttp.web`."""
        AioHttpServerInstrumentor().instrument(tracer_provider=self.provider)
        AioHttpClientInstrumentor().instrument(tracer_provider=self.provider)

    async def stop(self, limit_s: float) -> None:
        """Send queued spans for at most `limit_s`; the rest is dropped."""
        self._exporter.stop_at(time.monotonic() + limit_s)
        # A daemon thread of our own: `shutdown` waits for the batch that is on its way, beyond any limit, and a thread
        # of the executor would keep the process from exiting.
        ending = threading.Thread(target=self.provider.shutdown, name="span-export-end", daemon=True)
        ending.start()
        await asyncio.to_thread(ending.join, limit_s)


def _resource(config: ExportConfig) -> Resource:
    """Describes the process; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence."""
    own: dict[str, str] = {"service.name": config.service, "service.version": version("penstock")}
    if config.worker is not None:
        own["service.instance.id"] = config.worker
    resource = Resource.create()
    if str(resource.attributes.get("service.name", _UNNAMED)).startswith(_UNNAMED):
        resource = resource.merge(Resource({"service.name": config.service}))
    return Resource(own).merge(resource)
