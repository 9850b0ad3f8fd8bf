"""Passes what happens to deliveries on to the metrics, under the label of their subscription."""

from __future__ import annotations

from agents.listeners.base import DeliveryListener
from agents.offsets.partition import Delivery
from knative.delivery.attempt import Outcome, Recipient, Settlement
from knative.ports import Headers, Observe


class MetricsListener(DeliveryListener):
    """For one subscription (its label). Metrics count attempts at the subscriber, not those at reply or sink."""

    def __init__(self, observe: Observe, subscription: str) -> None:
        self._observe = observe
        self._observe_delivered = observe.delivered
        self._subscription = subscription

    def delivered(self, delivery: Delivery, url: str, status: int, seconds: float, age_s: float) -> None:
        """See `DeliveryListener`, also for the other methods."""
        self._observe_delivered(self._subscription, seconds, age_s)

    def attempt(self, delivery: Delivery, outcome: Outcome) -> None:
        if outcome.recipient is Recipient.SUBSCRIBER:
            self._observe.attempt(self._subscription, outcome.status, outcome.seconds)

    def filtered(self, headers: Headers) -> None:
        self._observe.filtered(self._subscription)

    def filter_exceeded(self, why: str) -> None:
        self._observe.filter_exceeded(self._subscription)

    def reply_stored(self, delivery: Delivery, headers: Headers, size: int) -> None:
        self._observe.reply_stored(self._subscription)

    def reply_dropped(self, delivery: Delivery) -> None:
        self._observe.reply_dropped(self._subscription)

    def settled(self, delivery: Delivery, settlement: Settlement, age_s: float, failed: int) -> None:
        self._observe.settled(self._subscription, settlement.settled, age_s)
