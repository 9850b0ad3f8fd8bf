"""What a member takes of a range: all of its own deliveries, or a delivery of each record that passes its filter.

An event that does not pass the filter costs a call of the filter and nothing else: it is a gap in its log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from agents.offsets.partition import Delivery, PartitionState
from agents.reader.ranges import Range, Record
from knative.filters import Matcher
from knative.ports import Headers


def select(
    range_: Range,
    state: PartitionState,
    position: int,
    matcher: Matcher | None,
    filtered: Callable[[Headers], None] | None,
) -> tuple[list[Delivery], int]:
    """Returns the deliveries from `position` on, and their size in bytes. `filtered` gets what does not pass. The range
    covers the position, and belongs to `state` alone or to everybody."""
    if range_.owner is not None:
        own = cast("list[Delivery]", range_.records)
        if position == range_.start:
            return own, range_.size
        own = [delivery for delivery in own if delivery.offset >= position]
        return own, sum(delivery.size for delivery in own)
    attempts = state.tracker.attempts
    deliveries: list[Delivery] = []
    size = 0
    for record in cast("list[Record]", range_.records):
        offset = record.offset
        if offset < position:
            continue
        # What is not a CloudEvent passes, and becomes a dead letter. What was attempted before the filter changed goes
        # through the scheduler, which forgets the attempts.
        if matcher is None or (attributes := record.attributes) is None or matcher(attributes):
            judged = matcher
        elif offset in attempts:
            judged = None
        else:
            if filtered is not None:
                filtered(record.headers)
            continue
        size += record.size
        key, value, headers = record.key, record.value, record.headers
        deliveries.append(Delivery(state, offset, key, value, headers, record.size, record.timestamp_ms, judged))
    return deliveries, size
