"""Partitions that give nothing although there is more in the log: the client has lost track of them. Pure.

Nothing else would notice: their consumer polls, its group is content, and the events wait for the next rebalance. A
partition that we have paused or stopped ourselves is no such case. The end of a log may also be markers of
transactions, which are no records: so each time that nothing comes of it, twice as long is waited. Refuses to mend it:
the feed assigns it anew.
"""

from __future__ import annotations

from collections.abc import Collection

from agents.ordering.partition import PartitionState

STALL_S = 20.0  #: of nothing; a fetch takes a quarter of a second
LONGEST_S = 3600.0
_LOOK_S = 1.0


class StallDetector:
    """One consumer's partitions; used by its thread only."""

    def __init__(self) -> None:
        self._look_at = 0.0
        #: records taken, since when there are no more, and how long that may be so
        self._seen: dict[int, tuple[PartitionState, int, float, float]] = {}

    def stalled(
        self, partitions: Collection[PartitionState], paused: Collection[int], now: float
    ) -> list[PartitionState]:
        """Those that have given nothing for STALL_S, or longer when they were named before. `now`: monotonic
        seconds."""
        if now < self._look_at:
            return []
        self._look_at = now + _LOOK_S
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
                seen = (partition, partition.fetched_count, now, min(2 * seen[3], LONGEST_S))
            self._seen[partition.number] = seen
        return stalled
