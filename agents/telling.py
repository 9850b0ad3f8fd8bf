"""The log of deliveries: one wide line for each verdict that is no plain first-try success; for those at debug.

A line names the event, the subscription, the record, the attempt and its answer, and the trace when the event belongs
to one. Refuses to be called on the happy path: `agents/watched` does it where such lines are wanted.
"""

from __future__ import annotations

import logging

import structlog

from agents.lanes import Record
from agents.retrying import Outcome
from knative.kafka_binding import describe
from knative.trace_context import trace_id
from knative.verdicts import FinalFailure, RetryableFailure

log = structlog.get_logger(__name__)


def tell(what: str, subscription: str, record: Record, outcome: Outcome, **more: object) -> None:
    """Write the line; `subscription` is its label, `more` are further fields."""
    verdict = outcome.verdict
    failed = isinstance(verdict, RetryableFailure | FinalFailure)
    plain = not failed and outcome.attempts == 1
    if plain and not log.is_enabled_for(logging.DEBUG):
        return
    write = log.warning if failed else log.debug if plain else log.info
    write(
        what,
        **{f"event_{name}": value for name, value in describe(record.headers).items()},
        subscription=subscription,
        partition=record.partition.number,
        offset=record.offset,
        attempt=outcome.attempts,
        destination=outcome.destination,
        ms=round(outcome.seconds * 1000, 1),
        status=verdict.code if failed else outcome.status,  # type: ignore[union-attr]
        **({"reason": verdict.reason} if failed else {}),  # type: ignore[union-attr]
        **in_trace(record),
        **more,
    )


def in_trace(record: Record) -> dict[str, str]:
    """The field of a line about a record that belongs to a trace; nothing for the others."""
    found = trace_id(record.headers)
    return {"trace_id": found} if found else {}
