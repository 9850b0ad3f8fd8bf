"""Remembers what a process settled in partitions that it lost, committed or not. Pure.

    lost:        committed 100 (acknowledged), settled up to 140, and 143        Kafka did not answer the later commits
    comes back:  found 100 to 140  -> continue at 140, skip 143                  nothing is delivered twice
                 found 160         -> continue at 160                            another owner has been further
                 found 80          -> continue at 80                             an operator reset the group's offset
    goes to another worker: `agents/offsets/hand_over`

A settled event stays settled whichever worker owns the partition. So this knowledge never expires; it is only replaced.
"""

from __future__ import annotations

from collections.abc import Collection

from agents.offsets.offset_metadata import OffsetMetadata, read
from agents.offsets.offset_tracker import OffsetTracker
from agents.offsets.partition import PartitionState


def resumed(committed: int, metadata: OffsetMetadata, kept: OffsetTracker, acknowledged: int) -> OffsetTracker:
    """Returns the tracker to continue with: merges the `committed` offset, its `metadata`, and the `kept` tracker.

    `acknowledged`: our last commit that Kafka confirmed. A `committed` below it was set by an operator, and counts.
    """
    if committed < acknowledged:
        return OffsetTracker(committed, metadata)
    # Settled by any owner is settled, so the sets are united. Of attempts the higher count is the later one, and its
    # time counts; of equal counts the later time.
    start = max(committed, kept.committable)
    settled = frozenset(offset for offset in metadata.settled | kept.settled if offset >= start)
    attempts: dict[int, int] = {}
    due: dict[int, float] = {}
    for offset in metadata.attempts.keys() | kept.attempts.keys():
        if offset < start or offset in settled:
            continue
        sides: tuple[OffsetMetadata | OffsetTracker, ...] = (kept, metadata)
        attempts[offset] = made = max(side.attempts.get(offset, 0) for side in sides)
        times = [side.due[offset] for side in sides if side.attempts.get(offset) == made and offset in side.due]
        if times:
            due[offset] = max(times)
    merged = OffsetMetadata(settled, attempts, due)
    tracker = OffsetTracker(start, merged)
    if (start, merged) != (committed, metadata):
        tracker.changes += 1  # more than Kafka has: to be committed
    return tracker


def handed_over(lost: PartitionState, committed: int, metadata: str | None) -> OffsetTracker | None:
    """Returns what to commit for the next owner of a lost partition. None: another worker has committed since."""
    if committed not in (lost.acknowledged, lost.requested):  # our last confirmed or requested commit
        return None
    return resumed(committed, read(committed, metadata), lost.tracker, lost.acknowledged)


class LostPartitions:
    """Partitions of a subscription that this process has lost."""

    def __init__(self) -> None:
        self._kept: dict[int, PartitionState] = {}

    def keep(self, partitions: Collection[PartitionState]) -> None:
        """Keep partitions that were lost, or whose last commit failed. They no longer change."""
        self._kept.update((partition.number, partition) for partition in partitions)

    def opened(self, topic: str, number: int, start: int, metadata: str | None) -> PartitionState:
        """Opens an assigned partition, of which `start` and `metadata` are committed; consumes what was kept of it."""
        decoded, kept = read(start, metadata), self._kept.pop(number, None)
        tracker = (
            OffsetTracker(start, decoded) if kept is None else resumed(start, decoded, kept.tracker, kept.acknowledged)
        )
        partition = PartitionState(topic, number, tracker)
        partition.acknowledged = partition.requested = start
        return partition
