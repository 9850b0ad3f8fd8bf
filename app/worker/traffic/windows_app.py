"""The second Faust app of a process: it keeps the traffic windows, and its failures never reach the data plane.

    ready --> topics there? --> app starts --> ... --> stop          consumer, producer and table are Faust's own
                  ^                  | fails for any reason
                  +---- waits -------+         longer each time, up to a minute

It starts in the background when the worker is ready. Only the worker's stop waits for it, and not for long. This module
logs each failure once; the loggers of Faust and its Kafka client are silent.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import structlog
from faust.app.base import BootStrategy
from faust.types import TP

from app.timing import LONGEST_WAIT_S, LOOK_S, START_S
from controller.kafka.internal_topics import ensure_traffic
from knative.backoff import doubling_s
from knative.contract import kafka_names
from tables.faust_support import OffsetControlApp, crash_of, end_app
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.connection.python_clients import broker_settings
from tables.timing import ANSWER_S, CLOSE_S
from tables.traffic_windows.faust_table import TrafficConfig, register

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TrafficWindowsConfig:
    """`kafka`: librdkafka client settings, for creating the topics."""

    kafka: Mapping[str, Any]
    worker: str
    replication: int = 1
    retention_s: float = 604_800.0
    session_timeout_s: float = 8.0
    traffic: TrafficConfig = field(default_factory=TrafficConfig)


class _Boot(BootStrategy):
    enable_web = False
    enable_sensors = False


class TrafficWindowsApp(OffsetControlApp):
    """Faust's own consumer, producer and table; no web server."""

    BootStrategy = _Boot
    logger = logging.getLogger("mode.windows")
    deltas: str  #: the topic

    async def start_offsets(self, consumer: Any, committed: Mapping[TP, int]) -> Mapping[TP, int]:
        """Returns the beginning of the topic until something is committed. After a rebalance Faust would go on where it
        has fetched to, also if the rebalance dropped what it fetched: the first deltas would never be counted."""
        mine = [tp for tp in consumer.assignment() if tp.topic == self.deltas and not committed.get(tp)]
        return dict(await consumer.earliest_offsets(*mine)) if mine else {}

    def offsets_to_commit(self, offsets: Mapping[TP, int]) -> Mapping[TP, int]:
        """Returns all of it."""
        return offsets


class Topics:
    """Creates the topics once for the whole process, and checks them again after a failure."""

    def __init__(self, config: TrafficWindowsConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._made = False

    def make(self) -> None:
        """Blocks. Raises KafkaFailed."""
        with self._lock:
            if not self._made:
                make_topics(self._config)
                self._made = True

    def doubt(self) -> None:
        """The topics may have been deleted: the next `make` checks again."""
        self._made = False


def make_topics(config: TrafficWindowsConfig) -> None:
    """Create the traffic topic and the table's changelog if they do not exist. Blocks. Raises KafkaFailed."""
    traffic = config.traffic
    admin = KafkaAdmin(config.kafka, ANSWER_S)
    ensure_traffic(admin, traffic.topic, config.retention_s, [traffic.changelog], config.replication)


def build(config: TrafficWindowsConfig) -> TrafficWindowsApp:
    """Returns a new app. Faust cannot start an app again that has failed, so each start has its own."""
    group = kafka_names.windows_group(config.traffic.instance)
    app = TrafficWindowsApp(
        group,
        **broker_settings(config.kafka),
        broker_client_id=f"{group}-{config.worker}",
        store="memory://",
        datadir=Path(tempfile.gettempdir()) / f"{group}-{config.worker}",
        autodiscover=False,
        web_enabled=False,
        topic_disable_leader=True,
        topic_allow_declare=False,  # they exist already, with configs that Faust would not set
        topic_replication_factor=config.replication,
        table_standby_replicas=0,  # every process reads the changelog for /traffic anyway
        broker_session_timeout=config.session_timeout_s,
        broker_heartbeat_interval=config.session_timeout_s / 4,
        broker_request_timeout=15.0,
        producer_request_timeout=15.0,
        producer_compression_type="lz4",
        consumer_auto_offset_reset="earliest",
        worker_redirect_stdouts=False,
    )
    app.deltas = config.traffic.topic
    register(app, config.traffic)
    return app


class TrafficWindows:
    """Runs from `start` to `stop`. Event loop only."""

    def __init__(self, config: TrafficWindowsConfig, topics: Topics, count: Callable[[str], None]) -> None:
        """`count` gets "started" and "failed"."""
        self._config = config
        self._topics = topics
        self._count = count
        self.app: TrafficWindowsApp | None = None  #: the present one
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the task. Returns at once."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Returns when the app has left its group and closed its connections, or after the time limits."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=ANSWER_S + 2 * CLOSE_S)

    async def _run(self) -> None:
        waits_s = doubling_s(LOOK_S, LONGEST_WAIT_S)
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                await self._once()
            except Exception as problem:
                if loop.time() - began > LONGEST_WAIT_S:
                    waits_s = doubling_s(LOOK_S, LONGEST_WAIT_S)
                self._topics.doubt()
                self._count("failed")
                wait_s = next(waits_s)
                log.warning(
                    "traffic windows are not updated now; the app that sums them up is started again",
                    reason=_words(problem),
                    again_in_s=wait_s,
                )
                await asyncio.sleep(wait_s)

    async def _once(self) -> NoReturn:
        """Runs one app from its start until it fails. Raises why."""
        await asyncio.to_thread(self._topics.make)
        self.app = app = build(self._config)
        try:
            async with asyncio.timeout(START_S):
                await app.start()
            self._count("started")
            log.debug("traffic windows are updated")
            raise await crash_of(app) or RuntimeError("the app of the traffic windows exited")
        finally:
            await end_app(app, ANSWER_S, CLOSE_S)


def _words(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {problem}" if str(problem) else type(problem).__name__
