"""Spans as small Protocols: what ingress and delivery tell while they are traced; `app/observability/tracing` hands
the real ones in.

    receive (a request at ingress) -> process (one event, one subscription) -> attempt (one request), attempt, ...

Each stage finds its parent in headers, so that the stages may be in different processes. Where nothing is exported none
of these objects is made. Refuses to hold any implementation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from knative.contract.records import Subscription
from knative.ports import Headers


class ReceiveSpan(Protocol):
    """One request at ingress. Entered while its event is handed to `Produce`: what is stored then belongs to it."""

    def __enter__(self) -> object: ...

    def __exit__(self, *raised: object) -> None: ...

    def ended(self, status: int) -> None:
        """It was answered."""


class AttemptSpan(Protocol):
    """One request to a subscriber, a reply address or a dead letter sink."""

    def headers(self, stored: Headers) -> Headers:
        """A record's headers with this attempt's trace context in place of the stored one."""

    def ended(self, status: int, problem: str = "") -> None:
        """It was answered; status 0 = no answer, and `problem` is the kind of trouble."""


class ProcessSpan(Protocol):
    """One event on its way to one subscription, from its first attempt to its verdict."""

    def attempt(self, url: str, number: int) -> AttemptSpan:
        """Begin attempt `number` (from 1)."""

    def ended(self, verdict: str) -> None:
        """The event is settled, or no longer ours."""


class Trace(Protocol):
    """Spans, when they are exported somewhere; without an exporter there is none of these objects. Event loop only."""

    def receive(self, target: bytes, host: bytes | None, pairs: Sequence[tuple[bytes, bytes]]) -> ReceiveSpan:
        """Begin the span of a request at ingress."""

    def process(
        self, subscription: Subscription, partition: int, offset: int, headers: Headers, value: bytes | None
    ) -> ProcessSpan:
        """Begin the span of one record for one subscription."""
