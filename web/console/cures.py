"""What a person can do about a condition, by its reason. The message of the condition says what is wrong. Pure."""

from __future__ import annotations

from knative.contract.broker_secrets import INVALID, NOT_FOUND
from knative.resources.conditions import Condition, ConditionStatus
from tables.status_table import (
    FILTER_LIMIT_EXCEEDED,
    SUBSCRIBER_FAILED,
    SUBSCRIBER_NEEDS_NEWER_WORKER,
    SUBSCRIBER_NOT_SERVED,
    SUBSCRIBER_STOPPED,
    SUBSCRIBER_WAITS_FOR_KAFKA,
)

_CURES = {
    SUBSCRIBER_NOT_SERVED: "Start a worker of role all or dispatcher. If a worker has just started or stopped, wait: "
    "workers take over its partitions within half a minute.",
    SUBSCRIBER_FAILED: "Look at the log of the worker that the message names; `penstock doctor` checks Kafka and its "
    "topics.",
    SUBSCRIBER_WAITS_FOR_KAFKA: "No event is lost. Check with `penstock doctor` whether Kafka answers.",
    SUBSCRIBER_NEEDS_NEWER_WORKER: "Update the worker that the message names.",
    SUBSCRIBER_STOPPED: "Wait until its offsets are moved; then it continues.",
    FILTER_LIMIT_EXCEEDED: "Simplify the filter, or try the event with it below.",
    NOT_FOUND: "Mount the Secret that the message names into the worker.",
    INVALID: "Correct the Secret that the message names; workers use it within seconds.",
}


def cure_of(condition: Condition) -> str | None:
    """Returns what to do; None if all is well, or if the message says it."""
    if condition.status is ConditionStatus.TRUE and not condition.reason:
        return None
    return _CURES.get(condition.reason)
