"""Delivery statistics of a subscription over all workers, merged from their status records.

A record may have no statistics (an older worker's, or one that would have been too large). Its values are missing in
the sums.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

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
    throttled: tuple[str, ...]  #: workers in which its attempts wait, see `SubscriptionStats`
    as_of: float | None  #: time of the oldest record that this is made of


def details(
    subscription: Subscription,
    status: SubscriberStatus,
    workers: Iterable[WorkerStatus],
    now: float,
    fresh_s: float,
) -> SubscriberDetails:
    """Returns the details of a subscription, from all fresh records together."""
    uid = subscription.uid
    fresh = sorted(
        (worker for worker in workers if uid in worker.subscriptions and now - worker.time <= fresh_s),
        key=lambda worker: worker.worker,
    )
    reported = [(worker.worker, worker.stats.get(uid, _NOTHING)) for worker in fresh]
    heads = sorted(
        ((worker, head) for worker, stats in reported for head in stats.heads),
        key=lambda pair: (-pair[1].attempts, pair[1].partition, pair[1].offset),
    )
    errors = [(worker, stats.last_error) for worker, stats in reported if stats.last_error is not None]
    return SubscriberDetails(
        status=status,
        subscription=subscription,
        owners=tuple((w.worker, w.subscriptions[uid].partitions) for w in fresh if w.subscriptions[uid].partitions),
        in_flight=sum(stats.in_flight for _, stats in reported),
        retrying=sum(stats.retrying for _, stats in reported),
        lag=sum(stats.lag for _, stats in reported),
        lag_s=_lag_s([stats for _, stats in reported], now),
        delivered_per_s=sum(stats.delivered_per_s for _, stats in reported),
        heads=tuple(heads[:FAILING_MAX]),
        next_attempt=min((head.next_attempt for _, head in heads if head.next_attempt), default=None),
        last_error=max(errors, key=lambda pair: pair[1].time, default=None),
        throttled=tuple(worker for worker, stats in reported if stats.throttled),
        as_of=min((worker.time for worker in fresh), default=None),
    )


def _lag_s(stats: list[SubscriptionStats], now: float) -> float | None:
    oldest = min((stat.oldest for stat in stats if stat.oldest), default=None)
    if oldest is not None:
        return max(0.0, now - oldest)
    # With lag, but without an event in memory, the age is not known.
    return None if any(stat.lag for stat in stats) else 0.0
