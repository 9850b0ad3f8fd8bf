"""The life of a worker: what is started in which order, when it is ready, and how it leaves.

    start:  Kafka answers -> web server listens (not ready) -> producer, contract, status, fleet, controller -> ready
    stop:   not ready -> fleet drains and commits, leaves its groups -> ingress drains -> controller, tables, producer
            -> only then Faust's own stop

Ready = contract read to its end once, producer connected once, not draining. A Kafka outage is a field of the page,
not the end of readiness: it must not take every pod out at once. Refuses to hide a failure: a task or thread that dies
ends the process with exit code 1, and the next owner goes on at the watermark.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from agents.supervisor import Supervisor
from app.observability.admin_server import AdminServer
from app.observability.metrics import Metrics
from app.settings.load import Settings
from app.worker import file_limits, listening
from app.worker.dlq_sizes import DlqSizes
from app.worker.kafka_probe import refusal
from app.worker.memory_trimmer import MemoryTrimmer
from app.worker.producer import KafkaProducer
from app.worker.traffic_component import TrafficComponent
from app.worker.watchdog import Watchdog
from controller.config import ControllerConfig
from controller.kafka.topics import ActionFailed
from controller.service import Controller, ensure_internal_topics
from knative.contract import kafka_names
from knative.contract.records import SubscriberStatus, WorkerStatus
from knative.contract.subscription_stats import SubscriptionStats
from knative.errors import PenstockError
from tables.contract_table import ContractTable
from tables.status_table import StatusTable, encode_status, subscriber_details
from tables.subscriber_details import SubscriberDetails

if TYPE_CHECKING:
    from app.observability.span_export import SpanExport

log = structlog.get_logger(__name__)

EXIT_FAILED = 1
EXIT_NOT_READY = 3
_SOON_S = 0.05
_ASK_LIMIT_S = 2.0  # at start, for each question whether Kafka is there
_GONE_S = 1.0  # for Faust's own stop, when everything of ours has ended
_STOP_S = 40.0  # beside the drain: for a Kafka that does not answer, and for Faust
_SPANS_S = 2.0  # at stop, for the last spans


@dataclass(slots=True)
class Parts:
    """What a worker is made of; the role decides which of the later ones there are."""

    settings: Settings
    controller_config: ControllerConfig
    worker_id: str
    metrics: Metrics
    producer: KafkaProducer
    contract: ContractTable
    status: StatusTable
    admin: AdminServer | None = None
    supervisor: Supervisor | None = None
    controller: Controller | None = None
    dlq_sizes: DlqSizes | None = None
    spans: SpanExport | None = None
    traffic: TrafficComponent | None = None

    def dlq_letters(self) -> tuple[Mapping[str, int], Sequence[str]]:
        """Letters by subscription, and which subscriptions there are; nothing where another process counts."""
        sizes = None if self.dlq_sizes is None else self.dlq_sizes.sizes
        if sizes is None:
            return {}, ()
        return sizes, [one.label for one in list(self.contract.subscriptions.values())]


class Lifecycle:
    """Event loop only. The Faust app calls `before_start`, `start` and `stop`."""

    def __init__(self) -> None:
        self.parts: Parts | None = None
        self.draining = False
        self._stopped = False
        self._shown: set[str] = set()
        self._watchdog = Watchdog(lagged=self._loop_lagged)
        self.memory = MemoryTrimmer()
        self._publisher: asyncio.Task[None] | None = None
        self._publish_now = asyncio.Event()

    # -- start

    def check_ports(self, bind: str, web_port: int) -> None:
        """Before anything is waited for. `web_port` 0: there is no web server. Raises PenstockError."""
        settings = self._parts.settings
        if web_port:
            listening.check(bind, web_port)
        if settings.admin_port:
            listening.check(settings.bind, settings.admin_port, "Choose another with PENSTOCK_ADMIN_PORT (0 = none).")

    async def before_start(self) -> None:
        """Wait for Kafka; a process without it ends with exit code 3 and says what to do."""
        settings = self._parts.settings
        for warning in (*settings.warnings, file_limits.allow(settings.connections_max)):
            if warning:
                log.warning(warning)
        until = time.monotonic() + settings.kafka_wait_s
        told = False
        while why := await asyncio.to_thread(_why_not, settings.kafka):
            if not told:
                told = True
                limit_s = f"{settings.kafka_wait_s:g} s"
                log.warning(f"Kafka at {settings.kafka} does not answer ({why}); waiting up to {limit_s} for it")
            if time.monotonic() > until:
                log.error(
                    f"Kafka at {settings.kafka} did not answer within {settings.kafka_wait_s:g} s ({why}). "
                    "Start one with `penstock kafka up`, or set PENSTOCK_KAFKA."
                )
                os._exit(EXIT_NOT_READY)
            await asyncio.sleep(0.2)

    async def start(self) -> None:
        """Everything that needs a running loop."""
        parts = self._parts
        self._watchdog.start()
        self.memory.start()
        await parts.producer.start()
        await self._internal_topics()
        if parts.controller is not None:
            try:
                await parts.controller.start()
            except PenstockError as problem:  # no such directory: a sentence, not a traceback through Faust
                log.error(str(problem))
                os._exit(problem.exit_code)
        if parts.dlq_sizes is not None:
            parts.dlq_sizes.start()
        parts.contract.on_change(self._show_topics)
        parts.contract.start()
        parts.status.start()
        if parts.supervisor is not None:
            parts.supervisor.start()
            self._publisher = asyncio.get_running_loop().create_task(self._publish_status())
        if parts.admin is not None:
            await parts.admin.start()
        threshold = parts.settings.gc_threshold
        gc.collect()
        gc.freeze()  # what was imported and built by now lives as long as the process
        if threshold:
            gc.set_threshold(threshold, 20, 100)
        log.info("worker started", role=parts.settings.role, worker=parts.worker_id, kafka=parts.settings.kafka)
        if parts.traffic is not None:
            parts.traffic.start(lambda: self.readiness()[0])

    def _show_topics(self) -> None:
        """Metrics show the partitions of every channel from the start, and of no channel that is gone."""
        parts = self._parts
        channels = parts.contract.channels.values()
        topics = {channel.topic: channel.partitions for channel in channels}
        existing = topics.keys() | {channel.dlq_topic for channel in channels}
        for topic in self._shown - existing:
            parts.metrics.unserved(topic)
        if parts.settings.role in ("all", "ingress"):
            for topic, partitions in topics.items():
                parts.metrics.serves(topic, partitions)
        self._shown = existing

    async def _internal_topics(self) -> None:
        """Make the contract and status topics where there are none; every role may be the first."""
        parts = self._parts
        until = time.monotonic() + parts.settings.kafka_wait_s
        while True:
            try:
                await ensure_internal_topics(parts.controller_config)
                return
            except ActionFailed as problem:
                if time.monotonic() > until:
                    log.error("internal topics cannot be made", reason=str(problem))
                    os._exit(EXIT_NOT_READY)
            await asyncio.sleep(0.5)

    # -- stop

    async def stop(self, web: Any) -> None:
        """Leave in order; called before Faust stops anything. `web`: the ingress server."""
        if self._stopped or self.parts is None:
            return
        self._stopped = self.draining = True
        parts = self._parts
        drain_s = parts.settings.drain_s
        log.info("draining", limit_s=drain_s)
        self._watchdog.end_within(drain_s + _STOP_S)  # Faust's own stop, after this one, has no limit
        ingress = asyncio.create_task(self._drain_web(web, drain_s))
        if parts.traffic is not None:
            parts.traffic.leave()
        if parts.supervisor is not None:
            await parts.supervisor.stop(drain_s)
        await asyncio.wait({ingress}, timeout=drain_s + 5)
        if self._publisher is not None:
            self._publisher.cancel()
            await self._say_goodbye()
        if parts.dlq_sizes is not None:
            await parts.dlq_sizes.stop()
        if parts.controller is not None:
            await parts.controller.stop()
        await parts.contract.stop()
        await parts.status.stop()
        if parts.traffic is not None:
            await parts.traffic.stop()
        await parts.producer.stop(5.0)
        if parts.admin is not None:
            await parts.admin.stop(1.0)
        if parts.spans is not None:
            await parts.spans.stop(_SPANS_S)
        log.info("worker stopped")
        self._watchdog.end_within(_GONE_S, code=0)  # a thread that Faust left behind may not keep the process

    @staticmethod
    async def _drain_web(web: Any, limit_s: float) -> None:
        if hasattr(web, "drain"):
            await web.drain(limit_s)

    def crashed(self, problem: BaseException) -> None:
        """Something that must run has died: end now, without commits that nobody can vouch for."""
        log.critical("the worker cannot go on", exc_info=(type(problem), problem, problem.__traceback__))
        os._exit(EXIT_FAILED)

    # -- what the pages ask

    def alive(self) -> tuple[bool, Mapping[str, Any]]:
        """Answering at all shows that the loop turns, and whatever dies takes the process along. What is left to look
        at: a consumer's thread may hang in a call."""
        supervisor = None if self.parts is None else self.parts.supervisor
        poll_age_s = 0.0 if supervisor is None else supervisor.poll_age_s()
        shown = {"loop_lag_s": round(self._watchdog.lag_s, 3), "consumers_still_s": round(poll_age_s, 1)}
        return supervisor is None or poll_age_s < supervisor.max_poll_interval_s, shown

    def readiness(self) -> tuple[bool, Mapping[str, Any]]:
        """See the module's words; `kafka` is about now and no condition."""
        parts = self._parts
        conditions = {
            "contract": parts.contract.loaded and not parts.contract.problem,
            "producer": parts.producer.ever_connected,
            "draining": self.draining,
        }
        ready = conditions["contract"] and conditions["producer"] and not self.draining
        fields: dict[str, Any] = {**conditions, "kafka": "up" if parts.producer.connected else "down"}
        if parts.contract.problem:
            fields["problem"] = parts.contract.problem
        return ready, fields

    def subscriber_statuses(self, namespace: str, channel: str) -> list[SubscriberStatus] | None:
        """The duck type's list for a channel of the whole system; None = there is no such channel."""
        found = self.subscriber_details(namespace, channel)
        return None if found is None else [one.status for one in found]

    def subscriber_details(self, namespace: str, channel: str) -> list[SubscriberDetails] | None:
        """How each of them is doing, likewise."""
        parts = self._parts
        found = [c for c in parts.contract.channels.values() if (c.namespace, c.name) == (namespace, channel)]
        if not found:
            return None
        now = time.time()
        uids = {c.uid for c in found}
        mine = [s for s in parts.contract.subscriptions.values() if s.channel_uid in uids]
        workers = list(parts.status.workers.values())
        return [subscriber_details(one, workers, now) for one in sorted(mine, key=lambda s: s.label)]

    def _loop_lagged(self, seconds: float) -> None:
        if self.parts is not None:
            self.parts.metrics.loop_lag.add(seconds)

    # -- what others read of this worker

    def status_changed(self) -> None:
        """Owned partitions or states are different: say so soon."""
        self._publish_now.set()

    def _send_status(self, value: bytes | None) -> None:
        parts = self._parts

        def done(failure: object) -> None:
            if failure is not None:
                log.debug("status record was not stored", reason=str(failure))

        parts.producer.send(
            kafka_names.status_topic(parts.settings.instance), value, parts.worker_id.encode(), [], done, 0
        )

    async def _publish_status(self) -> None:
        parts = self._parts
        assert parts.supervisor is not None
        stats: dict[str, SubscriptionStats] = {}
        progress_due = 0.0
        try:
            while True:
                self._publish_now.clear()
                if time.monotonic() >= progress_due:  # a flock of changes says the same numbers again
                    progress_due = time.monotonic() + parts.settings.status_interval_s / 2
                    stats = parts.supervisor.stats()
                status = WorkerStatus(
                    parts.worker_id, time.time(), parts.settings.role, parts.supervisor.statuses(), stats
                )
                if parts.producer.connected:
                    self._send_status(encode_status(status))
                try:
                    await asyncio.wait_for(self._publish_now.wait(), parts.settings.status_interval_s)
                    await asyncio.sleep(_SOON_S)  # changes come in flocks
                except TimeoutError:
                    continue
        except Exception as problem:
            self.crashed(problem)

    async def _say_goodbye(self) -> None:
        if self._parts.producer.connected:
            self._send_status(None)

    @property
    def _parts(self) -> Parts:
        assert self.parts is not None, "the worker is not composed yet"
        return self.parts


def _why_not(kafka: str) -> str:
    """Why Kafka does not answer; "" = it does. Blocks, with a client of its own: those are not made or destroyed on the
    event loop."""
    refused = refusal(kafka)  # the client would find that out only when its time is up
    if refused:
        return refused
    try:
        AdminClient({"bootstrap.servers": kafka, "log_level": 0}).list_topics(timeout=_ASK_LIMIT_S)
    except KafkaException as problem:
        return str(problem.args[0].str())
    return ""
