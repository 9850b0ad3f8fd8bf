"""Finds partitions that return no records although their log has more: the client has lost track of them. Pure.

No other check notices this: the consumer polls, its group is stable, and the events wait for the next rebalance.
Partitions that Penstock has paused or stopped do not count. A log may also end in transaction markers, which are not
records; so each time that nothing comes of it, the next wait is twice as long. The consumer assigns the partition
again.
"""

from __future__ import annotations

from collections.abc import Collection

from agents.offsets.partition import PartitionState
from agents.timing import LOOK_S, RENEW_S

STALL_S = 20.0  #: without a record; a fetch takes a quarter of a second


class StallDetector:
    """Watches one consumer's partitions. Consumer's thread only."""

    def __init__(self) -> None:
        self._check_at = 0.0
        #: partition, records fetched, since when that is unchanged, and how long it may be
        self._seen: dict[int, tuple[PartitionState, int, float, float]] = {}

    def stalled(
        self, partitions: Collection[PartitionState], paused: Collection[int], now: float
    ) -> list[PartitionState]:
        """Returns partitions without records for STALL_S; longer for those that were reported before. `now`: monotonic
        seconds."""
        if now < self._check_at:
            return []
        self._check_at = now + LOOK_S
        before, self._seen = self._seen, {}
        stalled = []
        for partition in partitions:
            seen = before.get(partition.number)
            waits = partition.log_end_offset > partition.tracker.fetched and not partition.failure
            if (
                not waits
                or partition.number in paused
                or seen is None
                or seen[:2] != (partition, partition.fetched_count)
            ):
                seen = (partition, partition.fetched_count, now, STALL_S)
            elif now - seen[2] > seen[3]:
                stalled.append(partition)
                seen = (partition, partition.fetched_count, now, min(2 * seen[3], RENEW_S))
            self._seen[partition.number] = seen
        return stalled
