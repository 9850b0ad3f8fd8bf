"""Numbers of this moment, from partitions and window: what metrics and status pages show of a subscription. Pure.

Everything is copied in one step before it is looked at, so that a scrape may call these functions from its own thread
while the event loop goes on. Refuses to keep anything up to date event by event: the hot path does not know it is read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice

from agents.ordering.partition import Delivery, PartitionState
from agents.ordering.scheduler import Scheduler

_READY_SEEN = 200  # of what waits for a slot; the oldest are in front
_MINUTE_S = 60.0


def lag(partitions: Iterable[PartitionState]) -> int:
    """Unsettled events up to the ends as far as they are known; nothing for a partition whose end is not."""
    return sum(
        max(0, max(p.log_end_offset, p.tracker.fetched) - p.tracker.committable)
        for p in partitions
        if p.log_end_offset >= 0
    )


def lanes(partitions: Iterable[PartitionState]) -> int:
    """Lanes that hold an event."""
    return sum(len(p.lanes) for p in partitions)


def buffered_bytes(partitions: Iterable[PartitionState]) -> int:
    """Records in memory."""
    return sum(p.held_bytes for p in partitions)


def oldest(scheduler: Scheduler) -> float:
    """Unix seconds at which the oldest unsettled event that is under way or next was stored; 0 = there is none."""
    waiting: Sequence[Delivery] = list(scheduler.started)
    stamps = [record.timestamp_ms for record in (*waiting, *islice(scheduler.ready.copy(), _READY_SEEN))]
    return min((stamp for stamp in stamps if stamp > 0), default=0) / 1000


class Rate:
    """Events a second over the last minute, from a count that is looked at now and then."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def per_s(self, count: int, now: float) -> float:
        """`count`: events so far; `now`: monotonic seconds. Since the first look until a minute has gone by."""
        samples = self._samples
        samples.append((now, count))
        while len(samples) > 1 and samples[1][0] <= now - _MINUTE_S:
            samples.popleft()
        began, before = samples[0]
        return (count - before) / (now - began) if now > began else 0.0
