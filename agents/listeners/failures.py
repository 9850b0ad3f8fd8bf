"""Remembers failures of one subscription: the last error, and the deliveries that wait for their retry.

People can see from it why a subscription is slow. Nothing is decided by it: the attempts that count are in the offset
tracker.
"""

from __future__ import annotations

import heapq

from agents.listeners.base import DeliveryListener
from agents.offsets.partition import Delivery
from knative.cloudevents.kafka_binding import describe
from knative.contract.subscription_stats import FAILING_MAX, FailingDelivery, LastError
from knative.delivery.attempt import Outcome, Recipient, Settled, Settlement
from knative.delivery.verdicts import FinalFailure, RetryableFailure
from knative.errors import SHOWN_CHARS


class Failures(DeliveryListener):
    """Failures of one subscription. Event loop only; `retrying` may be read from any thread."""

    def __init__(self) -> None:
        self.last_error: LastError | None = None
        self.not_delivered = 0  #: events that were settled without a delivery
        self._failing: dict[Delivery, tuple[int, float]] = {}  # attempts made, Unix time of the next one (0 = now)

    @property
    def retrying(self) -> int:
        """Number of events whose attempts have all failed so far."""
        return len(self._failing)

    def inherited(self, delivery: Delivery, attempts: int, due: float) -> None:
        """See `DeliveryListener`, also for the next four."""
        self._failing[delivery] = (attempts, due)

    def failed(self, delivery: Delivery, outcome: Outcome, wait_s: float | None) -> None:
        if outcome.recipient is Recipient.DEAD_LETTER_SINK:
            return
        verdict = outcome.verdict
        if wait_s is not None:
            self._failing[delivery] = (outcome.attempts, outcome.at + wait_s)
        elif delivery in self._failing:
            self._failing[delivery] = (outcome.attempts, 0.0)
        if isinstance(verdict, RetryableFailure | FinalFailure):
            self.last_error = LastError(
                outcome.at,
                verdict.code,
                verdict.reason[:SHOWN_CHARS],
                verdict.body[: 4 * SHOWN_CHARS].decode("utf-8", "replace")[:SHOWN_CHARS],
                outcome.destination[:SHOWN_CHARS],
                delivery.partition.number,
                delivery.offset,
            )

    def trying(self, delivery: Delivery) -> None:
        attempts, _ = self._failing.get(delivery, (0, 0.0))
        if attempts:
            self._failing[delivery] = (attempts, 0.0)

    def settled(self, delivery: Delivery, settlement: Settlement, age_s: float, failed: int) -> None:
        self._failing.pop(delivery, None)
        if settlement.settled is not Settled.DELIVERED:
            self.not_delivered += 1

    def abandoned(self, delivery: Delivery) -> None:
        self._failing.pop(delivery, None)

    def failing(self, limit: int = FAILING_MAX) -> tuple[FailingDelivery, ...]:
        """Returns the deliveries with the most attempts, each with the time of its next one."""
        most = heapq.nlargest(limit, self._failing.items(), key=lambda item: item[1][0])
        return tuple(
            FailingDelivery(r.partition.number, r.offset, attempts, due, describe(r.headers).get("id", ""))
            for r, (attempts, due) in most
        )
