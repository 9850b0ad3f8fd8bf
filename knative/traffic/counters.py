"""Counts the traffic of this process between two deltas: one TrafficCounter per channel and per subscription.

    hot path --accepted, delivered, settled--> TrafficCounter: (type, source) -> a few numbers
                                                      |
    once a second          TrafficCounters.take() ----+--> deltas

An event costs one lookup and some additions: type and source are read from the record's headers as bytes, at the
positions where the previous event had them. Text and latency sketches are made once a second. The number of distinct
types and sources is limited, and so is their length. Bodies are not parsed, so structured records count without type
and source. Use from one thread only.
"""

from __future__ import annotations

from collections.abc import Iterator

from knative.delivery.attempt import Settled
from knative.ports import Headers
from knative.traffic import latency_sketch
from knative.traffic.counts import Counts
from knative.traffic.delta import ACCEPTED, COMBINATIONS_MAX, SETTLED, Delta, Kind
from knative.traffic.latency_sketch import LatencySketch

#: Of type and source together. Longer ones are counted under "" and "".
NAME_BYTES_MAX = 1024
#: Durations that are kept as a list. If there are more, they are added to the sketch at once.
_PLAIN_MAX = 4096

_TYPE, _SOURCE = "ce_type", "ce_source"
_Names = tuple[bytes, bytes]
_OTHERS: _Names = (b"", b"")


class Row(Counts):
    """The numbers of one combination of type and source. `plain`: durations that are not in `sketch` yet."""

    __slots__ = ("plain", "sketch")

    def __init__(self) -> None:
        super().__init__()
        self.plain: list[float] = []
        self.sketch: LatencySketch = {}

    def counts(self) -> Counts:
        """Returns the numbers. A subscription counts no events as they come: they are those that it settled."""
        counts = Counts(*self.values())
        counts.events = counts.events or counts.settled
        return counts

    def durations(self) -> LatencySketch:
        """Returns all durations as a sketch."""
        latency_sketch.merge(self.sketch, latency_sketch.of(self.plain))
        self.plain.clear()
        return self.sketch


class TrafficCounter:
    """One channel's accepted events, or one subscription's settled ones. Made by `TrafficCounters`."""

    __slots__ = ("_pairs", "_rows", "_source_at", "_type_at", "channel", "kind", "namespace", "subscription", "users")

    def __init__(self, kind: Kind, namespace: str, channel: str, subscription: str, pairs: set[_Names]) -> None:
        self.kind = kind
        self.namespace = namespace
        self.channel = channel
        self.subscription = subscription
        self._pairs = pairs  # combinations of this second; shared by all counters of the process
        self._rows: dict[_Names, Row] = {}
        self._type_at = self._source_at = 0
        self.users = 0

    # -- hot path

    def accepted(self, headers: Headers, size: int) -> None:
        """Ingress stored one event; `size`: bytes of its data."""
        row = self._row(headers)
        row.events += 1
        row.bytes += size

    def delivered(self, headers: Headers, value: bytes | None, age_s: float, retried: int) -> None:
        """One event was delivered, `age_s` after it was stored, with `retried` attempts beyond the first."""
        row = self._row(headers)
        row.delivered += 1
        if value:
            row.bytes += len(value)
        plain = row.plain
        plain.append(age_s)
        if retried:
            row.retried += retried
        if len(plain) > _PLAIN_MAX:
            row.durations()

    def _row(self, headers: Headers) -> Row:
        # Clients send their headers in the same order, so type and source are usually where they were last time. If the
        # names there do not match, `_find` searches.
        try:
            name, kind = headers[self._type_at]
            other, source = headers[self._source_at]
            if name == _TYPE and other == _SOURCE:
                return self._rows[kind, source]  # type: ignore[index]  # a None raises KeyError, handled below
        except (IndexError, KeyError):
            return self._find(headers)
        return self._find(headers)

    def filtered(self, headers: Headers) -> None:
        """One event did not pass the filter. Its bytes do not count: they went nowhere."""
        self._row(headers).filtered += 1

    # -- rare

    def settled(self, headers: Headers, value: bytes | None, settled: Settled, age_s: float, failed: int) -> None:
        """One event was settled after `failed` failed attempts."""
        if settled is Settled.DELIVERED:
            self.delivered(headers, value, age_s, failed)
            return
        row = self._row(headers)
        row.bytes += len(value or b"")
        # All attempts failed, and the first was no retry. A delivered event has one attempt more.
        row.retried += max(0, failed - 1)
        if settled is Settled.DEAD_LETTERED:
            row.dead += 1
        elif settled is Settled.FILTERED:
            row.filtered += 1
        else:
            row.ignored += 1

    def _find(self, headers: Headers) -> Row:
        """Search for type and source, remember their positions, and return their row."""
        names = {_TYPE: b"", _SOURCE: b""}
        for place, (name, content) in enumerate(headers):
            low = name.lower() if isinstance(name, str) else ""
            if low in names and content:
                names[low] = content
                if low == _TYPE:
                    self._type_at = place
                else:
                    self._source_at = place
        pair = (names[_TYPE], names[_SOURCE])
        if pair not in self._pairs:
            if len(self._pairs) >= COMBINATIONS_MAX or len(pair[0]) + len(pair[1]) > NAME_BYTES_MAX:
                pair = _OTHERS
            else:
                self._pairs.add(pair)
        return self._rows.setdefault(pair, Row())

    def close(self) -> None:
        """One user of this counter is done. Without users it is dropped by the next `take`."""
        self.users -= 1

    def take(self) -> dict[_Names, Row]:
        """Returns and forgets what was counted since the last call."""
        rows = self._rows
        if rows:
            self._rows = {}
        return rows


class TrafficCounters:
    """All counters of a process. `by` identifies this run of the process."""

    def __init__(self, by: str) -> None:
        self.by = by
        self._pairs: set[_Names] = set()
        self._counters: dict[tuple[Kind, str, str, str], TrafficCounter] = {}
        self._number = 0

    def channel(self, namespace: str, name: str) -> TrafficCounter:
        """Returns the counter of events that ingress stores in this channel. Close it when the channel is gone."""
        return self._counter(ACCEPTED, namespace, name, "")

    def subscription(self, namespace: str, channel: str, name: str) -> TrafficCounter:
        """Returns the counter of events that this subscription settles. Close it when the subscription is gone."""
        return self._counter(SETTLED, namespace, channel, name)

    def _counter(self, kind: Kind, namespace: str, channel: str, name: str) -> TrafficCounter:
        key = (kind, namespace, channel, name)
        counter = self._counters.get(key)
        if counter is None:
            counter = self._counters[key] = TrafficCounter(*key, self._pairs)
        counter.users += 1
        return counter

    def take(self, at: int) -> Iterator[Delta]:
        """Yields the deltas since the last call; `at`: the Unix second that they are for."""
        self._pairs.clear()
        for key, counter in list(self._counters.items()):
            if not counter.users:
                del self._counters[key]
            for (kind, source), row in counter.take().items():
                self._number += 1
                yield Delta(
                    by=self.by,
                    number=self._number,
                    at=at,
                    kind=counter.kind,
                    namespace=counter.namespace,
                    channel=counter.channel,
                    subscription=counter.subscription,
                    type=kind.decode("utf-8", "replace"),
                    source=source.decode("utf-8", "replace"),
                    counts=row.counts(),
                    latency=row.durations(),
                )
