"""Makes a span of each started delivery and of each of its requests, and sends the request's trace context along.

A delivery has one open span until it is settled or abandoned, and at most one open attempt in it. `knative/tracing`
describes the spans; `app/observability/tracing` makes and exports them. Without tracing this listener does not exist.
"""

from __future__ import annotations

from agents.listeners.base import DeliveryListener
from agents.offsets.partition import Delivery
from knative.delivery.attempt import Outcome, Settled, Settlement
from knative.delivery.verdicts import SendProblem
from knative.ports import Headers
from knative.tracing import ABANDONED, AttemptSpan, ProcessSpan, Trace, TracedSubscription


class TracingListener(DeliveryListener):
    """For one subscription."""

    def __init__(self, trace: Trace, subscription: TracedSubscription) -> None:
        self._trace = trace
        self._subscription = subscription
        self._open: dict[Delivery, ProcessSpan] = {}
        self._attempts: dict[Delivery, AttemptSpan] = {}

    def __len__(self) -> int:
        return len(self._open) + len(self._attempts)

    def started(self, delivery: Delivery) -> None:
        """See `DeliveryListener`, also for the other methods."""
        self._open[delivery] = self._trace.process(
            self._subscription, delivery.partition.number, delivery.offset, delivery.headers, delivery.value
        )

    def request(self, delivery: Delivery, url: str, number: int, headers: Headers) -> Headers:
        span = self._attempts[delivery] = self._open[delivery].attempt(url, number)
        return span.headers(headers)

    def delivered(self, delivery: Delivery, url: str, status: int, seconds: float, age_s: float) -> None:
        self._attempts.pop(delivery).ended(status)
        self._ended(delivery, Settled.DELIVERED)

    def attempt(self, delivery: Delivery, outcome: Outcome) -> None:
        self._attempts.pop(delivery).ended(outcome.status, outcome.problem or "")

    def aborted(self, delivery: Delivery) -> None:
        self._attempts.pop(delivery).ended(0, SendProblem.CLOSED)

    def settled(self, delivery: Delivery, settlement: Settlement, age_s: float, failed: int) -> None:
        self._ended(delivery, settlement.settled)

    def abandoned(self, delivery: Delivery) -> None:
        self._ended(delivery, ABANDONED)

    def _ended(self, delivery: Delivery, verdict: str) -> None:
        # The attempt at a record that is not a CloudEvent was not made: its span never ends, so it is not exported.
        self._attempts.pop(delivery, None)
        self._open.pop(delivery).ended(verdict)
