"""A dispatcher that also makes a span of each attempt (with tracing) and logs each simple success (at debug).

It adds two calls to the happy path of `agents/dispatch/dispatcher`. As a separate class it costs nothing, not even a
check, in processes that neither trace nor log at debug. It makes no decisions of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from agents.dispatch.context import DeliveryContext
from agents.dispatch.dispatcher import SubscriptionService
from agents.http.pool import SendError
from agents.listeners.spans import TracedSpans
from agents.ordering.partition import Delivery, PartitionState
from knative.cloudevents.kafka_binding import Unreadable, to_request
from knative.contract.records import Subscription
from knative.delivery.attempt import Outcome, Settled
from knative.delivery.verdicts import DELIVERED
from knative.tracing import AttemptSpan


class TracedDispatcher(SubscriptionService):
    """See the module docstring. Event loop only."""

    def __init__(self, app: object, subscription: Subscription, context: DeliveryContext) -> None:
        super().__init__(app, subscription, context)
        if context.trace is not None:
            self.spans = TracedSpans(context.trace)
        self._log_deliveries = context.config.log_deliveries

    def _start(self, delivery: Delivery) -> None:
        subscription = self.subscription
        self.spans.begin(subscription, delivery)
        if delivery.offset in delivery.partition.tracker.due:
            self._retry_path.inherited(delivery)
            return
        number = delivery.partition.tracker.attempts.get(delivery.offset, 0) + 1
        attempt = self.spans.attempt(delivery, subscription.subscriber.uri, number)
        try:
            request = to_request(self._prefix, attempt.headers(delivery.headers), delivery.value)
        except Unreadable as problem:  # no attempt is made: its span never ends, so it is not exported
            self._retry_path.unreadable(delivery, problem.reason)
            return
        delivery.began = self._context.clock.monotonic()
        self._post(
            request, self._timeout_s, partial(self._seen, delivery, subscription.subscriber.uri, attempt, number)
        )

    def _seen(
        self,
        delivery: Delivery,
        uri: str,
        attempt: AttemptSpan,
        number: int,
        status: int | SendError,
        pairs: list[tuple[bytes, bytes]] | None,
        body: bytes,
    ) -> None:
        if isinstance(status, SendError):
            attempt.ended(0, status.problem)
        else:
            attempt.ended(status)
        scheduler, clock = self.scheduler, self._context.clock
        seconds = clock.monotonic() - delivery.began
        settled = scheduler.settled  # `_answered` does not say what it did; this count does
        self._answered(delivery, uri, status, pairs, body)
        if scheduler.settled == settled:
            return  # `agents/dispatch/retry_path` has it now, and ends its span
        self.spans.settled(delivery, Settled.DELIVERED)
        if self._log_deliveries and not isinstance(status, SendError):
            outcome = Outcome(DELIVERED, uri, number, clock.time(), seconds, status)
            self._retry_path.delivery_log.outcome(Settled.DELIVERED, delivery, outcome)

    def _release(self, partitions: Sequence[PartitionState]) -> None:
        super()._release(partitions)
        self.spans.release(partitions)
