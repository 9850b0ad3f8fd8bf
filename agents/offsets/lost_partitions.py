"""Remembers what a process settled in partitions that it lost, committed or not. Pure.

    lost:        committed 100 (acknowledged), settled up to 140, and 143        Kafka did not answer the later commits
    comes back:  found 100 to 140  -> continue at 140, skip 143                  nothing is delivered twice
                 found 160         -> continue at 160                            another owner has been further
                 found 80          -> continue at 80                             an operator reset the group's offset
    goes to another worker: commit 140 for it, if the committed offset is still the one that this process left

A settled event stays settled whichever worker owns the partition. So this knowledge never expires; it is only replaced.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from agents.offsets.offset_metadata import OffsetMetadata, read
from agents.offsets.offset_tracker import OffsetTracker
from agents.offsets.partition import PartitionState


def resumed(found: int, known: OffsetMetadata, kept: OffsetTracker, acknowledged: int) -> OffsetTracker:
    """The tracker to continue with: merges the committed offset `found`, its metadata `known`, and the `kept` tracker.

    `acknowledged`: our last commit that Kafka confirmed. A `found` below it was set by an operator, and is respected.
    """
    if found < acknowledged:
        return OffsetTracker(found, known)
    # Settled by any owner is settled, so the sets are united. Of attempts the higher count is the later one, and its
    # time counts; of equal counts the later time.
    start = max(found, kept.committable)
    settled = frozenset(offset for offset in known.settled | kept.settled if offset >= start)
    attempts: dict[int, int] = {}
    due: dict[int, float] = {}
    for offset in known.attempts.keys() | kept.attempts.keys():
        if offset < start or offset in settled:
            continue
        sides: tuple[OffsetMetadata | OffsetTracker, ...] = (kept, known)
        attempts[offset] = made = max(one.attempts.get(offset, 0) for one in sides)
        times = [one.due[offset] for one in sides if one.attempts.get(offset) == made and offset in one.due]
        if times:
            due[offset] = max(times)
    merged = OffsetMetadata(settled, attempts, due)
    tracker = OffsetTracker(start, merged)
    if (start, merged) != (found, known):
        tracker.changes += 1  # more than Kafka has: to be committed
    return tracker


def handed_over(lost: PartitionState, committed: int, metadata: str | None) -> OffsetTracker | None:
    """What to commit for the next owner of a lost partition. None: another worker has committed since."""
    if committed not in (lost.acknowledged, lost.requested):  # our last confirmed or requested commit
        return None
    return resumed(committed, read(committed, metadata), lost.tracker, lost.acknowledged)


class LostPartitions:
    """Partitions that one consumer has lost. Consumer's thread only."""

    def __init__(self) -> None:
        self._kept: dict[int, PartitionState] = {}
        self._lately: set[int] = set()
        self.joining = False  #: there may be something to hand over
        self._uncommitted: list[PartitionState] = []

    def keep(self, partitions: Collection[PartitionState], *, hand_over: bool = False) -> None:
        """Keep partitions that were lost, or whose last commit failed. They no longer change. `hand_over`: commit what
        is known of them for their next owner. Only if Kafka was silent for all: if just this process was cut off or
        frozen, others have gone on, and know more than it does."""
        self._kept.update((partition.number, partition) for partition in partitions)
        self._lately.update(partition.number for partition in partitions)
        if hand_over and partitions:
            self.joining = True
            self._uncommitted += [one for one in partitions if one.tracker.changes != one.committed]

    def knows(self, number: int) -> bool:
        """True for a partition that was lost so lately that no other worker knows more of it."""
        return number in self._lately

    def rest(self) -> None:
        """From now on, others may know more of what was lost so far."""
        self._lately.clear()

    def opened(self, topic: str, number: int, start: int, metadata: str | None) -> PartitionState:
        """An assigned partition, of which `start` and `metadata` are committed; consumes what was kept of it."""
        known, kept = read(start, metadata), self._kept.pop(number, None)
        self._lately.discard(number)
        self._uncommitted = [partition for partition in self._uncommitted if partition.number != number]
        tracker = (
            OffsetTracker(start, known) if kept is None else resumed(start, known, kept.tracker, kept.acknowledged)
        )
        partition = PartitionState(topic, number, tracker)
        partition.acknowledged = partition.requested = start
        return partition

    def joined(self, assigned: Iterable[int]) -> list[PartitionState]:
        """After an assignment: the lost partitions with uncommitted changes that went to others. They stay until they
        were `handed_over`."""
        mine = set(assigned)
        elsewhere = {partition.number: partition for partition in self._uncommitted if partition.number not in mine}
        self._uncommitted = list(elsewhere.values())
        return self._uncommitted

    def handed_over(self) -> None:
        """What `joined` has returned is committed, or others have committed since."""
        self._uncommitted, self.joining = [], False
