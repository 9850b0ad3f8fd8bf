"""Computes the highest possible rate of a subscription from its events and its subscriber's time. Pure.

    ordered: one event of a partition at a time, so the partition with the most events is the last to end

      partition 0  ====o====o====o====o====o      5 x 10 ms: nothing can be quicker than this
      partition 1  ====o====o====o

Counts only the subscriber's own time; time above the ceiling belongs to the implementation.
"""

from __future__ import annotations

from collections.abc import Mapping


def added(before: Mapping[int, int], after: Mapping[int, int]) -> dict[int, int]:
    """Counts events of each partition between two looks at its end; a partition that was not seen before began at 0."""
    return {partition: end - before.get(partition, 0) for partition, end in after.items()}


def ordered_s(events: Mapping[int, int], service_s: float) -> float:
    """Returns the least seconds that an ordered subscription needs: those of its busiest partition."""
    return max(events.values(), default=0) * service_s


def share_of_ceiling(events: Mapping[int, int], service_s: float, seconds: float) -> float:
    """Returns how many percent of the greatest rate were reached. `seconds` > 0: from first request to last answer."""
    if seconds <= 0:
        raise ValueError(f"{seconds} s is not a valid duration")
    return 100 * ordered_s(events, service_s) / seconds
