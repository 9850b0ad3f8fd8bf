"""What the data plane needs from outside, as small Protocols. `app/` supplies the implementations.

The pure modules and the hot paths use these instead of confluent-kafka, prometheus or the system clock, so that the
same code also runs against a fake in a simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

#: Record headers as librdkafka accepts and returns them: names are text, values are bytes or None.
Headers = Sequence[tuple[str, bytes | None]]


class ProduceProblem(Enum):
    """Why a record was not stored."""

    FULL = "full"  #: the client's queue is full and nothing was sent; ingress answers 429
    TOO_LARGE = "too large"  #: the client or the broker rejected its size; ingress answers 413
    UNAVAILABLE = "unavailable"  #: no broker, too few in-sync replicas, timeout, fatal client error; 503
    REFUSED = "refused"  #: the broker rejected it (authorization, unknown topic); 503


@dataclass(frozen=True, slots=True)
class ProduceFailure:
    """One record that Kafka did not acknowledge, as far as the client knows."""

    problem: ProduceProblem
    message: str


#: Called on the event loop exactly once for each record. None: stored with acks=all.
#: A failure that is known at once (FULL, TOO_LARGE) is reported before `send` returns.
Stored = Callable[[ProduceFailure | None], None]


class Produce(Protocol):
    """Stores records in Kafka with acks=all, idempotently. Event loop only."""

    @property
    def connected(self) -> bool:
        """Whether brokers answer. /readyz shows it, but does not depend on it."""

    def send(
        self, topic: str, value: bytes | None, key: bytes | None, headers: Headers, done: Stored, partition: int = -1
    ) -> None:
        """Queue one record. Never raises because of the record or the broker: `done` reports failures."""


class Clock(Protocol):
    """Time, so that simulations can run faster than real time."""

    def monotonic(self) -> float:
        """Returns seconds of a clock that never goes back."""

    def time(self) -> float:
        """Returns Unix time in seconds."""


class Observe(Protocol):
    """Metrics. Implementations may only add numbers, because they are called on the hot path."""

    def consumed(self, consumer: str, topic: str, partition: int, count: int) -> None:
        """The client named `consumer` fetched `count` records. May be called from the client's thread."""

    def assigned(self, consumer: str, topic: str, partitions: Sequence[int]) -> None:
        """The client named `consumer` owns these partitions from now on."""

    def revoked(self, consumer: str, topic: str, partitions: Sequence[int]) -> None:
        """The client no longer owns these partitions."""

    def closed(self, consumer: str) -> None:
        """This client is closed and will not come back."""

    def forget(self, subscription: str) -> None:
        """This subscription (`namespace/name`) was removed."""

    def produced(self, topic: str, partition: int, seconds: float) -> None:
        """Kafka acknowledged one record, `seconds` after it was sent."""

    def stored_again(self, topic: str, count: int) -> None:
        """`count` acknowledged records may be in Kafka twice: the client sent them again with a new producer id."""

    def request(self, code: int) -> None:
        """Ingress answered one request with this HTTP status."""

    def delivered(self, subscription: str, seconds: float, age_s: float) -> None:
        """One event was delivered by its first attempt: counts the attempt (2xx) and the settled event in one call.

        `subscription` is `namespace/name`; the attempt took `seconds`; the event was stored in Kafka `age_s` ago.
        """

    def attempt(self, subscription: str, status: int, seconds: float) -> None:
        """Any other delivery attempt ended. Status 0: no answer."""

    def settled(self, subscription: str, settled: str, age_s: float) -> None:
        """Any other event was settled. `settled`: how, a value of `Settled`."""

    def filtered(self, subscription: str) -> None:
        """One event was settled because it does not pass the subscription's filter."""

    def filter_exceeded(self, subscription: str) -> None:
        """The subscription's filter would need more than it may have for an event, which counts as filtered too."""

    def expired(self, subscription: str, count: int) -> None:
        """Retention removed `count` records before this subscription read them. If its committed offset was lost too,
        the count covers everything that the log no longer has: an upper bound."""

    def reply_stored(self, subscription: str) -> None:
        """The event in an answer was stored in the broker's topic."""

    def reply_dropped(self, subscription: str) -> None:
        """A subscriber answered with an event, and the subscription has no `reply`."""
