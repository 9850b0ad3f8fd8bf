"""The spans of the records that one subscription has started: begun once, found again at every later attempt.

`Spans` is for the many that are not traced, and does nothing; `TracedSpans` keeps one open span for each record that is
started and unsettled. Refuses to know what a span is made of (`knative/tracing`) and to put anything on the wire.
"""

from __future__ import annotations

from collections.abc import Iterable

from agents.ordering.partition import Delivery, PartitionState
from knative.contract.records import Subscription
from knative.ports import Headers
from knative.tracing import AttemptSpan, ProcessSpan, Trace


class Untraced:
    """An attempt without a span: headers stay as they are stored."""

    __slots__ = ()

    def headers(self, stored: Headers) -> Headers:
        """As they are."""
        return stored

    def ended(self, status: int, problem: str = "") -> None:
        """Nobody is told."""


UNTRACED = Untraced()


class Spans:
    """Nothing is traced."""

    def begin(self, subscription: Subscription, delivery: Delivery) -> None:
        """The record's first attempt here is about to be made."""

    def attempt(self, delivery: Delivery, url: str, number: int) -> AttemptSpan:
        """A request for this record is about to be made, its `number`-th (from 1)."""
        return UNTRACED

    def settled(self, delivery: Delivery, verdict: str) -> None:
        """The record is settled or abandoned; told twice, the first time counts."""

    def release(self, partitions: Iterable[PartitionState]) -> None:
        """These partitions are somebody else's."""


class TracedSpans(Spans):
    """One open span for each started record. Event loop only."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._open: dict[Delivery, ProcessSpan] = {}

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, subscription: Subscription, delivery: Delivery) -> None:
        """See `Spans`, as for the rest."""
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


#: Verdict of a record that is left to the next owner of its partition.
ABANDONED = "abandoned"
