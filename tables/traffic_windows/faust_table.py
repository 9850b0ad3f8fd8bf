"""The traffic windows as a Faust Table: an agent of the second app sums up the traffic topic.

    <instance>.traffic --Faust's consumer--> deltas of one second --Windows--> Table --> its changelog
                                                                                            |
                                every process that serves /traffic reads it (tables/traffic_windows/view)

The topic has one partition, so one worker of the group sums up, and another takes over when it stops. A batch is
acknowledged when Kafka has its rows; deltas that are read again count once (`tables/traffic_windows/windows`). If the
app that this is registered on fails, windows are late, but deliveries go on.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import faust
import structlog

from knative.contract import kafka_names
from knative.traffic.delta import BadDeltaError, decode
from tables.faust_support import add_table, leave_unacknowledged
from tables.kafka.unreadable import skip
from tables.timing import STORED_S
from tables.traffic_windows.windows import Seen, Windows

log = structlog.get_logger(__name__)

AGENT = "traffic"
_BATCH_MAX = 5000  #: deltas of one batch


@dataclass(frozen=True, slots=True)
class TrafficConfig:
    """The installation, and how long windows are kept."""

    instance: str = "penstock"
    short_keep_s: int = 900
    long_keep_s: int = 21_600
    flush_s: float = 1.0

    @property
    def topic(self) -> str:
        """The topic of the deltas."""
        return kafka_names.traffic_topic(self.instance)

    @property
    def changelog(self) -> str:
        """The topic of the rows."""
        return kafka_names.windows_changelog_topic(self.instance)


class OnePartition(faust.Table[bytes, bytes]):
    """A table with one partition, so its rows may also be written outside the iteration over a stream."""

    logger = logging.getLogger("mode.windows")
    unstored: list[Any]  #: futures of the rows that `stored` has not awaited yet

    def partition_for_key(self, key: object) -> int:
        """Returns the partition of the changelog."""
        return 0

    def send_changelog(self, *args: Any, **options: Any) -> Any:
        """Keeps the future. Faust drops it, and with it the error if Kafka does not store the row."""
        sent = super().send_changelog(*args, **options)
        self.unstored.append(sent)
        return sent

    async def stored(self, limit_s: float) -> None:
        """Wait until Kafka has every row written so far. Raises the error of a row, or TimeoutError."""
        sent, self.unstored = self.unstored, []
        for future in sent:
            future.add_done_callback(_retrieve)
        done, missing = await asyncio.wait(sent, timeout=limit_s) if sent else (set(), set())
        for future in done:
            future.result()
        if missing:
            raise TimeoutError(f"{len(missing)} rows were not stored within {limit_s:g} s")


def _retrieve(sent: asyncio.Future[Any]) -> None:
    """Mark a future's exception as retrieved. `stored` reports one failure of a batch; without this the event loop
    would log each of the others."""
    if not sent.cancelled():
        sent.exception()


class _Keeper:
    """The windows of this process while it owns the partition."""

    def __init__(self, app: Any, table: Any, config: TrafficConfig) -> None:
        self._app = app
        self._table = table
        self._config = config
        self._seen = Seen()
        self._windows: Windows | None = None

    async def recovered(self) -> None:
        """Faust has read the changelog. Windows from before are outdated: another worker may have changed the table."""
        self._windows = None

    async def keep(self, events: list[Any]) -> None:
        """Count a batch and have Kafka store the rows that it changed."""
        now = time.time()
        if self._windows is None:
            self._windows = Windows(self._table, self._config.short_keep_s, self._config.long_keep_s, self._seen)
            self._windows.load(now)
        for event in events:
            message = event.message
            if message.generation_id != self._app.consumer_generation_id:
                # Fetched before a rebalance: the present owner of the partition reads it again, unless it is committed.
                leave_unacknowledged(event)
                continue
            try:
                delta = decode(event.value)
            except BadDeltaError as problem:
                skip(message.topic, message, problem)
                continue
            self._windows.add(delta, message.offset, now)
        if self._windows.flush(now):
            await self._table.stored(STORED_S)


def register(app: Any, config: TrafficConfig) -> None:
    """Add the agent and its table to a Faust app that has a Kafka consumer and producer for them alone."""
    topic = app.topic(config.topic, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw")
    table = add_table(app, OnePartition, name=kafka_names.WINDOWS_TABLE, partitions=1, key_type=bytes, value_type=bytes)
    table.unstored = []
    keeper = _Keeper(app, table, config)
    table.on_recover(keeper.recovered)

    async def traffic(stream: Any) -> None:
        batches: AsyncIterator[list[Any]] = stream.take_events(_BATCH_MAX, within=config.flush_s)
        async for events in batches:
            stored = False
            try:
                await keeper.keep(events)
                stored = True
            except Exception as problem:  # otherwise Faust would skip the batch and continue
                await app.crash(problem)
                return
            finally:
                if not stored:  # even on cancellation: Faust acknowledges a batch however its iteration ends
                    for event in events:
                        leave_unacknowledged(event)

    app.agent(topic, name=AGENT)(traffic)
