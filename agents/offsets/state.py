"""The states of a delivery, and which may follow which.

                     +----------------- retry -----------------+
                     v                                         |
    QUEUED <---> READY ---> IN_FLIGHT ---> BACKING_OFF --------+
      | filtered     |         |  |             |
      | out          |         |  +-------+     | retries used up
      v              |         v          v     v
    SETTLED          |      SETTLED <--- DEAD_LETTERING
                     v
                 ABANDONED <--- from any state but SETTLED: the partition went to another owner

A delivery carries its state, and only `Scheduler` changes it. The happy path does not look the table up; the simulation
of the scheduler checks every change against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class DeliveryState(Enum):
    """How far a delivery is. The values are sentences for people to read."""

    QUEUED = "waits behind an earlier event of its lane, or for the committable offset to move"
    READY = "may be started; waits for a slot"
    IN_FLIGHT = "holds a slot; a request to the subscriber or to the reply's destination is under way"
    BACKING_OFF = "its last attempt has ended without settling it; it holds its lane and no slot"
    DEAD_LETTERING = "has failed; it is on its way to the dead letter sink or the DLQ topic"
    SETTLED = "delivered, filtered out, dead-lettered or ignored; never delivered again"
    ABANDONED = "left unsettled to the next owner of its partition"


_S = DeliveryState

TRANSITIONS: Mapping[DeliveryState, frozenset[DeliveryState]] = {
    _S.QUEUED: frozenset({_S.READY, _S.SETTLED, _S.ABANDONED}),  # to SETTLED: filtered out
    # Back to QUEUED: its partition has too many started deliveries, or the subscription's order has changed.
    _S.READY: frozenset({_S.IN_FLIGHT, _S.QUEUED, _S.ABANDONED}),
    _S.IN_FLIGHT: frozenset({_S.SETTLED, _S.BACKING_OFF, _S.DEAD_LETTERING, _S.ABANDONED}),
    # To SETTLED: a retry releases its slot before its answer is evaluated.
    _S.BACKING_OFF: frozenset({_S.IN_FLIGHT, _S.DEAD_LETTERING, _S.SETTLED, _S.ABANDONED}),
    _S.DEAD_LETTERING: frozenset({_S.SETTLED, _S.ABANDONED}),
    _S.SETTLED: frozenset(),
    _S.ABANDONED: frozenset(),
}

#: Started and unsettled: these hold their lane, and count towards the partition's limit of started deliveries.
STARTED = frozenset({_S.IN_FLIGHT, _S.BACKING_OFF, _S.DEAD_LETTERING})
