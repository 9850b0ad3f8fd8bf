"""Computes the gauges of a subscription from its partitions and scheduler, for metrics and status pages. Pure.

Collections are copied in one step first, so that a scrape may call these functions from its own thread while the event
loop runs. Does not update gauges with each event: that would cost time on the happy path.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice

from agents.ordering.partition import Delivery, PartitionState
from agents.ordering.scheduler import Scheduler

_READY_SEEN = 200  # deliveries to look at of those that wait for a slot; the oldest are in front
_MINUTE_S = 60.0


def lag(partitions: Iterable[PartitionState]) -> int:
    """Unsettled events up to the log end offsets; 0 for a partition whose log end offset is not known."""
    return sum(
        max(0, max(p.log_end_offset, p.tracker.fetched) - p.tracker.committable)
        for p in partitions
        if p.log_end_offset >= 0
    )


def lanes(partitions: Iterable[PartitionState]) -> int:
    """Number of lanes that hold a delivery."""
    return sum(len(p.lanes) for p in partitions)


def buffered_bytes(partitions: Iterable[PartitionState]) -> int:
    """Size of the records in memory, in bytes."""
    return sum(p.held_bytes for p in partitions)


def oldest(scheduler: Scheduler) -> float:
    """Unix time at which the oldest event that is started or next was stored; 0 = there is none."""
    waiting: Sequence[Delivery] = list(scheduler.started)
    stamps = [delivery.timestamp_ms for delivery in (*waiting, *islice(scheduler.ready.copy(), _READY_SEEN))]
    return min((stamp for stamp in stamps if stamp > 0), default=0) / 1000


class Rate:
    """Events per second over the last minute, from samples of a counter."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def per_s(self, count: int, now: float) -> float:
        """`count`: events so far; `now`: monotonic seconds. In the first minute the rate is since the first call."""
        samples = self._samples
        samples.append((now, count))
        while len(samples) > 1 and samples[1][0] <= now - _MINUTE_S:
            samples.popleft()
        began, before = samples[0]
        return (count - before) / (now - began) if now > began else 0.0
