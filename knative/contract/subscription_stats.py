"""Delivery statistics of one subscription in one process: gauges and the last error.

`SubscriptionSnapshot` is for the metrics of the process. `SubscriptionStats` is the small, bounded part that a worker
publishes, so that every process can show the whole system. `agents/dispatch/view` computes the values.
"""

from __future__ import annotations

from dataclasses import dataclass

FAILING_MAX = 10  #: failing deliveries that a worker reports for one subscription


@dataclass(frozen=True, slots=True)
class SubscriptionSnapshot:
    """One subscription in one process, now. Commits and rebalances are counted since it started in this process."""

    subscription: str  #: `namespace/name`
    partitions: int = 0  #: owned
    in_flight: int = 0  #: requests under way
    retrying: int = 0  #: events whose attempts have failed so far
    lag: int = 0  #: unsettled events of the owned partitions whose log end offset is known
    oldest: float = 0.0  #: Unix time at which the oldest unsettled event in memory was stored; 0 = none
    lanes: int = 0  #: lanes that hold an event
    buffered_bytes: int = 0  #: records in memory
    commits: int = 0
    commits_failed: int = 0
    rebalances: tuple[tuple[str, int], ...] = ()  #: (assigned | revoked | lost, how often)
    waiting_for_kafka: bool = False  #: no new deliveries are started, because Kafka does not confirm commits
    throttled: bool = False  #: attempts wait, because many have failed and the event loop is busy


@dataclass(frozen=True, slots=True)
class FailingDelivery:
    """An event whose attempts have failed so far. Its lane waits for it."""

    partition: int
    offset: int
    attempts: int  #: made
    next_attempt: float = 0.0  #: Unix time; 0 = under way, or about to start
    event_id: str = ""


@dataclass(frozen=True, slots=True)
class LastError:
    """The latest attempt that failed."""

    time: float  #: Unix seconds
    code: int  #: HTTP status; 500 for a transport error
    reason: str
    answer: str = ""  #: the start of the answer's body
    destination: str = ""
    partition: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class SubscriptionStats:
    """What a worker publishes about one subscription, besides the partitions that it owns."""

    in_flight: int = 0
    retrying: int = 0
    lag: int = 0
    oldest: float = 0.0  #: as in `SubscriptionSnapshot`
    delivered_per_s: float = 0.0  #: over the last minute
    heads: tuple[FailingDelivery, ...] = ()  #: those with the most attempts, at most FAILING_MAX
    last_error: LastError | None = None
    throttled: bool = False  #: as in `SubscriptionSnapshot`
    committed: tuple[tuple[int, int], ...] = ()  #: (partition, offset) that Kafka has confirmed, in a fan-out
    offsets_of: str = ""  #: of the subscription, for `committed`
