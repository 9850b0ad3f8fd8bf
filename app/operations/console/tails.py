"""Reads the newest events of a topic for pages as it grows: only when somebody looks, and never more than a few.

A look reads what came since the last one, but only the last ones of each partition; the page says how
many were skipped. So a channel with many events costs as little as a quiet one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from app.operations.console.values import event_of
from app.operations.event_filter import EventFilter
from tables.kafka.topic_reader import TopicReader
from web.console.acts import Events, StoredEvent


class Tail:
    """The newest events of a topic that pass a filter. Blocks: one thread at a time."""

    def __init__(self, topic: str, filter_: EventFilter, kafka: Mapping[str, Any], most: int) -> None:
        """`most`: records of a partition that one look reads; as many events are kept."""
        self._most = most
        self._topic, self._filter, self._kafka = topic, filter_, kafka
        self._events: deque[StoredEvent] = deque(maxlen=most)
        self._next: dict[int, int] | None = None
        self._read = 0
        self._skipped = False

    def look(self) -> Events:
        """Returns what is there now, the newest first. Raises NotReadyError, PenstockError."""
        events: list[StoredEvent] = []
        with TopicReader(self._topic, self._kafka) as reader:
            starts = {number: max(low, high - self._most) for number, (low, high) in reader.ranges.items()}
            if self._next is not None:
                for number, (low, high) in reader.ranges.items():
                    offset = self._next.get(number, low)
                    # Past the end: the topic was deleted and created again under its name.
                    self._skipped |= offset < starts[number]
                    starts[number] = max(starts[number], offset) if offset <= high else starts[number]
            for record in reader.at_or_above(starts):
                self._read += 1
                if self._filter.passes(record):
                    events.append(event_of(record, whole=False))  # without its data, which may be large
            self._next = {number: high for number, (_, high) in reader.ranges.items()}
        self._events.extend(sorted(events, key=lambda event: (event.time_s, event.offset)))
        return Events(tuple(reversed(self._events)), self._read, is_whole=not self._skipped)
