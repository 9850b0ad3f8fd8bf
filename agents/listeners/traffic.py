"""Counts settled deliveries by type and source of their events, for the traffic deltas."""

from __future__ import annotations

from agents.listeners.base import DeliveryListener
from agents.offsets.partition import Delivery
from knative.delivery.attempt import Settlement
from knative.ports import Headers
from knative.traffic.counters import TrafficCounter


class TrafficListener(DeliveryListener):
    """For one subscription, whose counter it closes."""

    def __init__(self, counter: TrafficCounter, replies: TrafficCounter | None = None) -> None:
        """`replies`: of the channel that replies are stored in."""
        self._counter = counter
        self._replies = replies
        self._count = counter.delivered

    def delivered(self, delivery: Delivery, url: str, status: int, seconds: float, age_s: float) -> None:
        """See `DeliveryListener`, also for the other methods."""
        earlier = delivery.partition.tracker.attempts  # by an earlier owner of the partition
        self._count(delivery.headers, delivery.value, age_s, earlier.get(delivery.offset, 0) if earlier else 0)

    def settled(self, delivery: Delivery, settlement: Settlement, age_s: float, failed: int) -> None:
        self._counter.settled(delivery.headers, delivery.value, settlement.settled, age_s, failed)

    def filtered(self, headers: Headers) -> None:
        self._counter.filtered(headers)

    def reply_stored(self, delivery: Delivery, headers: Headers, size: int) -> None:
        if self._replies is not None:
            self._replies.accepted(headers, size)

    def closed(self) -> None:
        self._counter.close()
        if self._replies is not None:
            self._replies.close()
