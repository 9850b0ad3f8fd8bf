"""What each source sent to each channel, as columns: a fleet has millions of such pairs, and a pair takes 24 bytes.

row i: sources[source[i]] sent events[i] events of bytes[i] bytes to channels[channel[i]]

The same columns say how much of each type came to each channel: `sources` are then the types.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

SOURCES_MAX = 2_000  #: named sources; the rest, with the fewest events, is one vertex. Senders may invent any number.
TYPES_MAX = 2_000  #: the same of event types

Channel = TypeVar("Channel", bound=Hashable)
Numbers = NDArray[np.int32]
Ints = NDArray[np.int64]
Columns = tuple[Numbers, Numbers, Ints, Ints]


@dataclass(frozen=True, eq=False, slots=True)
class Arrivals(Generic[Channel]):
    """Rows in the order of source and channel, each pair once. `sources` and `channels` are sorted."""

    sources: Sequence[str]
    channels: Sequence[Channel]
    source: Numbers
    channel: Numbers
    events: Ints
    bytes: Ints

    def __len__(self) -> int:
        return len(self.source)

    def rows(self) -> Iterator[tuple[str, Channel, int, int]]:
        """(source, channel, events, bytes) of each pair."""
        columns = (self.source.tolist(), self.channel.tolist(), self.events.tolist(), self.bytes.tolist())
        for source, channel, events, size in zip(*columns, strict=True):
            yield self.sources[source], self.channels[channel], events, size

    def only(self, rows: NDArray[np.bool_] | Ints) -> Arrivals[Channel]:
        """Some of the rows, by mask or by ascending numbers; the names stay."""
        columns = (self.source[rows], self.channel[rows], self.events[rows], self.bytes[rows])
        return Arrivals(self.sources, self.channels, *columns)

    def of_sources(self) -> tuple[Ints, Ints]:
        """The events and bytes of each of `sources`."""
        return _sums(self.source, len(self.sources), self.events), _sums(self.source, len(self.sources), self.bytes)

    def of_channels(self) -> tuple[Ints, Ints]:
        """The events and bytes of each of `channels`."""
        size = len(self.channels)
        return _sums(self.channel, size, self.events), _sums(self.channel, size, self.bytes)


def added_up(source: Numbers, channel: Numbers, events: Ints, size: Ints) -> Columns:
    """The same columns with one row for each pair, in the order of source and channel."""
    key = source.astype(np.int64) << 32 | channel
    if (key[1:] > key[:-1]).all():
        return source, channel, events, size
    order = np.argsort(key, kind="stable")
    key = key[order]
    starts = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
    pairs = key[starts]
    return (
        (pairs >> 32).astype(np.int32),
        (pairs & 0xFFFF_FFFF).astype(np.int32),
        np.add.reduceat(events[order], starts),
        np.add.reduceat(size[order], starts),
    )


def published(
    arrivals: Arrivals[tuple[str, str]], ids: Mapping[tuple[str, str], str], prefix: str = "source:"
) -> tuple[Arrivals[str], int]:
    """What came into the channels of `ids` (namespace and unique name -> vertex), by ids of vertices, and how many
    sources (of `type:`, types) are one vertex because they are beyond the limit. That vertex has the prefix as its id,
    and events without a source are in it too.
    """
    most = SOURCES_MAX if prefix == "source:" else TYPES_MAX
    channels = sorted(ids[name] for name in arrivals.channels if name in ids)
    places = {id_: place for place, id_ in enumerate(channels)}
    to_channel = np.array([places[ids[name]] if name in ids else -1 for name in arrivals.channels], dtype=np.int32)
    came = arrivals.only((to_channel[arrivals.channel] >= 0) & (arrivals.events > 0))
    totals, _ = came.of_sources()
    busiest = np.argsort(-totals, kind="stable")  # of equal ones, the first by name
    named = [number for number in busiest.tolist() if totals[number] and arrivals.sources[number]]
    kept = sorted(named[:most])
    sources = [f"{prefix}{arrivals.sources[number]}" for number in kept]
    to_source = np.zeros(len(totals), dtype=np.int32)
    if int(totals[kept].sum()) < int(totals.sum()):
        sources.insert(0, prefix)
    to_source[kept] = np.arange(len(sources) - len(kept), len(sources))
    columns = added_up(to_source[came.source], to_channel[came.channel], came.events, came.bytes)
    return Arrivals(sources, channels, *columns), len(named) - len(kept)


def _sums(numbers: Numbers, size: int, values: Ints) -> Ints:
    """The sum for each number; exact, as bincount with weights is not."""
    sums = np.zeros(size, dtype=np.int64)
    np.add.at(sums, numbers, values)
    return sums
