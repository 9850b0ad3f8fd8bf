"""Keeps the open span of each started delivery, so that later attempts become part of it.

`Spans` does nothing, for processes without tracing. `TracedSpans` has one open span for each delivery that is started
and not settled. `knative/tracing` makes and exports the spans.
"""

from __future__ import annotations

from collections.abc import Iterable

from agents.ordering.partition import Delivery, PartitionState
from knative.contract.records import Subscription
from knative.ports import Headers
from knative.tracing import ABANDONED, AttemptSpan, ProcessSpan, Trace


class Untraced:
    """An attempt without a span: headers stay as they are in the record."""

    __slots__ = ()

    def headers(self, stored: Headers) -> Headers:
        """Return the headers unchanged."""
        return stored

    def ended(self, status: int, problem: str = "") -> None:
        """Do nothing."""


UNTRACED = Untraced()


class Spans:
    """Spans without tracing: does nothing."""

    def begin(self, subscription: Subscription, delivery: Delivery) -> None:
        """Call it before the first attempt in this process."""

    def attempt(self, delivery: Delivery, url: str, number: int) -> AttemptSpan:
        """Call it before each attempt; `number` counts from 1."""
        return UNTRACED

    def settled(self, delivery: Delivery, verdict: str) -> None:
        """The delivery is settled or abandoned. Only the first call counts."""

    def release(self, partitions: Iterable[PartitionState]) -> None:
        """These partitions belong to other workers now."""


class TracedSpans(Spans):
    """One open span for each started delivery. Event loop only."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._open: dict[Delivery, ProcessSpan] = {}

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, subscription: Subscription, delivery: Delivery) -> None:
        """See `Spans`, also for the other methods."""
        self._open[delivery] = self._trace.process(
            subscription, delivery.partition.number, delivery.offset, delivery.headers, delivery.value
        )

    def attempt(self, delivery: Delivery, url: str, number: int) -> AttemptSpan:
        process = self._open.get(delivery)
        return UNTRACED if process is None else process.attempt(url, number)

    def settled(self, delivery: Delivery, verdict: str) -> None:
        process = self._open.pop(delivery, None)
        if process is not None:
            process.ended(verdict)

    def release(self, partitions: Iterable[PartitionState]) -> None:
        gone = set(partitions)
        for delivery in [delivery for delivery in self._open if delivery.partition in gone]:
            self.settled(delivery, ABANDONED)
