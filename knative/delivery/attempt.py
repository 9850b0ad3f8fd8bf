"""The outcome of one delivery attempt, and how a delivery was settled."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from knative.delivery.verdicts import Verdict


class Settled(StrEnum):
    """How a delivery was settled. The values are texts of the metrics, the logs and the spans."""

    DELIVERED = "delivered"
    DEAD_LETTERED = "dead-lettered"  #: the dead letter sink or the DLQ topic has acknowledged it
    IGNORED = "ignored"  #: failed for good, and the subscription has no dead letters
    FILTERED = "filtered"  #: the subscription does not want it; no attempt was made


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one attempt came to."""

    verdict: Verdict
    destination: str  #: the URL that was asked
    attempts: int  #: made for this event so far, this one included
    at: float  #: Unix seconds
    seconds: float  #: what it took
    status: int = 0  #: of the answer; 0 = there was none
