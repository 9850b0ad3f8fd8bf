"""Sums deltas, windows or rows of Spark by key: what came into a channel, from whom, what a subscription settled.

    deltas (topic) ----\
    windows (Parquet) --> Summing --> Traffic of each channel and subscription, Arrivals from each source in each stream
    tables of Spark ---/

A stream is a type of a channel. Pairs of source and stream are numbers in columns while they are added up, never
objects.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from analytics.topology.model.arrivals import Arrivals, Columns, Ints, Numbers, Stream, added_up
from analytics.topology.model.inputs import Traffic
from knative.traffic.counts import Counts, read
from knative.traffic.delta import ACCEPTED, SETTLED, Delta
from knative.traffic.latency_sketch import merge

if TYPE_CHECKING:
    import pyarrow as pa

_PENDING_MAX = 1_000_000  #: rows of 40 bytes that wait to be added up
_BLOCK = 4096  #: delta numbers of a process that are kept together
Name = TypeVar("Name", str, Stream)
Sums = tuple[list[Traffic], Arrivals[Stream]]


class Row(Protocol):
    """A window of the traffic job (`analytics/traffic/windows.Window`)."""

    @property
    def kind(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def channel(self) -> str: ...
    @property
    def subscription(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def counts(self) -> Counts: ...
    @property
    def latency(self) -> Mapping[int, int]: ...


class Summing:
    """Adds up what it is given, in any order."""

    def __init__(self) -> None:
        self._settled: dict[tuple[str, str, str], Traffic] = {}
        # A bit for each delta number. Not ranges as in `analytics.traffic.seen`: partitions come one after the other,
        # and until the last one the numbers of a process have a gap for each delta of the others.
        self._counted: dict[tuple[str, int], bytearray] = defaultdict(lambda: bytearray(_BLOCK // 8))
        self._sources: dict[str, int] = {}
        self._streams: dict[Stream, int] = {}
        self._pending = tuple(array("q") for _ in range(4))
        none = np.empty(0, dtype=np.int32)
        self._came_in: Columns = (none, none, none.astype(np.int64), none.astype(np.int64))

    def delta(self, delta: Delta) -> bool:
        """Add one record of the traffic topic; False: it was already counted."""
        block, place = divmod(delta.number, _BLOCK)
        counted, bit = self._counted[delta.by, block], 1 << place % 8
        if counted[place // 8] & bit:
            return False
        counted[place // 8] |= bit
        if delta.kind == ACCEPTED:
            self._came(delta)
        else:
            self._done(delta.namespace, delta.channel, delta.subscription, delta.counts, delta.latency)
        return True

    def row(self, row: Row) -> None:
        """Add one merged window. `stored` and `accepted` count the same events, so the caller passes one of them."""
        if row.kind == SETTLED:
            self._done(row.namespace, row.channel, row.subscription, row.counts, row.latency)
        else:
            self._came(row)

    def settled(self, table: pa.Table) -> None:
        """Add rows: namespace, channel, subscription, the counts, and `latency`, a map."""
        for row in table.to_pylist():
            counts = read(row.__getitem__)
            self._done(row["namespace"], row["channel"], row["subscription"], counts, dict(row["latency"]))

    def came(self, table: pa.Table) -> None:
        """Add rows: namespace, channel, source, type, events, bytes."""
        for batch in table.to_batches():
            encoded = [batch[name].dictionary_encode() for name in ("namespace", "channel", "source", "type")]
            namespaces, channels, sources, types = (column.dictionary.to_pylist() for column in encoded)
            namespace, channel, source, type_ = (column.indices.to_numpy() for column in encoded)
            pair, to_pair = np.unique(namespace.astype(np.int64) << 32 | channel, return_inverse=True)
            stream, to_stream = np.unique(to_pair.astype(np.int64) << 32 | type_, return_inverse=True)
            places = ((pair[key >> 32], key & 0xFFFF_FFFF) for key in stream.tolist())
            names = [(namespaces[key >> 32], channels[key & 0xFFFF_FFFF], types[kind]) for key, kind in places]
            self._add_up(
                _numbers(self._sources, sources)[source],
                _numbers(self._streams, names)[to_stream],
                batch["events"].to_numpy(),
                batch["bytes"].to_numpy(),
            )

    def sums(self) -> Sums:
        """Returns the sums of channels and subscriptions in the order of their keys, and who sent what came."""
        self._flush()
        source, stream, events, size = self._came_in
        sources, to_source = _sorted(self._sources)
        streams, to_stream = _sorted(self._streams)
        arrivals = Arrivals(sources, streams, *added_up(to_source[source], to_stream[stream], events, size))
        accepted: dict[tuple[str, str], Traffic] = {}
        for (*place, _), *counts in zip(streams, *(total.tolist() for total in arrivals.of_channels()), strict=True):
            accepted.setdefault((place[0], place[1]), Traffic(True, *place)).counts += Counts(*counts)
        return [*(self._settled[key] for key in sorted(self._settled)), *accepted.values()], arrivals

    def _done(
        self, namespace: str, channel: str, subscription: str, counts: Counts, latency: Mapping[int, int]
    ) -> None:
        """The sources of settled events are not needed: those of accepted events show the same."""
        key = (namespace, channel, subscription)
        total = self._settled.get(key)
        if total is None:
            total = self._settled[key] = Traffic(False, *key)
        total.counts += counts
        merge(total.latency, latency)

    def _came(self, row: Delta | Row) -> None:
        numbers = (
            _number(self._sources, row.source),
            _number(self._streams, (row.namespace, row.channel, row.type)),
            row.counts.events,
            row.counts.bytes,
        )
        for column, value in zip(self._pending, numbers, strict=True):
            column.append(value)
        if len(self._pending[0]) >= _PENDING_MAX:
            self._flush()

    def _flush(self) -> None:
        source, stream, events, size = (np.array(column, dtype=np.int64) for column in self._pending)
        for column in self._pending:
            del column[:]
        self._add_up(source.astype(np.int32), stream.astype(np.int32), events, size)

    def _add_up(self, source: Numbers, stream: Numbers, events: Ints, size: Ints) -> None:
        before = self._came_in
        self._came_in = added_up(
            np.concatenate([before[0], source]),
            np.concatenate([before[1], stream]),
            np.concatenate([before[2], events]),
            np.concatenate([before[3], size]),
        )


def _number(numbers: dict[Name, int], name: Name) -> int:
    return numbers.setdefault(name, len(numbers))


def _numbers(numbers: dict[Name, int], names: Sequence[Name]) -> Numbers:
    return np.array([_number(numbers, name) for name in names], dtype=np.int32)


def _sorted(numbers: dict[Name, int]) -> tuple[list[Name], Numbers]:
    """Returns the names in their order, and the place of each number in it."""
    names = sorted(numbers)
    places = np.empty(len(names), dtype=np.int32)
    places[[numbers[name] for name in names]] = np.arange(len(names))
    return names, places
