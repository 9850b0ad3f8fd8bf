"""The totals of the census demo: a Faust Table that follows the topic of results, and knows how far it has followed.

    topic results --agent, in batches--> rows of tables/totals --table--> changelog topic
                                                      ^                        |
                                                      +---- after a restart ---+

The table's own rows say where reading goes on, not the group's commits: Faust acknowledges more than it has stored at
times, and what is in the changelog is exactly what is counted. File rows are stored before the row with the position,
and both before the next batch. So a kill at any moment repeats some results, and a repeated one changes nothing.

Refuses to count (`analytics/census/totals` does) and to go on after a failed write, or when records do not come: the
process ends, and starts anew from what is stored.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import faust
import structlog
from faust.types import TP

from analytics.census.offset_sequence import OffsetGapError, Succession
from analytics.census.totals import Row, Summary, apply, next_offset, partition_of, summarize

log = structlog.get_logger(__name__)

_STORE_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class ResultsConfig:
    """`partitions`: of the topic; the changelog gets as many."""

    topic: str
    partitions: int
    batch: int = 2_000  #: results that are stored together, at most
    flush_s: float = 0.3


class _Rows(faust.Table):  # type: ignore[type-arg]
    """Rows go to the partition that their key names, and whoever writes them waits until they are stored."""

    unstored: list[Any]

    def on_key_set(self, key: Any, value: Any) -> None:
        self.unstored.append(self.send_changelog(partition_of(key), key, value))


class ResultsTable:
    """Event loop only. `register` makes one."""

    def __init__(self, app: Any, config: ResultsConfig, crashed: Callable[[BaseException], None]) -> None:
        self.config = config
        self.taken = 0  #: results of this process, repeated ones among them
        self._app = app
        self._crashed = crashed
        self._dead = False
        self._epoch = 0  # how often reading was set to the table's positions
        self._succession = Succession()
        self._table: Any = _Rows(app, name="totals", partitions=config.partitions, default=None, key_type=str)
        self._table.unstored = []
        app.tables.add(self._table)

    def begin(self, committed: Mapping[int, int | None], earliest: Mapping[int, int]) -> dict[int, int]:
        """Where each partition that is ours now goes on; called when the table is complete."""
        self._epoch += 1
        starts = {}
        for partition in committed:
            starts[partition] = max(next_offset(self._table, partition) or 0, earliest.get(partition, 0))
            self._succession.start(partition, next_offset(self._table, partition) or 0)
        return starts

    def storable(self, partition: int) -> int | None:
        """Up to where the group may commit, for those who look at its lag."""
        return next_offset(self._table, partition)

    @property
    def positions(self) -> dict[int, int]:
        """Partition -> offset that comes next, of those that are ours."""
        return dict(self._succession.next)

    def summary(self) -> Summary:
        """Totals of what is counted by now."""
        return summarize(dict(self._table.items()))

    async def follow(self, stream: Any) -> None:
        """The agent."""
        async for events in stream.take_events(self.config.batch, within=self.config.flush_s):
            if self._dead:
                continue
            try:
                await self._count(events)
            except asyncio.CancelledError:
                raise
            except Exception as problem:  # agents that raise lose events; this one ends the process
                self._dead = True
                self._crashed(problem)

    async def _count(self, events: Sequence[Any]) -> None:
        epoch = self._epoch
        by_partition: defaultdict[int, list[tuple[int, bytes | None]]] = defaultdict(list)
        torn: set[int] = set()
        for message in (event.message for event in events):
            if message.partition in torn or message.generation_id not in (None, self._app.consumer_generation_id):
                continue
            try:
                if self._succession.take(message.partition, message.offset):
                    by_partition[message.partition].append((message.offset, message.value))
            except OffsetGapError:
                torn.add(message.partition)
        changed: dict[str, Row] = {}
        for partition, records in by_partition.items():
            changed |= apply(self._table, partition, records)
        positions = {key: row for key, row in changed.items() if "next" in row}
        await self._store({key: row for key, row in changed.items() if key not in positions})
        if epoch == self._epoch:  # else the table was recovered meanwhile, and reading went back to its positions
            await self._store(positions)
            self.taken += sum(map(len, by_partition.values()))
        for partition in torn:
            offset = self._succession.again(partition, time.monotonic())
            if offset is not None:
                log.warning("results are missing, going back", partition=partition, offset=offset)
                await self._app.consumer.seek(TP(self.config.topic, partition), offset)

    async def _store(self, rows: Mapping[str, Row]) -> None:
        for key, row in rows.items():
            self._table[key] = row
        unstored, self._table.unstored = self._table.unstored, []
        if unstored:
            await asyncio.wait_for(asyncio.gather(*unstored), _STORE_LIMIT_S)


def register(app: Any, config: ResultsConfig, crashed: Callable[[BaseException], None]) -> ResultsTable:
    """Table and agent on a Faust app whose consumer asks `begin` where to start."""
    table = ResultsTable(app, config, crashed)
    raw = {"key_type": bytes, "value_type": bytes, "key_serializer": "raw", "value_serializer": "raw"}
    # Bytes as they are: a record that Faust cannot decode ends its stream without a word.
    topic = app.topic(config.topic, internal=True, partitions=config.partitions, **raw)
    app.agent(topic, name="census-results")(table.follow)
    return table
