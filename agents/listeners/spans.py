"""The spans of the records that one subscription has started: begun once, found again at every later attempt.

`Spans` is for the many that are not traced, and does nothing; `TracedSpans` keeps one open span for each record that is
started and unsettled. Refuses to know what a span is made of (`knative/tracing`) and to put anything on the wire.
"""

from __future__ import annotations

from collections.abc import Iterable

from agents.ordering.scheduler import Partition, Record
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

    def begin(self, subscription: Subscription, record: Record) -> None:
        """The record's first attempt here is about to be made."""

    def attempt(self, record: Record, url: str, number: int) -> AttemptSpan:
        """A request for this record is about to be made, its `number`-th (from 1)."""
        return UNTRACED

    def settled(self, record: Record, verdict: str) -> None:
        """The record is settled or abandoned; told twice, the first time counts."""

    def let_go(self, partitions: Iterable[Partition]) -> None:
        """These partitions are somebody else's."""


class TracedSpans(Spans):
    """One open span for each started record. Event loop only."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._open: dict[Record, ProcessSpan] = {}

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, subscription: Subscription, record: Record) -> None:
        """See `Spans`, as for the rest."""
        self._open[record] = self._trace.process(
            subscription, record.partition.number, record.offset, record.headers, record.value
        )

    def attempt(self, record: Record, url: str, number: int) -> AttemptSpan:
        process = self._open.get(record)
        return UNTRACED if process is None else process.attempt(url, number)

    def settled(self, record: Record, verdict: str) -> None:
        process = self._open.pop(record, None)
        if process is not None:
            process.ended(verdict)

    def let_go(self, partitions: Iterable[Partition]) -> None:
        gone = set(partitions)
        for record in [record for record in self._open if record.partition in gone]:
            self.settled(record, ABANDONED)


#: Verdict of a record that is left to the next owner of its partition.
ABANDONED = "abandoned"
