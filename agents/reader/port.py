"""What the reader of a topic asks of its members."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from agents.offsets.partition import PartitionState
from agents.reader.ranges import Range


class MembersPort(Protocol):
    """What the reader needs of its members. On the event loop, except `quickest`."""

    async def open(self, numbers: Sequence[int]) -> dict[int, int]:
        """Open these partitions for all members. Returns the offset to read each from. Raises KafkaFailed."""

    async def drain(self, numbers: Sequence[int], limit_s: float) -> bool:
        """Drain these partitions of all members. Returns whether there is something to commit."""

    async def release(self, numbers: Sequence[int]) -> bool:
        """Commit them and give them up. Returns whether Kafka was silent, and some could not be committed."""

    async def lose(self, numbers: Sequence[int], limit_s: float) -> None:
        """Drain them; others may own them already."""

    def take(self, ranges: list[Range]) -> None:
        """Take what was read, in order."""

    def skip(self, number: int, low: int) -> None:
        """The log begins at `low`, beyond the reader's position."""

    def truncated(self, number: int, end: int) -> None:
        """The log ends at `end`, before the reader's position: the topic was created again or truncated."""

    def confirmed(self, at: float) -> None:
        """At this time, of `tables.clock.now_s`, it was a member of its group, and owned its partitions."""

    def quickest(self, number: int) -> PartitionState | None:
        """Returns what that member has of this partition which follows the reader and holds the least of it; None when
        all are behind. Any thread."""

    def lone(self, number: int) -> PartitionState | None:
        """Returns what the only member has of this partition; None with several, or if it has a filter. Any thread."""

    def ends(self, heads: Collection[PartitionState]) -> None:
        """The log end offsets of these partitions may have changed."""

    def fatal(self, problem: BaseException) -> None:
        """The thread cannot continue."""
