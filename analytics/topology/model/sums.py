"""Sums deltas, windows or rows of Spark by key: what came into a channel, from whom, what a subscription settled.

    deltas (topic) ----\
    windows (Parquet) --> Summing --> Traffic of each channel and subscription, Arrivals from each source
    tables of Spark ---/

Pairs of source and channel are numbers in columns while they are added up, never objects.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from analytics.topology.model.arrivals import Arrivals, Columns, Ints, Numbers, added_up
from analytics.topology.model.inputs import Traffic
from knative.traffic.counts import Counts, read
from knative.traffic.delta import ACCEPTED, SETTLED, Delta
from knative.traffic.latency_sketch import merge

if TYPE_CHECKING:
    import pyarrow as pa

_PENDING_MAX = 1_000_000  #: pairs of 32 bytes that wait to be added up
Name = TypeVar("Name", str, tuple[str, str])
Sums = tuple[list[Traffic], Arrivals[tuple[str, str]]]


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
    def source(self) -> str: ...
    @property
    def counts(self) -> Counts: ...
    @property
    def latency(self) -> Mapping[int, int]: ...


class Summing:
    """Adds up what it is given, in any order."""

    def __init__(self) -> None:
        self._settled: dict[tuple[str, str, str], Traffic] = {}
        self._counted: dict[str, set[int]] = defaultdict(set)
        self._sources: dict[str, int] = {}
        self._channels: dict[tuple[str, str], int] = {}
        self._pending = tuple(array("q") for _ in range(4))
        none = np.empty(0, dtype=np.int32)
        self._columns: Columns = (none, none, none.astype(np.int64), none.astype(np.int64))

    def delta(self, delta: Delta) -> bool:
        """Add one record of the traffic topic; False: it was already counted."""
        counted = self._counted[delta.by]
        if delta.number in counted:
            return False
        counted.add(delta.number)
        if delta.kind == ACCEPTED:
            self._came(delta.namespace, delta.channel, delta.source, delta.counts)
        else:
            self._done(delta.namespace, delta.channel, delta.subscription, delta.counts, delta.latency)
        return True

    def row(self, row: Row) -> None:
        """Add one merged window. `stored` and `accepted` count the same events, so the caller passes one of them."""
        if row.kind == SETTLED:
            self._done(row.namespace, row.channel, row.subscription, row.counts, row.latency)
        else:
            self._came(row.namespace, row.channel, row.source, row.counts)

    def settled(self, table: pa.Table) -> None:
        """Add rows: namespace, channel, subscription, the counts, and `latency`, a map."""
        for row in table.to_pylist():
            counts = read(row.__getitem__)
            self._done(row["namespace"], row["channel"], row["subscription"], counts, dict(row["latency"]))

    def came(self, table: pa.Table) -> None:
        """Add rows: namespace, channel, source, events, bytes."""
        for batch in table.to_batches():
            names = [batch[name].dictionary_encode() for name in ("namespace", "channel", "source")]
            namespaces, channels, sources = (encoded.dictionary.to_pylist() for encoded in names)
            namespace, channel, source = (encoded.indices.to_numpy() for encoded in names)
            pair, to_pair = np.unique(namespace.astype(np.int64) << 32 | channel, return_inverse=True)
            of_pair = [self._channel(namespaces[key >> 32], channels[key & 0xFFFF_FFFF]) for key in pair.tolist()]
            of_source = [self._source(name) for name in sources]
            self._add_up(
                np.array(of_source, dtype=np.int32)[source],
                np.array(of_pair, dtype=np.int32)[to_pair],
                batch["events"].to_numpy(),
                batch["bytes"].to_numpy(),
            )

    def sums(self) -> Sums:
        """The sums of channels and subscriptions in the order of their keys, and who sent what came."""
        self._flush()
        source, channel, events, size = self._columns
        sources, to_source = _sorted(self._sources)
        channels, to_channel = _sorted(self._channels)
        columns = added_up(to_source[source], to_channel[channel], events, size)
        arrivals = Arrivals(sources, channels, *columns)
        totals = zip(channels, *(total.tolist() for total in arrivals.of_channels()), strict=True)
        accepted = [Traffic(True, namespace, name, counts=Counts(*counts)) for (namespace, name), *counts in totals]
        return [*(self._settled[key] for key in sorted(self._settled)), *accepted], arrivals

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

    def _came(self, namespace: str, channel: str, source: str, counts: Counts) -> None:
        row = (self._source(source), self._channel(namespace, channel), counts.events, counts.bytes)
        for column, value in zip(self._pending, row, strict=True):
            column.append(value)
        if len(self._pending[0]) >= _PENDING_MAX:
            self._flush()

    def _source(self, name: str) -> int:
        return self._sources.setdefault(name, len(self._sources))

    def _channel(self, namespace: str, name: str) -> int:
        return self._channels.setdefault((namespace, name), len(self._channels))

    def _flush(self) -> None:
        source, channel, events, size = (np.array(column, dtype=np.int64) for column in self._pending)
        for column in self._pending:
            del column[:]
        self._add_up(source.astype(np.int32), channel.astype(np.int32), events, size)

    def _add_up(self, source: Numbers, channel: Numbers, events: Ints, size: Ints) -> None:
        before = self._columns
        self._columns = added_up(
            np.concatenate([before[0], source]),
            np.concatenate([before[1], channel]),
            np.concatenate([before[2], events]),
            np.concatenate([before[3], size]),
        )


def _sorted(numbers: dict[Name, int]) -> tuple[list[Name], Numbers]:
    """The names in their order, and the place of each number in it."""
    names = sorted(numbers)
    places = np.empty(len(names), dtype=np.int32)
    places[[numbers[name] for name in names]] = np.arange(len(names))
    return names, places
