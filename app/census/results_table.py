"""The totals of the census demo: a Faust table over the results topic, which also stores the next offsets to read.

    topic results --agent, in batches--> rows of tables/totals --table--> changelog topic
                                                      ^                        |
                                                      +---- after a restart ---+

Reading continues at the offsets in the table, not at the commits of the group: Faust sometimes commits more than it has
stored, while the changelog has exactly what is counted. File rows are stored before the row with the offset, and both
before the next batch. So a kill at any moment repeats some results, and a repeated result changes nothing.

After a failed write, or when records are missing for good, the process ends and starts again from what is stored.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import faust

from analytics.census.offset_sequence import Succession
from analytics.census.totals import Row, Summary, apply, next_offset, partition_of, summarize
from app.census.faust_app import FollowingApp
from tables.faust_support import add_table
from tables.timing import STORED_S


@dataclass(frozen=True, slots=True)
class ResultsConfig:
    """`partitions`: of the topic; the changelog gets as many."""

    topic: str
    partitions: int
    batch: int = 2_000  #: results that are stored together, at most
    flush_s: float = 0.3


class _Rows(faust.Table):  # type: ignore[type-arg]
    """Writes each row to the partition in its key, and keeps the futures of writes that are not acknowledged yet."""

    unstored: list[Any]

    def on_key_set(self, key: Any, value: Any) -> None:
        self.unstored.append(self.send_changelog(partition_of(key), key, value))


class ResultsTable:
    """Event loop only. `register` makes one."""

    def __init__(self, app: FollowingApp, config: ResultsConfig, crashed: Callable[[BaseException], None]) -> None:
        self.config = config
        self.taken = 0  #: results that this process has read, including repeated ones
        self.succession = Succession()
        self._app = app
        self._crashed = crashed
        self._dead = False
        self._epoch = 0  # how often reading was set to the offsets in the table
        self._table: Any = add_table(
            app, _Rows, name="totals", partitions=config.partitions, default=None, key_type=str
        )
        self._table.unstored = []

    def begin(self, committed: Mapping[int, int | None], earliest: Mapping[int, int]) -> dict[int, int]:
        """The start offsets of the partitions that are assigned now. Called when the table is recovered."""
        self._epoch += 1
        starts = {}
        for partition in committed:
            starts[partition] = max(next_offset(self._table, partition) or 0, earliest.get(partition, 0))
            self.succession.start(partition, starts[partition])
        return starts

    def storable(self, partition: int) -> int | None:
        """The offset up to which the group may commit. Only tools that show its lag use the commits."""
        return next_offset(self._table, partition)

    @property
    def positions(self) -> dict[int, int]:
        """Partition -> next offset, of the assigned partitions."""
        return dict(self.succession.next)

    def summary(self) -> Summary:
        """The present totals."""
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
            except Exception as problem:  # Faust would skip the events of an agent that raises, so end the process
                self._dead = True
                self._crashed(problem)

    async def _count(self, events: Sequence[Any]) -> None:
        epoch = self._epoch
        by_partition: defaultdict[int, list[tuple[int, bytes | None]]] = defaultdict(list)
        torn: set[int] = set()
        for message in self._app.in_order(events, torn):
            by_partition[message.partition].append((message.offset, message.value))
        changed: dict[str, Row] = {}
        for partition, records in by_partition.items():
            changed |= apply(self._table, partition, records)
        positions = {key: row for key, row in changed.items() if "next" in row}
        await self._store({key: row for key, row in changed.items() if key not in positions})
        if epoch == self._epoch:  # otherwise the table was recovered meanwhile, and reading went back to its offsets
            await self._store(positions)
            self.taken += sum(map(len, by_partition.values()))
        await self._app.read_torn(torn)

    async def _store(self, rows: Mapping[str, Row]) -> None:
        for key, row in rows.items():
            self._table[key] = row
        unstored, self._table.unstored = self._table.unstored, []
        if unstored:
            async with asyncio.timeout(STORED_S):
                await asyncio.gather(*unstored)


def register(app: FollowingApp, config: ResultsConfig, crashed: Callable[[BaseException], None]) -> ResultsTable:
    """Register table and agent on a Faust app whose consumer calls `begin` for its start offsets."""
    table = ResultsTable(app, config, crashed)
    raw: dict[str, Any] = {"key_type": bytes, "value_type": bytes, "key_serializer": "raw", "value_serializer": "raw"}
    # Raw bytes: a record that Faust cannot decode would end the stream without an error.
    topic = app.topic(config.topic, internal=True, partitions=config.partitions, **raw)
    app.agent(topic, name="census-results")(table.follow)
    return table
