"""Builds the headers of a dead letter: those of the event, why it failed, and where it came from. Pure.

`agents/dispatch/dead_letter_path` posts it to the sink or stores it in the DLQ topic.
"""

from __future__ import annotations

from collections.abc import Sequence

from agents.offsets.partition import Delivery
from knative import timefmt
from knative.cloudevents.kafka_binding import dead_letter_headers
from knative.contract.records import Subscription
from knative.delivery.attempt import Outcome
from knative.delivery.verdicts import FinalFailure, RetryableFailure

HeaderList = list[tuple[str, bytes | None]]


def plain_headers(
    delivery: Delivery,
    subscription: Subscription,
    attempts: int,
    first_failure: float,
    last_failure: float,
    reason: str,
) -> list[tuple[str, str]]:
    """Returns Penstock's own headers of a DLQ record, in addition to those of the event."""
    return [
        ("penstock-subscription-uid", subscription.uid),
        ("penstock-subscription", subscription.label),
        ("penstock-topic", delivery.partition.topic),
        ("penstock-partition", str(delivery.partition.number)),
        ("penstock-offset", str(delivery.offset)),
        ("penstock-attempts", str(attempts)),
        ("penstock-first-failure", timefmt.in_milliseconds(first_failure)),
        ("penstock-last-failure", timefmt.in_milliseconds(last_failure)),
        ("penstock-reason", reason),
    ]


def versions(
    delivery: Delivery, subscription: Subscription, outcome: Outcome, first_failure: float
) -> Sequence[HeaderList]:
    """Returns headers for the DLQ topic in three sizes, the largest first: the broker may reject a record as too large.

    The second is without `knativeerrordata`, the third also without Penstock's own headers. The event is never cut.
    """
    verdict = outcome.verdict
    assert isinstance(verdict, RetryableFailure | FinalFailure)
    plain = plain_headers(delivery, subscription, outcome.attempts, first_failure, outcome.at, verdict.reason)

    def headers(data: bytes, extra: Sequence[tuple[str, str]]) -> HeaderList:
        return dead_letter_headers(
            delivery.headers, destination=outcome.destination, code=verdict.code, data=data, plain=extra
        )

    return headers(verdict.body, plain), headers(b"", plain), headers(b"", ())


def unreadable_versions(delivery: Delivery, subscription: Subscription, reason: str, at: float) -> Sequence[HeaderList]:
    """Returns the same for what is not a valid CloudEvent: unchanged, with and without Penstock's own headers."""
    own = {name for name, _ in plain_headers(delivery, subscription, 0, at, at, reason)}
    kept = [(name, value) for name, value in delivery.headers if name not in own]
    plain = [(name, value.encode()) for name, value in plain_headers(delivery, subscription, 0, at, at, reason)]
    return [*kept, *plain], kept
