"""The delivery log: a line with all fields for each result except a success at the first attempt (at debug only).

    first line of a kind  --> written at once; a period of ten seconds begins
    more of that kind     --> counted                                    (at debug every line is written)
    the period ends       --> the last one is written with `count`, and a new period begins; if none came: back to start

A subscriber that rejects everything would otherwise fill the log, and writing takes the event loop's time from other
subscriptions. A line names the event, the subscription, the record, the attempt and its answer, and the trace if there
is one. `DebugDeliveryLog` also writes the successes at the first attempt, and is called for each of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from agents.listeners.base import DeliveryListener
from agents.offsets.partition import Delivery
from agents.timing import SELDOM_S
from knative.cloudevents.kafka_binding import describe
from knative.cloudevents.trace_context import trace_id
from knative.delivery.attempt import Outcome, Recipient, Settled, Settlement
from knative.delivery.verdicts import DELIVERED, FinalFailure, RetryableFailure

log = structlog.get_logger(__name__)

EVERY_S = 2 * SELDOM_S

Fields = Callable[[], dict[str, object]]


@dataclass(slots=True)
class _Kind:
    """Lines of one kind that were not written in the present period."""

    timer: asyncio.TimerHandle
    count: int = 0
    level: int = logging.INFO
    last: Fields = dict


class DeliveryLog(DeliveryListener):
    """The lines of one subscription. Event loop only; end it with `closed`."""

    def __init__(self, subscription: str) -> None:
        """`subscription`: its label."""
        self._subscription = subscription
        self._loop = asyncio.get_running_loop()
        self._kinds: dict[str, _Kind] = {}

    def failed(self, delivery: Delivery, outcome: Outcome, wait_s: float | None) -> None:
        """See `DeliveryListener`, also for the next three."""
        if wait_s is None:  # what the event came to has a line of its own
            return
        what = "dead letter sink failed" if outcome.recipient is Recipient.DEAD_LETTER_SINK else "attempt failed"
        self._outcome(what, delivery, outcome, wait_s=round(wait_s, 3))

    def settled(self, delivery: Delivery, settlement: Settlement, age_s: float, failed: int) -> None:
        outcome, to = settlement.outcome, settlement.to
        if outcome is not None:
            self._outcome(settlement.settled.value, delivery, outcome, **({"to": to} if to else {}))
        elif settlement.settled is Settled.DEAD_LETTERED:
            fields = {"reason": settlement.reason, "to": to}
            self._line("record is not a CloudEvent", logging.WARNING, lambda: _about(delivery) | fields)

    def not_stored(self, delivery: Delivery, topic: str, reason: str) -> None:
        what = "dead letter cannot be stored; the event stays unsettled and is tried again"
        self._line(what, logging.ERROR, lambda: _about(delivery) | {"topic": topic, "reason": reason})

    def closed(self) -> None:
        kinds, self._kinds = self._kinds, {}
        for what, kind in kinds.items():
            kind.timer.cancel()
            self._sum(what, kind)

    def _outcome(self, what: str, delivery: Delivery, outcome: Outcome, **more: object) -> None:
        failed = isinstance(outcome.verdict, RetryableFailure | FinalFailure)
        if not failed and outcome.attempts == 1:
            if log.is_enabled_for(logging.DEBUG):
                self._write(what, logging.DEBUG, lambda: _outcome_fields(delivery, outcome, more))
            return
        level = logging.WARNING if failed else logging.INFO
        self._line(what, level, lambda: _outcome_fields(delivery, outcome, more))

    def _line(self, what: str, level: int, fields: Fields) -> None:
        if log.is_enabled_for(logging.DEBUG):
            self._write(what, level, fields)
            return
        kind = self._kinds.get(what)
        if kind is None:
            self._write(what, level, fields)
            self._kinds[what] = _Kind(self._loop.call_later(EVERY_S, self._over, what))
            return
        kind.count += 1
        kind.level, kind.last = level, fields

    def _over(self, what: str) -> None:
        kind = self._kinds.pop(what)
        if kind.count:
            self._sum(what, kind)
            self._kinds[what] = _Kind(self._loop.call_later(EVERY_S, self._over, what))

    def _sum(self, what: str, kind: _Kind) -> None:
        if kind.count:
            self._write(what, kind.level, lambda: kind.last() | {"count": kind.count, "within_s": EVERY_S})

    def _write(self, what: str, level: int, fields: Fields) -> None:
        log.log(level, what, subscription=self._subscription, **fields())


class DebugDeliveryLog(DeliveryLog):
    """Also has the successes at the first attempt, at debug."""

    def delivered(self, delivery: Delivery, url: str, status: int, seconds: float, age_s: float) -> None:
        """See `DeliveryListener`."""
        number = delivery.partition.tracker.attempts.get(delivery.offset, 0) + 1
        at = delivery.timestamp_ms / 1000 + age_s
        self._outcome(Settled.DELIVERED.value, delivery, Outcome(DELIVERED, url, number, at, seconds, status))


def _about(delivery: Delivery) -> dict[str, object]:
    """Returns partition, offset, and the trace id if there is one."""
    fields: dict[str, object] = {"partition": delivery.partition.number, "offset": delivery.offset}
    trace = trace_id(delivery.headers)
    return fields | {"trace_id": trace} if trace else fields


def _outcome_fields(delivery: Delivery, outcome: Outcome, more: dict[str, object]) -> dict[str, object]:
    verdict = outcome.verdict
    fields = {
        **{f"event_{name}": value for name, value in describe(delivery.headers).items()},
        **_about(delivery),
        "attempt": outcome.attempts,
        "destination": outcome.destination,
        "ms": round(outcome.seconds * 1000, 1),
        "status": outcome.status,
    }
    if isinstance(verdict, RetryableFailure | FinalFailure):
        fields |= {"status": verdict.code, "reason": verdict.reason}
    return fields | more
