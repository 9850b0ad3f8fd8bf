"""Composition root: builds the worker's Faust app from the settings, with everything registered on it.

The app's own Kafka consumer and producer are switched off: `agents/` consumes and commits, `app/worker/producer`
stores. Building reads the files of secrets and certificates; connections are opened when the worker starts.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
import uvloop
from faust.app.base import BootStrategy

from app.observability.admin_server import AdminConfig, AdminServer
from app.observability.logging import configure_logging, log_uncaught
from app.observability.metrics import Metrics
from app.observability.others import Others
from app.settings.core_dumps import prevent_core_dumps
from app.settings.environment import default_variables
from app.settings.extras import OTEL, need
from app.settings.kafka import secrets_folder, worker_kafka, worker_kafka_without_secret
from app.settings.load import Settings, load_settings
from app.worker.controller_config import controller_config
from app.worker.ingress_config import driver_config, ingress_config
from app.worker.lifecycle import Lifecycle
from app.worker.parts import Parts
from app.worker.producer.config import producer_config
from app.worker.producer.kafka_producer import KafkaProducer
from app.worker.renewal import Renewal
from app.worker.seat import Seat
from app.worker.secrets.broker_secrets import BrokerSecret, BrokerSecrets
from app.worker.secrets.file_watch import FileWatch
from app.worker.secrets.tls import ServerTls
from app.worker.traffic.component import TrafficComponent, why_not
from controller.config import ControllerConfig
from knative.contract import kafka_names
from knative.errors import PenstockError
from knative.ports import Produce
from tables.contract_table import ContractTable
from tables.faust_support import ClientlessApp
from tables.kafka.connection.python_clients import broker_settings
from tables.status_table import StatusTable
from web.console.limits import Limits
from web.console.safety import Mode, mode_of
from web.console.sessions import Sessions
from web.http import registry
from web.http.config import DriverConfig
from web.ingress import view as ingress
from web.ingress.admission import Admission
from web.ingress.senders import Senders
from web.ingress.tracing import traced_view
from web.pages import health, subscribers, traffic

if TYPE_CHECKING:
    from app.observability.span_export import SpanExport
    from controller.place import Place
    from web.console.server import Console

log = structlog.get_logger(__name__)


class _Boot(BootStrategy):
    enable_kafka_consumer = False
    enable_kafka_producer = False


class WorkerApp(ClientlessApp):
    """The Faust app of a worker: web views, agents on in-memory channels, services. It has no Kafka clients."""

    BootStrategy = _Boot
    logger = logging.getLogger("mode.hub")  # its start and stop messages do not interest operators
    driver_config: DriverConfig
    sockets: list[socket.socket]
    lifecycle: Lifecycle

    def Worker(self, **options: Any) -> Any:
        """Returns the process of the app. Faust's command line would turn each write to standard error into a log
        record of its own, so that a traceback becomes a hundred of them."""
        log_uncaught()
        return super().Worker(**{**options, "redirect_stdouts": False})

    async def start(self) -> None:
        """End the process with a message for errors that the operator can fix; Faust would show a traceback."""
        try:
            await super().start()
        except PenstockError as problem:
            log.error(str(problem))
            os._exit(problem.exit_code)

    async def on_start(self) -> None:
        """Take the ports and wait for Kafka, before web server and agents start."""
        conf, admin = self.conf, None if self.lifecycle.parts is None else self.lifecycle.parts.admin
        self.lifecycle.ports.take(
            (conf.web_bind, conf.web_port) if conf.web_enabled else None,
            None if admin is None or not self.lifecycle.is_first else (admin.config.bind, admin.config.port),
        )
        self.sockets = self.lifecycle.ports.ingress
        await self.lifecycle.before_start(self.web)
        await super().on_start()

    async def on_started(self) -> None:
        """Start our own parts, now that web server and agents run."""
        self.flow_control.resume()  # Faust's consumer would do this, and without it channels stay closed
        await self.lifecycle.start(self.web)
        await super().on_started()

    async def stop(self) -> None:
        """Drain before Faust stops anything, because Faust stops the web server last."""
        await self.lifecycle.stop(self.web)
        await super().stop()


def build(settings: Settings | None = None, seat: Seat | None = None) -> WorkerApp:
    """Returns the app that `faust -A app worker` runs. `seat`: this process is one of several, and has the settings of
    its supervisor. Raises UsageError for wrong settings."""
    given, settings = settings, settings or (load_settings() if seat is None else seat.settings)
    prevent_core_dumps(settings)  # before anything is read
    lifecycle = Lifecycle(seat)
    keys, kafka = worker_kafka(settings)
    worker_id = _worker_id(settings, seat)
    logging_config = configure_logging(settings, worker_id)
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    spans = _span_export(settings, worker_id) if settings.otlp_endpoint else None
    tls = None
    if settings.tls_cert:
        tls = ServerTls(Path(settings.tls_cert), Path(settings.tls_key))
        lifecycle.watches.append(FileWatch("PENSTOCK_TLS_CERT", tls.paths, tls.read, tls.use))
    registry.install()
    app = WorkerApp(
        settings.instance,
        **broker_settings(kafka),
        web="httptools://",
        web_bind=settings.bind,
        web_port=settings.http_port,
        web_ssl_context=None if tls is None else tls.context,
        web_router_enabled=False,
        web_tables_enabled=False,
        web_application_options={"client_max_size": settings.event_bytes_max},
        topic_disable_leader=True,
        autodiscover=False,
        datadir=Path(tempfile.gettempdir()) / f"{settings.instance}-{worker_id}",
        logging_config=logging_config,
    )
    app.driver_config = driver_config(settings)
    app.lifecycle = lifecycle
    lifecycle.parts = parts = _compose(app, settings, kafka, worker_id, spans, seat)
    if given is None and lifecycle.is_first:  # others cannot be read again

        def is_alone() -> bool:
            return parts.status.workers.keys() <= {worker_id}

        def in_use() -> list[BrokerSecret]:
            return [] if parts.secrets is None else parts.secrets.in_use

        parts.metrics.watch_changes(lambda: parts.unused is not None)
        parts.renewal = Renewal(settings, keys, in_use, is_alone, lambda: lifecycle.restart(app.web))
    return app


def _worker_id(settings: Settings, seat: Seat | None) -> str:
    if not settings.worker_id:
        return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"
    return settings.worker_id if seat is None else f"{settings.worker_id}-{seat.number + 1}"


def _span_export(settings: Settings, worker_id: str) -> SpanExport:
    """Set up tracing. Call it before any web driver is imported: drivers import names from aiohttp that the
    instrumentation replaces."""
    need(OTEL, "PENSTOCK_OTLP_ENDPOINT")
    from app.observability.span_export import ExportConfig, SpanExport  # takes some 0.2 s at start

    # The stable attribute names of HTTP; no spans for probes and scrapes.
    default_variables(
        {
            "OTEL_SEMCONV_STABILITY_OPT_IN": "http",
            "OTEL_PYTHON_AIOHTTP_SERVER_EXCLUDED_URLS": "^/metrics$,^/healthz$,^/readyz$",
        }
    )
    spans = SpanExport(
        ExportConfig(
            endpoint=settings.otlp_endpoint, ratio=settings.trace_ratio, service=settings.instance, worker=worker_id
        )
    )
    spans.instrument_aiohttp()
    return spans


def _compose(
    app: WorkerApp,
    settings: Settings,
    kafka: Mapping[str, Any],
    worker_id: str,
    spans: SpanExport | None,
    seat: Seat | None,
) -> Parts:
    lifecycle = app.lifecycle
    metrics = Metrics(f"{settings.instance}-producer")
    producer = KafkaProducer(producer_config(settings, kafka, metrics.producer), metrics, lifecycle.crashed)
    contract = ContractTable(kafka_names.contract_topic(settings.instance), kafka, lifecycle.crashed)
    status = StatusTable(kafka_names.status_topic(settings.instance), kafka, lifecycle.crashed)
    parts = Parts(settings, controller_config(settings, kafka), worker_id, metrics, producer, contract, status)
    parts.spans = spans
    secrets: BrokerSecrets | None = None
    if settings.role != "controller":
        secrets = parts.secrets = _broker_secrets(settings, contract, metrics, lifecycle)
    counters, rows = None, None
    if settings.traffic:
        parts.traffic = TrafficComponent(settings, worker_id, kafka, producer, metrics, lifecycle.is_first)
        counters, rows = parts.traffic.counters, parts.traffic.rows
    traffic.register(app, rows, why_not(settings))
    health.register(app, lifecycle.alive, lifecycle.readiness)
    subscribers_page = subscribers.SubscribersPage(contract, lifecycle.subscriber_details)
    subscribers.register(app, subscribers_page)
    if settings.role in ("all", "ingress"):
        store: Produce = producer
        view = ingress.IngressView
        assert secrets is not None, "only a controller has none"
        own: ingress.OwnProducer = secrets.producer
        if spans is not None:
            store, view = spans.storing(producer), traced_view(spans.tracing)
            own = _in_spans(own, spans)
        admission = _admission(settings, lifecycle)
        taken = ingress.register(
            app, ingress_config(settings), contract, store, metrics, view, counters, admission, own
        )
        metrics.watch_ingress(lambda: (taken.inflight, taken.inflight_bytes))
    else:
        ingress.register(app, replace(ingress_config(settings), takes_events=False), contract, producer, metrics)
    if settings.role in ("all", "dispatcher"):
        from app.worker.delivery import deliver

        deliver(app, parts, kafka, lifecycle, counters)
    if settings.role in ("all", "controller") and settings.resources and lifecycle.is_first:
        _reconcile(parts, kafka, lifecycle)
    if settings.admin_port:
        parts.admin = _admin(app, parts, kafka, subscribers_page, seat)
    return parts


def _admin(
    app: WorkerApp, parts: Parts, kafka: Mapping[str, Any], page: subscribers.SubscribersPage, seat: Seat | None
) -> AdminServer:
    settings, lifecycle = parts.settings, app.lifecycle
    config = AdminConfig(bind=settings.admin_bind, port=settings.admin_port, debug=settings.debug)
    console, others = None, None
    if seat is not None:
        config = replace(config, path=seat.admin_socket, began_at=seat.began_at)
    if lifecycle.is_first:
        console = _console(settings, parts, kafka, lifecycle)
        others = None if seat is None else Others(seat.others, seat.began_at)
    checks = (lifecycle.alive, lifecycle.readiness)
    return AdminServer(config, parts.metrics, *checks, page, app.conf.web_ssl_context, console, others)


def _console(
    settings: Settings, parts: Parts, kafka: Mapping[str, Any], lifecycle: Lifecycle
) -> Callable[[], Awaitable[Console]] | None:
    mode = mode_of(settings.console, settings.admin_bind, bool(settings.console_tokens))
    if mode is Mode.OFF:
        return None
    sessions = Sessions(Limits())
    if settings.console_tokens:
        from app.worker.secrets.token_file import read_names

        path = Path(settings.console_tokens.removeprefix("file:"))

        def use(names: Mapping[bytes, str]) -> None:
            sessions.names = names

        lifecycle.watches.append(FileWatch("PENSTOCK_CONSOLE_TOKENS", [path], lambda: read_names(path), use))

    async def make() -> Console:
        await asyncio.to_thread(import_module, "app.operations.console")  # 0.1 s, for which events would wait
        from app.operations.console import console

        return console(settings, mode, parts, kafka, sessions)

    return make


def _broker_secrets(
    settings: Settings, contract: ContractTable, metrics: Metrics, lifecycle: Lifecycle
) -> BrokerSecrets:
    def make_producer(kafka: Mapping[str, Any], reference: str) -> KafkaProducer:
        name = f"{settings.instance}-producer-{reference.replace('/', '-')}"
        return KafkaProducer(producer_config(settings, kafka, name), metrics, lifecycle.crashed)

    root, others = secrets_folder(settings), worker_kafka_without_secret(settings)
    return BrokerSecrets(root, others, contract, make_producer, lifecycle.crashed, settings.drain_s)


def _in_spans(own: ingress.OwnProducer, spans: SpanExport) -> ingress.OwnProducer:
    def producer(reference: str) -> Produce | str:
        produce = own(reference)
        return produce if isinstance(produce, str) else spans.storing(produce)

    return producer


def _admission(settings: Settings, lifecycle: Lifecycle) -> Admission | None:
    if not settings.tokens:
        return None
    from app.worker.secrets.token_file import read_tokens

    path, admission = Path(settings.tokens.removeprefix("file:")), Admission(Senders({}))

    def use(senders: Senders) -> None:
        admission.senders = senders

    lifecycle.watches.append(FileWatch("PENSTOCK_TOKENS", [path], lambda: read_tokens(path), use))
    return admission


def _reconcile(parts: Parts, kafka: Mapping[str, Any], lifecycle: Lifecycle) -> None:
    from app.worker.dlq_sizes import DlqSizes
    from controller.outage import OutageAtStart
    from controller.service import Controller

    settings, contract = parts.settings, parts.contract
    place = _cluster(settings, parts.controller_config, lifecycle, parts.worker_id)
    controller = parts.controller = Controller(
        parts.controller_config, contract, parts.status, parts.producer, lifecycle.crashed, place
    )
    if settings.role == "controller":
        outside = _cluster(settings, parts.controller_config, lifecycle, parts.worker_id)
        parts.outage = None if outside is None else OutageAtStart(outside, lifecycle.crashed)
    parts.dlq_sizes = DlqSizes(
        kafka, lambda: {channel.dlq_topic for channel in contract.channels.values()}, lambda: controller.leading
    )
    parts.metrics.watch_controller(parts.led, None if place is None else parts.troubles)


def _cluster(settings: Settings, config: ControllerConfig, lifecycle: Lifecycle, worker_id: str) -> Place | None:
    if settings.namespaces is None:
        return None
    from controller.cluster import cluster  # takes a second at start, and 50 MB

    return cluster(config, lifecycle.crashed, worker_id)
