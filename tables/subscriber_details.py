"""How far the whole system is with a subscription: what each worker tells, as rows of its status record, and merged.

    Progress --to_row--> status record --from_row--> Progress of each worker --details--> one SubscriberDetails

A record without rows (an older worker's, or one that would have been too large) is as good as any: what it does not
tell is missing from the sums. Refuses to read a clock and to decide what is ready.
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
    """One subscription over all workers. Times are Unix seconds; None = nothing of the kind is known."""

    status: SubscriberStatus
    subscription: Subscription
    owners: tuple[tuple[str, tuple[int, ...]], ...]  #: (worker, its partitions)
    in_flight: int
    retrying: int
    lag: int  #: events
    lag_s: float | None  #: age of the oldest unsettled event in a worker's memory; 0 without lag
    delivered_per_s: float
    heads: tuple[tuple[str, FailingDelivery], ...]  #: (worker, head), most attempts first
    next_attempt: float | None  #: the soonest of those that wait
    last_error: tuple[str, LastError] | None  #: (worker, its latest failed attempt)
    throttled: tuple[str, ...]  #: workers in which its attempts wait, see `Progress`
    as_of: float | None  #: the oldest of the records that this is made of


def to_row(stats: SubscriptionStats) -> dict[str, Any] | None:
    """For JSON; what is as at rest is left out, None = all is."""
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
    """Back from JSON; unknown names are a newer version's. Raises ValueError, KeyError or TypeError for junk."""
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
    """What fresh records say of a subscription together."""
    uid = subscription.uid
    fresh = sorted(
        (w for w in workers if uid in w.subscriptions and now - w.time <= fresh_s), key=lambda one: one.worker
    )
    told = [(worker.worker, worker.stats.get(uid, _NOTHING)) for worker in fresh]
    heads = sorted(
        ((worker, head) for worker, one in told for head in one.heads),
        key=lambda pair: (-pair[1].attempts, pair[1].partition, pair[1].offset),
    )
    errors = [(worker, one.last_error) for worker, one in told if one.last_error is not None]
    return SubscriberDetails(
        status=status,
        subscription=subscription,
        owners=tuple((w.worker, w.subscriptions[uid].partitions) for w in fresh if w.subscriptions[uid].partitions),
        in_flight=sum(one.in_flight for _, one in told),
        retrying=sum(one.retrying for _, one in told),
        lag=sum(one.lag for _, one in told),
        lag_s=_lag_s([one for _, one in told], now),
        delivered_per_s=sum(one.delivered_per_s for _, one in told),
        heads=tuple(heads[:FAILING_MAX]),
        next_attempt=min((head.next_attempt for _, head in heads if head.next_attempt), default=None),
        last_error=max(errors, key=lambda pair: pair[1].time, default=None),
        throttled=tuple(worker for worker, one in told if one.throttled),
        as_of=min((worker.time for worker in fresh), default=None),
    )


def _lag_s(told: list[SubscriptionStats], now: float) -> float | None:
    oldest = min((one.oldest for one in told if one.oldest), default=None)
    if oldest is not None:
        return max(0.0, now - oldest)
    return None if any(one.lag for one in told) else 0.0
