"""What a process still knows of partitions that it lost: everything it settled, committed or not. Pure.

    lost:        committed 100 (acknowledged), settled up to 140, and 143        Kafka did not answer the later commits
    comes back:  found 100 to 140  -> go on at 140, skip 143                     nothing is delivered twice
                 found 160         -> go on at 160                               another owner was faster
                 found 80          -> go on at 80                                somebody moved the group back by hand
    goes to another worker: commit 140 for it, while the position in Kafka is still the one we left there

A settled event stays settled whoever owns the partition, so this knowledge never expires; it is only superseded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from agents.ordering.offset_metadata import NO_METADATA, OffsetMetadata
from agents.ordering.offset_tracker import OffsetTracker
from agents.ordering.partition import PartitionState


def resumed(found: int, known: OffsetMetadata, kept: OffsetTracker, acknowledged: int) -> OffsetTracker:
    """Where to go on, from the committed offset `found`, what its metadata says, and what is `kept` from before.

    `acknowledged`: the last offset of ours that Kafka confirmed. A `found` below it was set by hand, and is obeyed.
    """
    if found < acknowledged:
        return OffsetTracker(found, known)
    start = max(found, kept.committable)
    settled = frozenset(offset for offset in known.settled | kept.settled if offset >= start)
    attempts = dict(known.attempts)
    for offset, made in kept.attempts.items():
        attempts[offset] = max(made, attempts.get(offset, 0))
    open_ = {offset for offset in attempts if offset >= start and offset not in settled}
    due = {**known.due, **kept.due}
    merged = OffsetMetadata(
        settled,
        {offset: made for offset, made in attempts.items() if offset in open_},
        {offset: time for offset, time in due.items() if offset in open_},
    )
    tracker = OffsetTracker(start, merged)
    if (start, merged) != (found, known):
        tracker.changes += 1  # Kafka does not know it yet
    return tracker


class RetainedOffsets:
    """The partitions that one consumer owned until it lost them. Consumer's thread only."""

    def __init__(self) -> None:
        self._kept: dict[int, PartitionState] = {}
        self.joining = False  #: Kafka was silent until partitions were lost, and none has been assigned since
        self._uncommitted: list[PartitionState] = []

    def keep(self, partitions: Collection[PartitionState], *, hand_over: bool = False) -> None:
        """These were lost, or their last commit failed; nothing of them changes any more. `hand_over`: whoever has them
        next begins when this process can tell what it knows."""
        self._kept.update((partition.number, partition) for partition in partitions)
        if hand_over and partitions:
            self.joining = True
            self._uncommitted += [one for one in partitions if one.tracker.changes != one.committed]

    def knows(self, number: int) -> bool:
        """True for a partition that this process owned and lost."""
        return number in self._kept

    def tracker(self, number: int, found: int, known: OffsetMetadata = NO_METADATA) -> OffsetTracker:
        """Where an assigned partition goes on; what was kept of it is used up."""
        kept = self._kept.pop(number, None)
        if kept is None:
            return OffsetTracker(found, known)
        return resumed(found, known, kept.tracker, kept.acknowledged)

    def joined(self, assigned: Iterable[int]) -> list[PartitionState]:
        """The first assignment after a loss: the partitions that went to others with something uncommitted."""
        mine = set(assigned)
        unsaid = {partition.number: partition for partition in self._uncommitted if partition.number not in mine}
        self._uncommitted, self.joining = [], False
        return list(unsaid.values())
