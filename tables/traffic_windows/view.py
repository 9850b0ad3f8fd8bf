"""The rows of the traffic windows in memory, for processes that serve them: a reader of the table's changelog.

    changelog of the table --CompactedReader--> rows by size and start, still encoded --lines--> what a page shows

Any number of processes may read it, whichever owns the table, and none waits for a Faust rebalance. A minute without a
row is the sum of its windows of 10 s. Old rows are dropped here too, in case no worker maintains the table. If reading
fails, the process goes on: `problem` says why, and the rows read so far are shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from tables.kafka.compacted_topic import CompactedReader, Record
from tables.kafka.unreadable import skip
from tables.traffic_windows.windows import LONG_S, SHORT_S, Key, Window, merged, parts_of, start_of

log = structlog.get_logger(__name__)

Name = tuple[str, str, str]  #: namespace, unique names of channel and subscription ("" = the channel itself)


@dataclass(frozen=True, slots=True)
class Line:
    """The windows with traffic of one channel (`subscription` is "") or one subscription, by start time."""

    namespace: str
    channel: str
    subscription: str
    windows: Mapping[int, Window]


class HeldRows:
    """Rows by size and start. Pure."""

    def __init__(self, rows: Mapping[tuple[int, int], Mapping[Name, bytes]], now_s: float) -> None:
        self._rows, self._now_s = rows, now_s

    def lines(self, size: int, last: int, namespace: str = "", channels: Collection[str] = ()) -> list[Line]:
        """Returns the `last` windows of this size, including the current one, sorted by name. `channels`: their unique
        names. Namespace "" or no channels = any."""
        current = start_of(int(self._now_s), size)
        by_name: dict[Name, dict[int, Window]] = {}
        for start in range(current - (last - 1) * size, current + 1, size):
            for name, window in self._windows(size, start, namespace, channels):
                by_name.setdefault(name, {})[start] = window
        return [Line(*name, by_name[name]) for name in sorted(by_name)]

    def rows(self, size: int, last: int) -> Iterator[tuple[int, Mapping[Name, bytes]]]:
        """Yields start and rows of the `last` windows of this size, encoded, the oldest first."""
        current = start_of(int(self._now_s), size)
        for start in range(current - (last - 1) * size, current + 1, size):
            yield start, self._rows.get((size, start), {})

    def _windows(
        self, size: int, start: int, namespace: str, channels: Collection[str]
    ) -> Iterator[tuple[Name, Window]]:
        def matches(name: Name) -> bool:
            return namespace in ("", name[0]) and (not channels or name[1] in channels)

        rows = self._rows.get((size, start), {})
        for name in filter(matches, rows):
            yield name, Window.decode(rows[name])
        if size != LONG_S:
            return
        # Minutes that are not summed up yet (the current one is not) come from their windows of 10 s.
        parts = [self._rows.get((part.size, part.start), {}) for part in parts_of(Key(size, start, "", ""))]
        for name in filter(matches, {name for part in parts for name in part} - rows.keys()):
            yield name, merged(Window.decode(part[name]) for part in parts if name in part)


class TrafficRows:
    """The rows of the changelog. Event loop only."""

    def __init__(
        self,
        topic: str,
        kafka: Mapping[str, Any],
        short_keep_s: int,
        long_keep_s: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`kafka`: librdkafka client settings with `bootstrap.servers`; `clock`: Unix seconds."""
        self.loaded = False
        self.problem: str | None = None  #: why reading stopped; None = it did not
        self.keep_s = {SHORT_S: short_keep_s, LONG_S: long_keep_s}
        self._clock = clock
        self._rows: dict[tuple[int, int], dict[Name, bytes]] = {}  # (size, start) -> name -> value
        self._swept_at = 0.0
        self._topic = topic
        self._reader = CompactedReader(
            topic, kafka, apply=self.apply, caught_up=self.caught_up, crashed=self._reading_failed
        )

    def start(self) -> None:
        """Start reading."""
        self._reader.start()

    async def stop(self) -> None:
        """Stop reading."""
        await self._reader.stop()

    def apply(self, records: Sequence[Record]) -> None:
        """Apply rows in topic order."""
        for record in records:
            value = record.value
            try:
                key = Key.decode(record.key)
                if value is not None:
                    Window.decode(value)
            except ValueError as problem:
                skip(self._topic, record, problem)
                continue
            place, name = (key.size, key.start), (key.namespace, key.channel, key.subscription)
            if value is not None:
                self._rows.setdefault(place, {})[name] = value
            elif place in self._rows:
                self._rows[place].pop(name, None)
        now = self._clock()
        if now - self._swept_at > SHORT_S:
            self._swept_at = now
            self._sweep(now)

    def caught_up(self) -> None:
        """The topic was read to its end."""
        self.loaded = True

    def _reading_failed(self, problem: BaseException) -> None:
        self.problem = f"{type(problem).__name__}: {problem}"
        log.error("reading traffic windows has stopped", reason=self.problem)

    def _sweep(self, now: float) -> None:
        for place in [row for row in self._rows if row[1] + row[0] + LONG_S <= now - self.keep_s.get(row[0], 0)]:
            del self._rows[place]

    def lines(self, size: int, last: int, namespace: str = "", channels: Collection[str] = ()) -> list[Line]:
        """Returns the lines of `HeldRows` as of now."""
        return HeldRows(self._rows, self._clock()).lines(size, last, namespace, channels)

    def held(self, size: int, last: int) -> HeldRows:
        """Returns the rows of the `last` windows of this size, for another thread."""
        now_s = self._clock()
        starts = range(start_of(int(now_s), size) - (last - 1) * size, int(now_s) + 1, size)
        return HeldRows({(size, start): dict(self._rows.get((size, start), {})) for start in starts}, now_s)
