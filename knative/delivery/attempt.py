"""The outcome of one delivery attempt."""

from __future__ import annotations

from dataclasses import dataclass

from knative.delivery.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one attempt came to."""

    verdict: Verdict
    destination: str  #: the URL that was asked
    attempts: int  #: made for this event so far, this one included
    at: float  #: Unix seconds
    seconds: float  #: what it took
    status: int = 0  #: of the answer; 0 = there was none
