"""The outcome of one delivery attempt, and how a delivery was settled."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum

from knative.delivery.verdicts import SendProblem, Verdict


class Settled(StrEnum):
    """How a delivery was settled. The values are texts of the metrics, the logs and the spans."""

    DELIVERED = "delivered"
    DEAD_LETTERED = "dead-lettered"  #: the dead letter sink or the DLQ topic has acknowledged it
    IGNORED = "ignored"  #: failed permanently, and the subscription has no dead letters
    FILTERED = "filtered"  #: the subscription does not want it; no attempt was made


class Recipient(Enum):
    """Whom a request of a delivery goes to."""

    SUBSCRIBER = "the subscriber"
    REPLY = "the destination of the subscription's replies"
    DEAD_LETTER_SINK = "the dead letter sink"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one attempt came to."""

    verdict: Verdict
    destination: str  #: the URL that was asked, as it is shown
    attempts: int  #: made for this event so far, this one included
    at: float  #: Unix seconds
    seconds: float  #: what it took
    status: int = 0  #: of the answer; 0 = there was none
    problem: SendProblem | None = None  #: why there was no answer
    recipient: Recipient = Recipient.SUBSCRIBER


@dataclass(frozen=True, slots=True)
class Settlement:
    """How a delivery was settled, with what is known of it."""

    settled: Settled
    outcome: Outcome | None = None  #: of the last attempt; None = none was made
    to: str = ""  #: the URL or the topic that has the dead letter
    reason: str = ""  #: why no attempt was made
