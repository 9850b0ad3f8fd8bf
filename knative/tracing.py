"""Spans as small Protocols: what ingress and delivery report while they are traced. `app/observability/tracing`
supplies the implementations.

    receive (a request at ingress) -> process (one event, one subscription) -> attempt (one request), attempt, ...

Each stage finds its parent in headers, so the stages may run in different processes. A process that exports no spans
creates none of these objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from knative.ports import Headers

#: How the span of an event ends that is left to the next owner of its partition.
ABANDONED = "abandoned"


class TracedSubscription(Protocol):
    """The part of a contract's subscription that a span is labelled with."""

    @property
    def label(self) -> str:
        """`namespace/name`."""

    @property
    def topic(self) -> str:
        """The topic that its records come from."""

    @property
    def group(self) -> str:
        """Its consumer group."""


class ReceiveSpan(Protocol):
    """One request at ingress. Entered while `Produce` gets the event, so that the record carries this span."""

    def __enter__(self) -> object: ...

    def __exit__(self, *raised: object) -> None: ...

    def ended(self, status: int) -> None:
        """The request was answered."""


class AttemptSpan(Protocol):
    """One request to a subscriber, a reply address or a dead letter sink."""

    def headers(self, stored: Headers) -> Headers:
        """Returns a record's headers with this attempt's trace context in place of the stored one."""

    def ended(self, status: int, problem: str = "") -> None:
        """The attempt ended. Status 0: no answer, and `problem` is the kind of error."""


class ProcessSpan(Protocol):
    """One event on its way to one subscription, from its first attempt to its verdict."""

    def attempt(self, url: str, number: int) -> AttemptSpan:
        """Begin attempt `number` (from 1). `url`: as it is shown."""

    def ended(self, verdict: str) -> None:
        """The event is settled (a value of `Settled`), or this worker lost its partition (ABANDONED)."""


class Trace(Protocol):
    """Starts spans. Exists only in a process that exports them. Event loop only."""

    def receive(self, target: bytes, host: bytes | None, pairs: Sequence[tuple[bytes, bytes]]) -> ReceiveSpan:
        """Begin the span of a request at ingress."""

    def process(
        self, subscription: TracedSubscription, partition: int, offset: int, headers: Headers, value: bytes | None
    ) -> ProcessSpan:
        """Begin the span of one record for one subscription."""
