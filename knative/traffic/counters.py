"""What went through this process since it was last asked, summed up: one Tally per channel and per subscription.

    hot path --accepted, delivered, settled--> Tally: (type, source) -> a few numbers
                                                      |
    once a second                 Tallies.take() -----+--> deltas for knative/traffic

An event costs one look-up and some additions here: type and source are taken from the record's headers as bytes, at
the places where the event before had them. What must be worked out (text, the sketch of durations) is worked out when
the second is over. Bounded: so many combinations of type and source are told apart, and no endless ones. Refuses to
read clocks, to parse bodies (a structured record has no type here) and to send anything. One thread only.
"""

from __future__ import annotations

from collections.abc import Iterator

from knative.ports import Headers
from knative.traffic import latency_sketch
from knative.traffic.delta import ACCEPTED, COMBINATIONS_MAX, SETTLED, Delta, Kind
from knative.traffic.latency_sketch import LatencySketch

#: Of type and source together; longer ones are summed under "" and "".
NAME_BYTES_MAX = 1024
#: Durations that are kept as they are; with more, they go into the sketch at once.
_PLAIN_MAX = 4096

_TYPE, _SOURCE = "ce_type", "ce_source"
_Names = tuple[bytes, bytes]
_OTHERS: _Names = (b"", b"")


class Row:
    """The numbers of one combination of type and source; `plain` are durations not in `sketch` yet."""

    __slots__ = ("bytes", "dead", "delivered", "events", "filtered", "ignored", "plain", "retried", "sketch")

    def __init__(self) -> None:
        self.events = self.bytes = self.delivered = self.retried = self.dead = self.filtered = self.ignored = 0
        self.plain: list[float] = []
        self.sketch: LatencySketch = {}

    def durations(self) -> LatencySketch:
        """All of them as a sketch."""
        latency_sketch.merge(self.sketch, latency_sketch.of(self.plain))
        self.plain.clear()
        return self.sketch


class TrafficCounter:
    """One channel's accepted events, or one subscription's settled ones. Made by `TrafficCounters`."""

    __slots__ = ("_known", "_rows", "_source_at", "_type_at", "channel", "kind", "namespace", "subscription", "users")

    def __init__(self, kind: Kind, namespace: str, channel: str, subscription: str, known: set[_Names]) -> None:
        self.kind = kind
        self.namespace = namespace
        self.channel = channel
        self.subscription = subscription
        self._known = known  # combinations of this second, of the whole process
        self._rows: dict[_Names, Row] = {}
        self._type_at = self._source_at = 0
        self.users = 0

    # -- hot path

    def accepted(self, headers: Headers, size: int) -> None:
        """Ingress has stored one event; `size`: bytes of its data."""
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
        try:
            name, kind = headers[self._type_at]
            other, source = headers[self._source_at]
            if name == _TYPE and other == _SOURCE:
                return self._rows[kind, source]  # type: ignore[index]  # None is no key of it, and is found below
        except (IndexError, KeyError):
            return self._find(headers)
        return self._find(headers)

    # -- rare

    def settled(self, headers: Headers, value: bytes | None, verdict: str, age_s: float, failed: int) -> None:
        """One event is settled after `failed` attempts that failed; `verdict` as the metrics name it."""
        if verdict == "delivered":
            self.delivered(headers, value, age_s, failed)
            return
        row = self._row(headers)
        row.bytes += len(value or b"")
        row.retried += max(0, failed - 1)
        if verdict == "dead-lettered":
            row.dead += 1
        elif verdict == "filtered":
            row.filtered += 1
        else:
            row.ignored += 1

    def _find(self, headers: Headers) -> Row:
        """Look for type and source anywhere, note where they are, and give their row."""
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
        if pair not in self._known:
            if len(self._known) >= COMBINATIONS_MAX or len(pair[0]) + len(pair[1]) > NAME_BYTES_MAX:
                pair = _OTHERS
            else:
                self._known.add(pair)
        return self._rows.setdefault(pair, Row())

    def close(self) -> None:
        """One of those who asked for it counts no more."""
        self.users -= 1

    def take(self) -> dict[_Names, Row]:
        """What was counted since the last time, which is forgotten here."""
        rows = self._rows
        if rows:
            self._rows = {}
        return rows


class TrafficCounters:
    """All of a process. `by`: the process and this start of it."""

    def __init__(self, by: str) -> None:
        self.by = by
        self._known: set[_Names] = set()
        self._counters: dict[tuple[Kind, str, str, str], TrafficCounter] = {}
        self._number = 0

    def channel(self, namespace: str, name: str) -> TrafficCounter:
        """For what ingress stores in this channel. Close it when the channel is gone."""
        return self._counter(ACCEPTED, namespace, name, "")

    def subscription(self, namespace: str, channel: str, name: str) -> TrafficCounter:
        """For what this subscription settles. Close it when the subscription is gone."""
        return self._counter(SETTLED, namespace, channel, name)

    def _counter(self, kind: Kind, namespace: str, channel: str, name: str) -> TrafficCounter:
        key = (kind, namespace, channel, name)
        found = self._counters.get(key)
        if found is None:
            found = self._counters[key] = TrafficCounter(*key, self._known)
        found.users += 1
        return found

    def take(self, at: int) -> Iterator[Delta]:
        """The deltas of what was counted since the last time; `at`: the Unix second it is told of."""
        self._known.clear()
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
                    events=row.events or row.delivered + row.dead + row.filtered + row.ignored,
                    bytes=row.bytes,
                    delivered=row.delivered,
                    retried=row.retried,
                    dead=row.dead,
                    filtered=row.filtered,
                    ignored=row.ignored,
                    latency=row.durations(),
                )
