"""A subscription whose deliveries are watched: each attempt is a span when traces are exported, and each plain success
is a line in the log at debug.

The happy path of `agents/dispatch/dispatcher` is entered with two calls more. It is a class of its own so that the many
processes that neither trace nor log at debug pay for nothing, not even for asking. Refuses to decide anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from agents.dispatch.dispatcher import SubscriptionService, Surroundings
from agents.dispatch.retrying import Outcome
from agents.http.pool import SendError
from agents.listeners.spans import TracedSpans
from agents.ordering.scheduler import Partition, Record
from knative.cloudevents.kafka_binding import Unreadable, to_request
from knative.contract.records import Subscription
from knative.delivery.verdicts import DELIVERED
from knative.tracing import AttemptSpan


class WatchedSubscription(SubscriptionService):
    """See the module's words. Event loop only."""

    def __init__(self, app: object, subscription: Subscription, around: Surroundings) -> None:
        super().__init__(app, subscription, around)
        if around.trace is not None:
            self.spans = TracedSpans(around.trace)
        self._log_deliveries = around.config.log_deliveries

    def _start_record(self, record: Record) -> None:
        subscription = self.subscription
        self.spans.begin(subscription, record)
        if record.offset in record.partition.watermark.due:
            self._settling.inherited(record)
            return
        number = record.partition.watermark.attempts.get(record.offset, 0) + 1
        attempt = self.spans.attempt(record, subscription.subscriber.uri, number)
        try:
            request = to_request(self._prefix, attempt.headers(record.headers), record.value)
        except Unreadable as problem:  # the attempt is not made, and its span never ends: it is not exported
            self._settling.unreadable(record, problem.reason)
            return
        record.began = self._around.clock.monotonic()
        self._post(request, self._timeout_s, partial(self._seen, record, subscription.subscriber.uri, attempt, number))

    def _seen(
        self,
        record: Record,
        uri: str,
        attempt: AttemptSpan,
        number: int,
        status: int | SendError,
        pairs: list[tuple[bytes, bytes]] | None,
        body: bytes,
    ) -> None:
        if isinstance(status, SendError):
            attempt.ended(0, status.kind)
        else:
            attempt.ended(status)
        window, clock = self.window, self._around.clock
        seconds = clock.monotonic() - record.began
        settled = window.settled
        self._answered(record, uri, status, pairs, body)
        if window.settled == settled:
            return  # `agents/dispatch/retry_path` has it, and tells how it ends
        self.spans.settled(record, "delivered")
        if self._log_deliveries and not isinstance(status, SendError):
            outcome = Outcome(DELIVERED, uri, number, clock.time(), seconds, status)
            self._settling.delivered(record, outcome)

    def _let_go(self, partitions: Sequence[Partition]) -> None:
        super()._let_go(partitions)
        self.spans.let_go(partitions)
