"""A compacted topic as a table in memory. Its readers see a state that changes only between turns of the event loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tables.kafka.compacted_topic import CompactedReader, Record


class CompactedTable(ABC):
    """What is the same in all tables. Event loop only."""

    def __init__(self, topic: str, kafka: Mapping[str, Any], crashed: Callable[[BaseException], None]) -> None:
        self.loaded = False  #: whether the topic was read to its end once
        self._listeners: list[Callable[[], None]] = []
        self._topic = topic
        self._reader = CompactedReader(topic, kafka, apply=self.apply, caught_up=self._caught_up, crashed=crashed)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` when the topic has been read to its end, and after each later change."""
        self._listeners.append(listener)

    def start(self) -> None:
        """Start reading. `loaded` is True when the table is complete."""
        self._reader.start()

    async def stop(self) -> None:
        """Stop reading."""
        await self._reader.stop()

    async def read_to_end(self, limit_s: float) -> bool:
        """Wait until everything is applied that the topic holds now; False if Kafka does not answer in time."""
        return await self._reader.read_to_end(limit_s)

    def apply(self, records: Sequence[Record]) -> None:
        """Apply records in topic order. One that cannot be read leaves the last good one in place."""
        if self._apply(records) and self.loaded:
            self._notify()

    @abstractmethod
    def _apply(self, records: Sequence[Record]) -> bool:
        """Apply records in topic order. Returns whether that is a change for listeners."""

    def _caught_up(self) -> None:
        self.loaded = True
        self._notify()

    def _notify(self) -> None:
        for listener in self._listeners:
            listener()
