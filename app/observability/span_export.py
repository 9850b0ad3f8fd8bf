"""Where spans go: batches over OTLP (HTTP, protobuf) to the endpoint that is configured, from a thread of their own.

    span ends --> bounded queue --> thread --> POST <endpoint>/v1/traces         full, slow or away: spans are dropped

Imported only where an endpoint is configured. An exporter that fails is told once, and once when it works again; it
never holds up an event, a start or a stop. The variables of the OpenTelemetry SDK count too (headers, certificates,
resource attributes). Refuses to retry what was dropped.
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
_ATTRIBUTE_CHARACTERS_MAX = 512
_UNNAMED = "unknown_service"

#: They speak of each batch that fails and each span that is dropped, which `Exporter` does once; asking costs little.
_LOUD = (
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.exporter.otlp.common.http",
    "opentelemetry.sdk._shared_internal",
    "urllib3",
)
#: They speak of each header that somebody spoilt.
_REPEATING = ("opentelemetry.trace.span", "opentelemetry.attributes")


@dataclass(frozen=True, slots=True)
class ExportConfig:
    """Where to, how much, and how the process is called there."""

    endpoint: str  #: base URL of an OTLP receiver, or the whole URL with `/v1/traces`
    ratio: float = 1.0  #: of the traces that begin here; who has a parent does as the parent does
    service: str = "penstock"
    worker: str = ""
    queue_spans_max: int = 8_192
    batch_spans_max: int = 512
    delay_s: float = 1.0  #: at most this long a span waits for others
    timeout_s: float = 3.0  #: one batch, all tries

    @property
    def url(self) -> str:
        """Where batches are posted."""
        base = self.endpoint.rstrip("/")
        return base if base.endswith(_TRACES_PATH) else base + _TRACES_PATH


class Exporter(SpanExporter):
    """The real exporter, made calm: a warning when it begins to fail, a line when it works again."""

    def __init__(self, exporter: SpanExporter, url: str) -> None:
        self._exporter = exporter
        self._url = url
        self._lost = 0
        self._until = float("inf")
        self._overrun = False
        self.handled = 0  #: spans that were sent or given up

    def dropped(self) -> None:
        """A span found no room in the queue: said once in the life of a process."""
        if not self._overrun:
            self._overrun = True
            log.warning("more spans than can be exported: some are dropped; record a smaller part", endpoint=self._url)

    def stop_at(self, until: float) -> None:
        """Nothing more is sent after this moment (monotonic)."""
        self._until = until

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch. Never raises."""
        self.handled += len(spans)
        if time.monotonic() >= self._until:
            return SpanExportResult.FAILURE
        reason = ""
        try:
            result = self._exporter.export(spans)
        except Exception as problem:
            result, reason = SpanExportResult.FAILURE, repr(problem)
        if result is SpanExportResult.SUCCESS:
            if self._lost:
                log.info("spans are exported again", endpoint=self._url, lost=self._lost)
                self._lost = 0
        else:
            if not self._lost:
                more = {"reason": reason} if reason else {}
                log.warning("spans cannot be exported and are dropped; events are not", endpoint=self._url, **more)
            self._lost += len(spans)
        return result

    def shutdown(self) -> None:
        """Release what the real one holds."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """There is nothing of its own to send."""
        return True


class _Batches(BatchSpanProcessor):
    """Counts what goes in, for the queue itself has a log line for each span it drops, and no other sign."""

    def __init__(self, exporter: Exporter, config: ExportConfig) -> None:
        super().__init__(
            exporter,
            max_queue_size=config.queue_spans_max,
            schedule_delay_millis=config.delay_s * 1000,
            max_export_batch_size=config.batch_spans_max,
        )
        self._exporter = exporter
        self._room = config.queue_spans_max + config.batch_spans_max  # one batch may be under way
        self._ended = 0

    def on_end(self, span: ReadableSpan) -> None:
        """Queue it."""
        self._ended += 1
        if self._ended - self._exporter.handled > self._room:
            self._ended = self._exporter.handled + self._room
            self._exporter.dropped()
        super().on_end(span)


class _Once(logging.Filter):
    """Lets each message of a logger pass a single time."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        seen = record.msg in self._seen
        self._seen.add(str(record.msg))
        return not seen


class SpanExport:
    """The provider and its thread; from construction to `stop`."""

    def __init__(self, config: ExportConfig, exporter: SpanExporter | None = None) -> None:
        """`exporter`: another one than OTLP's."""
        for name in _LOUD:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        for name in _REPEATING:
            logging.getLogger(name).addFilter(_Once())
        self._exporter = Exporter(exporter or OTLPSpanExporter(config.url, timeout=config.timeout_s), config.url)
        self.provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(config.ratio)),
            resource=_resource(config),
            shutdown_on_exit=False,  # `stop` does, within a limit
            span_limits=SpanLimits(max_attribute_length=_ATTRIBUTE_CHARACTERS_MAX),
        )
        self.provider.add_span_processor(_Batches(self._exporter, config))
        self.tracing = Tracing(self.provider.get_tracer("penstock", version("penstock")))

    def storing(self, produce: Produce) -> Produce:
        """What ingress stores events with: each record carries the context of its request's span."""
        return StoreInSpan(produce)

    def instrument_aiohttp(self) -> None:
        """Spans for what aiohttp serves and asks in this process. Before a module takes names from `aiohttp.web`."""
        AioHttpServerInstrumentor().instrument(tracer_provider=self.provider)
        AioHttpClientInstrumentor().instrument(tracer_provider=self.provider)

    async def stop(self, limit_s: float) -> None:
        """Send what is queued, for at most `limit_s`; the rest is dropped."""
        self._exporter.stop_at(time.monotonic() + limit_s)
        ending = threading.Thread(target=self.provider.shutdown, name="span-export-end", daemon=True)
        ending.start()
        await asyncio.to_thread(ending.join, limit_s)


def _resource(config: ExportConfig) -> Resource:
    """The process; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win where they say something."""
    own: dict[str, str] = {"service.name": config.service, "service.version": version("penstock")}
    if config.worker:
        own["service.instance.id"] = config.worker
    found = Resource.create()
    if str(found.attributes.get("service.name", _UNNAMED)).startswith(_UNNAMED):
        found = found.merge(Resource({"service.name": config.service}))
    return Resource(own).merge(found)
