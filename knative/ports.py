"""What the data plane needs from outside, as small Protocols; `app/` hands the real ones in.

The pure modules and the hot paths name these instead of confluent-kafka, prometheus or the system clock, so that the
same code runs against the real thing and against a twin in a simulation. Refuses to hold any implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

#: Record headers as librdkafka takes and gives them: names are text, values bytes (or None).
Headers = Sequence[tuple[str, bytes | None]]


class ProduceProblem(Enum):
    """Why a record was not stored."""

    FULL = "full"  #: the client's queue is full; nothing was sent: 429 at ingress
    TOO_LARGE = "too large"  #: refused by the client or the broker for its size: 413
    UNAVAILABLE = "unavailable"  #: no broker, too few in-sync replicas, time-out, fatal client error: 503
    REFUSED = "refused"  #: the broker will not take it (authorisation, unknown topic): 503


@dataclass(frozen=True, slots=True)
class ProduceFailure:
    """One record that was not acknowledged (or not known to be)."""

    problem: ProduceProblem
    message: str


#: Called on the event loop exactly once for each record: None = stored with acks=all.
#: A refusal that is known at once (FULL, TOO_LARGE) is reported before `send` returns.
Stored = Callable[[ProduceFailure | None], None]


class Produce(Protocol):
    """Stores records in Kafka with acks=all, idempotently. Event loop only."""

    @property
    def connected(self) -> bool:
        """True while brokers answer; a field of /readyz, not a condition of it."""

    def send(
        self, topic: str, value: bytes | None, key: bytes | None, headers: Headers, done: Stored, partition: int = -1
    ) -> None:
        """Queue one record. Never raises for what the record or the broker is like: `done` tells."""


class Clock(Protocol):
    """Time, so that simulations can run faster than the clock on the wall."""

    def monotonic(self) -> float:
        """Seconds that never go back."""

    def time(self) -> float:
        """Unix time in seconds."""


class Observe(Protocol):
    """What is counted. Implementations only add numbers: they are called on the hot path."""

    def consumed(self, consumer: str, topic: str, partition: int, count: int) -> None:
        """`count` records were taken from Kafka by the client named `consumer` (may be called from its thread)."""

    def assigned(self, consumer: str, topic: str, partitions: Sequence[int]) -> None:
        """The client named `consumer` owns these partitions from now on."""

    def revoked(self, consumer: str, topic: str, partitions: Sequence[int]) -> None:
        """It owns them no longer."""

    def closed(self, consumer: str) -> None:
        """This client is gone for good."""

    def forget(self, subscription: str) -> None:
        """This subscription (`namespace/name`) was removed."""

    def produced(self, topic: str, partition: int, seconds: float) -> None:
        """One record was acknowledged by Kafka, `seconds` after it was sent."""

    def stored_again(self, topic: str, count: int) -> None:
        """So many acknowledged records may be in Kafka twice: the client had to send them under a new identity."""

    def request(self, code: int) -> None:
        """One ingress request was answered with this status."""

    def delivered(self, subscription: str, seconds: float, age_s: float) -> None:
        """One event was delivered by its first attempt: the attempt (answered 2xx) and the settling in one call.

        `subscription` is `namespace/name`; the attempt took `seconds`; the event was stored in Kafka `age_s` ago.
        """

    def attempt(self, subscription: str, status: int, seconds: float) -> None:
        """One other delivery attempt ended; status 0 = no answer."""

    def settled(self, subscription: str, verdict: str, age_s: float) -> None:
        """One other event was settled: delivered later, filtered, dead-lettered, ignored."""

    def expired(self, subscription: str, count: int) -> None:
        """Records that retention removed before this subscription read them. Where its position had been lost too it
        is all that the log no longer has: an upper bound."""

    def reply_dropped(self, subscription: str) -> None:
        """A subscriber answered with an event, and the subscription has no `reply`."""
