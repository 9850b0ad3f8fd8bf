"""`GET /subscribers/<namespace>/<channel>?wide` at the admin port: the JSON of a subscription's delivery statistics.

Times are RFC 3339 in UTC; null = not known. `tables/subscriber_details` merges the statistics of the workers.
"""

from __future__ import annotations

from typing import Any

from knative import timefmt
from knative.contract.subscription_stats import FailingDelivery, LastError
from tables.subscriber_details import SubscriberDetails


def to_wide_row(details: SubscriberDetails) -> dict[str, Any]:
    """Returns the fields that `?wide` adds to the row of a subscription."""
    subscription = details.subscription
    return {
        "namespace": subscription.namespace,
        "name": subscription.name,
        "group": subscription.group,
        "topic": subscription.topic,
        "order": subscription.order.value,
        "partitions": subscription.partitions,
        "owners": [{"worker": worker, "partitions": list(partitions)} for worker, partitions in details.owners],
        "inFlight": details.in_flight,
        "retrying": details.retrying,
        "throttled": list(details.throttled),
        "lagEvents": details.lag,
        "lagSeconds": None if details.lag_s is None else round(details.lag_s, 3),
        "deliveriesPerSecond": round(details.delivered_per_s, 3),
        "heads": [_head(worker, head) for worker, head in details.heads],
        "nextAttempt": _moment(details.next_attempt),
        "lastError": _error(*details.last_error) if details.last_error else None,
        "asOf": _moment(details.as_of),
    }


def _head(worker: str, head: FailingDelivery) -> dict[str, Any]:
    return {
        "partition": head.partition,
        "offset": head.offset,
        "id": head.event_id,
        "attempts": head.attempts,
        "nextAttempt": _moment(head.next_attempt or None),
        "worker": worker,
    }


def _error(worker: str, error: LastError) -> dict[str, Any]:
    return {
        "time": _moment(error.time),
        "code": error.code,
        "reason": error.reason,
        "answer": error.answer,
        "destination": error.destination,
        "partition": error.partition,
        "offset": error.offset,
        "worker": worker,
    }


def _moment(unix_s: float | None) -> str | None:
    return None if unix_s is None else timefmt.in_milliseconds(unix_s)
