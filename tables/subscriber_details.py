"""Delivery statistics of a subscription over all workers: the rows in their status records, and the merged details.

    SubscriptionStats --to_row--> status record --from_row--> SubscriptionStats of each worker
                                                                      | details
                                                                      v
                                                              one SubscriberDetails

A record may have no rows (an older worker's, or one that would have been too large). Its values are missing in the
sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from knative.contract.records import SubscriberStatus, Subscription, WorkerStatus
from knative.contract.subscription_stats import FAILING_MAX, FailingDelivery, LastError, SubscriptionStats

_NOTHING = SubscriptionStats()


@dataclass(frozen=True, slots=True)
class SubscriberDetails:
    """One subscription over all workers. Times are Unix seconds; None = not known."""

    status: SubscriberStatus
    subscription: Subscription
    owners: tuple[tuple[str, tuple[int, ...]], ...]  #: (worker, its partitions)
    in_flight: int
    retrying: int
    lag: int  #: events
    lag_s: float | None  #: age of the oldest unsettled event in a worker's memory; 0 without lag
    delivered_per_s: float
    heads: tuple[tuple[str, FailingDelivery], ...]  #: (worker, head), most attempts first
    next_attempt: float | None  #: the earliest of the waiting deliveries
    last_error: tuple[str, LastError] | None  #: (worker, its latest failed attempt)
    throttled: tuple[str, ...]  #: workers in which its attempts wait, see `Progress`
    as_of: float | None  #: time of the oldest record that this is made of


def to_row(stats: SubscriptionStats) -> dict[str, Any] | None:
    """Statistics as JSON, without fields that have their default; None if all have."""
    row: dict[str, Any] = {
        field.name: getattr(stats, field.name)
        for field in fields(SubscriptionStats)
        if getattr(stats, field.name) != getattr(_NOTHING, field.name)
    }
    if stats.heads:
        row["heads"] = [
            [head.partition, head.offset, head.attempts, head.next_attempt, head.event_id] for head in stats.heads
        ]
    return row or None


def from_row(row: Mapping[str, Any]) -> SubscriptionStats:
    """Statistics from JSON. Unknown fields are ignored: a newer version may have added them.

    Raises ValueError, KeyError or TypeError if the row is not valid.
    """
    error = row.get("last_error")
    return SubscriptionStats(
        in_flight=int(row.get("in_flight", 0)),
        retrying=int(row.get("retrying", 0)),
        lag=int(row.get("lag", 0)),
        oldest=float(row.get("oldest", 0.0)),
        delivered_per_s=float(row.get("delivered_per_s", 0.0)),
        heads=tuple(_head(*one) for one in row.get("heads", ())),
        last_error=None if error is None else _last_error(error),
        throttled=bool(row.get("throttled", False)),
    )


def _head(
    partition: int, offset: int, attempts: int, next_attempt: float, event_id: str, *_newer: object
) -> FailingDelivery:
    return FailingDelivery(int(partition), int(offset), int(attempts), float(next_attempt), str(event_id))


def _last_error(row: Mapping[str, Any]) -> LastError:
    return LastError(
        float(row["time"]),
        int(row["code"]),
        str(row["reason"]),
        str(row.get("answer", "")),
        str(row.get("destination", "")),
        int(row.get("partition", 0)),
        int(row.get("offset", 0)),
    )


def details(
    subscription: Subscription,
    status: SubscriberStatus,
    workers: Iterable[WorkerStatus],
    now: float,
    fresh_s: float,
) -> SubscriberDetails:
    """The details of a subscription, from all fresh records together."""
    uid = subscription.uid
    fresh = sorted(
        (w for w in workers if uid in w.subscriptions and now - w.time <= fresh_s), key=lambda one: one.worker
    )
    reported = [(worker.worker, worker.stats.get(uid, _NOTHING)) for worker in fresh]
    heads = sorted(
        ((worker, head) for worker, one in reported for head in one.heads),
        key=lambda pair: (-pair[1].attempts, pair[1].partition, pair[1].offset),
    )
    errors = [(worker, one.last_error) for worker, one in reported if one.last_error is not None]
    return SubscriberDetails(
        status=status,
        subscription=subscription,
        owners=tuple((w.worker, w.subscriptions[uid].partitions) for w in fresh if w.subscriptions[uid].partitions),
        in_flight=sum(one.in_flight for _, one in reported),
        retrying=sum(one.retrying for _, one in reported),
        lag=sum(one.lag for _, one in reported),
        lag_s=_lag_s([one for _, one in reported], now),
        delivered_per_s=sum(one.delivered_per_s for _, one in reported),
        heads=tuple(heads[:FAILING_MAX]),
        next_attempt=min((head.next_attempt for _, head in heads if head.next_attempt), default=None),
        last_error=max(errors, key=lambda pair: pair[1].time, default=None),
        throttled=tuple(worker for worker, one in reported if one.throttled),
        as_of=min((worker.time for worker in fresh), default=None),
    )


def _lag_s(stats: list[SubscriptionStats], now: float) -> float | None:
    oldest = min((one.oldest for one in stats if one.oldest), default=None)
    if oldest is not None:
        return max(0.0, now - oldest)
    # With lag, but without an event in memory, the age is not known.
    return None if any(one.lag for one in stats) else 0.0
