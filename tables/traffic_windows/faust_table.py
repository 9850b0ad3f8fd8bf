"""The traffic windows as a Faust Table: the agent of the second app, fed by the traffic topic.

    <instance>.traffic --Faust's consumer--> deltas of one second --Windows--> Table --> its changelog
                                                                                            |
                                    every process that serves /traffic reads it (tables/traffic_rows)

The topic has one partition, so one worker of the group sums up, and another goes on when it is gone. A batch is acked
when Kafka has its rows; what is read again is counted once (`tables/traffic_windows/windows`). Refuses to be of any
consequence: if the app that this is registered on fails, windows are late and nothing else.
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
from tables.traffic_windows.windows import Seen, Windows

log = structlog.get_logger(__name__)

AGENT = "traffic"
_BATCH_MAX = 5000  #: deltas in one go
_STORED_S = 30.0  #: how long Kafka may take to store the rows of one batch


@dataclass(frozen=True, slots=True)
class TrafficConfig:
    """What is read, and how long windows are kept."""

    instance: str = "penstock"
    short_keep_s: int = 900
    long_keep_s: int = 21_600
    flush_s: float = 1.0

    @property
    def topic(self) -> str:
        """Where the deltas are."""
        return kafka_names.traffic_topic(self.instance)

    @property
    def changelog(self) -> str:
        """Where the rows are."""
        return kafka_names.windows_changelog_topic(self.instance)


class OnePartition(faust.Table[bytes, bytes]):
    """A table whose rows may be written outside the iteration over a stream: they belong nowhere else."""

    logger = logging.getLogger("mode.windows")
    unstored: list[Any]  #: futures of the rows that nobody has waited for yet

    def partition_for_key(self, key: object) -> int:
        """Of the changelog."""
        return 0

    def send_changelog(self, *args: Any, **options: Any) -> Any:
        """Faust forgets the future, and with it what kept the row from being stored."""
        sent = super().send_changelog(*args, **options)
        self.unstored.append(sent)
        return sent

    async def stored(self, limit_s: float) -> None:
        """Until Kafka has every row written so far. Raises what kept one of them from it, or TimeoutError."""
        sent, self.unstored = self.unstored, []
        for one in sent:
            one.add_done_callback(_retrieve)
        done, missing = await asyncio.wait(sent, timeout=limit_s) if sent else (set(), set())
        for one in done:
            one.result()
        if missing:
            raise TimeoutError(f"{len(missing)} rows were not stored within {limit_s:g} s")


def _retrieve(sent: asyncio.Future[Any]) -> None:
    """One failure of a batch is reported, by `stored`; the others count as seen, or the event loop reports each."""
    if not sent.cancelled():
        sent.exception()


class _Keeper:
    """The windows of this process while it has the partition."""

    def __init__(self, app: Any, table: Any, config: TrafficConfig) -> None:
        self._app = app
        self._table = table
        self._config = config
        self._seen = Seen()
        self._windows: Windows | None = None

    async def recovered(self) -> None:
        """Faust has read the changelog: what was known before may be another worker's past."""
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
                continue  # the partition was away meanwhile: whoever has it reads this again
            try:
                delta = decode(event.value)
            except BadDeltaError as problem:
                log.warning("traffic record passed over", offset=message.offset, reason=str(problem))
                continue
            self._windows.add(delta, message.offset, now)
        if self._windows.flush(now):
            await self._table.stored(_STORED_S)


def _read_again(events: list[Any]) -> None:
    """An event that counts as acked is not acked once more, so the group stays before it, and the next app reads it."""
    for event in events:
        event.message.acked = True


def register(app: Any, config: TrafficConfig) -> None:
    """Keep traffic windows on a Faust app of their own, with Kafka consumer and producer."""
    topic = app.topic(config.topic, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw")
    beacon = app.tables.beacon
    table = app.tables.add(
        OnePartition(app, name=kafka_names.WINDOWS_TABLE, partitions=1, key_type=bytes, value_type=bytes, beacon=beacon)
    )
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
            except Exception as problem:  # Faust would skip the batch and go on
                await app.crash(problem)
                return
            finally:
                if not stored:  # also when this is cancelled: Faust acks a batch however it ends
                    _read_again(events)

    app.agent(topic, name=AGENT)(traffic)
