"""When assigned partitions may be opened of which other members may know more than Kafka: each has some seconds to
commit that (see `agents/consumer/rebalance`). Pure.

It belongs to the partition, not to the client that was assigned it: a client that replaces another one meanwhile waits
for the rest of that time.
"""

from __future__ import annotations

from collections.abc import Iterable

HANDOVER_S = 3.0  #: time for the others to rejoin and commit what they know; a heartbeat informs them within 1.2 s


class Handovers:
    """Of one consumer, over all its clients. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._until: dict[int, float] = {}

    def begin(self, numbers: Iterable[int], now: float) -> None:
        """These partitions were assigned, and others may know more of them."""
        self._until.update((number, now + HANDOVER_S) for number in numbers)

    def waiting(self, numbers: Iterable[int], now: float) -> dict[int, float]:
        """Those of these partitions that must not be opened yet -> when they may be."""
        self._until = {number: until for number, until in self._until.items() if until > now}
        return {number: self._until[number] for number in numbers if number in self._until}
