"""What the listeners of tests of the fan-out have in common: they take events, and settle them without a delivery."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from agents.offsets.partition import Batch, Delivery, PartitionState
from agents.reader.member import Member
from knative.filters import Matcher


class SettlingListener:
    """A Trigger for events of one type, or of all. See `MemberListener`."""

    def __init__(self, type_: str = "") -> None:
        self.type = type_
        self.at_once = sys.maxsize
        self.member: Member

    @property
    def matcher(self) -> Matcher | None:
        return (lambda attributes: attributes["type"] == self.type) if self.type else None

    def take(self, batches: list[Batch]) -> Iterator[Delivery]:
        """Take the batches of one `enqueue`; the events in them that were not settled before their partition moved."""
        for state, deliveries, end in batches:
            for delivery in deliveries if state.open else ():
                if state.tracker.add(delivery.offset):
                    yield delivery
            if state.open and end > state.tracker.fetched:
                state.tracker.skip_to(end)

    def opened(self, partitions: Sequence[PartitionState]) -> None: ...

    async def drain(self, partitions: Sequence[PartitionState], limit_s: float) -> None:
        for state in partitions:
            state.open = state.owned = False

    def dropped(self, partitions: Sequence[PartitionState]) -> None: ...

    def waiting_for_kafka(self, waiting: bool) -> None: ...

    def failing(self) -> None: ...


def settle(delivery: Delivery) -> None:
    """Settle it, unless its partition was revoked meanwhile."""
    partition = delivery.partition
    if partition.owned:
        partition.tracker.settle(delivery.offset)
        partition.released += 1
        partition.released_bytes += delivery.size
