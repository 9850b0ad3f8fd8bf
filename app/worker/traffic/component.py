"""The part of a worker that counts traffic and keeps traffic windows, started and stopped together.

    every role              TrafficCounters (hot path) -> TrafficFlush -> traffic topic
    all, controller         TrafficWindows (the second Faust app), and TrafficRows for /traffic

It starts once the worker is ready, so that neither readiness nor the start time depends on it. With
PENSTOCK_TRAFFIC=false it does not exist. Errors in it are logged and never affect events.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from app.observability.metrics import Metrics
from app.settings.load import Settings
from app.worker.system_clock import SystemClock
from app.worker.traffic.publisher import TrafficFlush
from app.worker.traffic.windows_app import Topics, TrafficWindows, TrafficWindowsConfig
from knative.ports import Produce
from knative.traffic.counters import TrafficCounters
from tables.faust_support import offset_control_transport
from tables.timing import CLOSE_S, POLL_S
from tables.traffic_windows.faust_table import TrafficConfig
from tables.traffic_windows.view import TrafficRows

_SERVING = ("all", "controller")


class TrafficComponent:
    """`counters` is for the hot paths, `rows` for the view (None = this role has none). Event loop only."""

    def __init__(
        self,
        settings: Settings,
        worker_id: str,
        kafka: Mapping[str, Any],
        produce: Produce,
        metrics: Metrics,
        keeps_windows: bool = True,
    ) -> None:
        """`keeps_windows`: False if another process of the same command does; this one only shows them."""
        traffic = TrafficConfig(settings.instance, settings.traffic_10s_keep_s, settings.traffic_1m_keep_s)
        config = TrafficWindowsConfig(
            kafka,
            worker_id,
            settings.internal_replication,
            settings.traffic_retention_s,
            settings.session_timeout_s,
            traffic,
        )
        topics = Topics(config)
        # The random part makes delta numbers unique: a worker may have the same id after a restart.
        self.counters = TrafficCounters(f"{worker_id}.{secrets.token_hex(4)}")
        self._flush = TrafficFlush(
            traffic.topic, self.counters, produce, SystemClock(), metrics.traffic_delta, topics.make
        )
        self.rows: TrafficRows | None = None
        self._windows: TrafficWindows | None = None
        if settings.role in _SERVING:
            self.rows = TrafficRows(traffic.changelog, kafka, traffic.short_keep_s, traffic.long_keep_s)
            if keeps_windows:
                offset_control_transport()  # imports Faust's Kafka client now, and not when events would wait for it
                self._windows = TrafficWindows(config, topics, metrics.traffic_window)
        self._starting: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None

    def start(self, ready: Callable[[], bool]) -> None:
        """Start as soon as the worker is ready. Returns at once."""
        self._starting = asyncio.get_running_loop().create_task(self._start(ready))

    async def _start(self, ready: Callable[[], bool]) -> None:
        # Polling happens once in the life of a process, and keeps this out of everything that makes a worker ready.
        while not ready():  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)
        self._flush.start()
        if self._windows is not None:
            self._windows.start()
        if self.rows is not None:
            self.rows.start()

    def leave(self) -> None:
        """Leave the group of the windows, which another worker keeps from now on. Returns at once; deltas still
        count."""
        if self._starting is not None:
            self._starting.cancel()
        self._stopping = asyncio.get_running_loop().create_task(self._stop())

    async def _stop(self) -> None:
        parts = (self._windows, self.rows)
        await asyncio.gather(*(part.stop() for part in parts if part is not None))

    async def left(self) -> None:
        """Wait until it has left, for some seconds at most."""
        if self._stopping is not None:
            await asyncio.wait({self._stopping}, timeout=CLOSE_S)

    def stop(self) -> None:
        """Call after `leave`, when nothing is counted any more: passes the last second to the producer."""
        self._flush.stop()


def why_not(settings: Settings) -> str:
    """Returns what /traffic answers in a process that has no windows."""
    if not settings.traffic:
        return "this process keeps no traffic windows; set PENSTOCK_TRAFFIC=true"
    return f"a process of role {settings.role} keeps no traffic windows; use one of role all or controller"
