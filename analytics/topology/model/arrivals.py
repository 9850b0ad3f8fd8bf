"""What each source sent to each channel, as columns: a fleet has millions of such pairs, and a pair takes 24 bytes.

row i: sources[source[i]] sent events[i] events of bytes[i] bytes to channels[channel[i]]

They are read with a row for each type of a channel, its stream. Three sums of these rows are in the map: what came from
each source into a channel, what came of each type into a channel (`sources` are then the types), and what each source
sent of each type (`channels` are then the types).
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
Stream = tuple[str, str, str]  #: namespace and unique name of a channel, and a type of the events that come to it
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
        """Yields (source, channel, events, bytes) of each pair."""
        columns = (self.source.tolist(), self.channel.tolist(), self.events.tolist(), self.bytes.tolist())
        for source, channel, events, size in zip(*columns, strict=True):
            yield self.sources[source], self.channels[channel], events, size

    def only(self, rows: NDArray[np.bool_] | Ints) -> Arrivals[Channel]:
        """Returns some of the rows, by mask or by ascending numbers; the names stay."""
        columns = (self.source[rows], self.channel[rows], self.events[rows], self.bytes[rows])
        return Arrivals(self.sources, self.channels, *columns)

    def of_sources(self) -> tuple[Ints, Ints]:
        """Returns the events and bytes of each of `sources`."""
        return _sums(self.source, len(self.sources), self.events), _sums(self.source, len(self.sources), self.bytes)

    def of_channels(self) -> tuple[Ints, Ints]:
        """Returns the events and bytes of each of `channels`."""
        size = len(self.channels)
        return _sums(self.channel, size, self.events), _sums(self.channel, size, self.bytes)


def added_up(source: Numbers, channel: Numbers, events: Ints, size: Ints) -> Columns:
    """Returns the same columns with one row for each pair, in the order of source and channel."""
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


@dataclass(frozen=True, eq=False, slots=True)
class Came:
    """What came into the channels of a map, by ids of vertices. `sources_left_out` and `types_left_out`: how many are
    one vertex because they are beyond the limit. That vertex has the prefix as its id, and events without a source, or
    type, are in it too."""

    published: Arrivals[str]  #: from each source, by channel
    types: Arrivals[str]  #: of each type, by channel
    sent: Arrivals[str]  #: from each source, by type
    sources_left_out: int
    types_left_out: int


def came_into(arrivals: Arrivals[Stream], ids: Mapping[tuple[str, str], str]) -> Came:
    """Returns what came into the channels of `ids` (namespace and unique name -> vertex)."""
    channels, to_channel = _numbered([ids.get(stream[:2]) for stream in arrivals.channels])
    types, to_type = _numbered([stream[2] for stream in arrivals.channels])
    came = arrivals.only((to_channel[arrivals.channel] >= 0) & (arrivals.events > 0))
    channel, type_ = to_channel[came.channel], to_type[came.channel]
    sources, to_source, sources_left_out = _named("source:", arrivals.sources, came.source, came.events, SOURCES_MAX)
    types, to_kept, types_left_out = _named("type:", types, type_, came.events, TYPES_MAX)
    source, type_ = to_source[came.source], to_kept[type_]
    figures = came.events, came.bytes
    return Came(
        Arrivals(sources, channels, *added_up(source, channel, *figures)),
        Arrivals(types, channels, *added_up(type_, channel, *figures)),
        Arrivals(sources, types, *added_up(source, type_, *figures)),
        sources_left_out,
        types_left_out,
    )


def _numbered(names: Sequence[str | None]) -> tuple[list[str], Numbers]:
    """Returns the different names in their order, and the place of each one among them, -1 of None."""
    different = sorted({name for name in names if name is not None})
    places: dict[str | None, int] = {name: place for place, name in enumerate(different)}
    return different, np.array([places.get(name, -1) for name in names], dtype=np.int32)


def _named(
    prefix: str, names: Sequence[str], numbers: Numbers, events: Ints, most: int
) -> tuple[list[str], Numbers, int]:
    """Returns ids of the names with the most events, the place of each name among them, and how many are left out."""
    totals = _sums(numbers, len(names), events)
    busiest = np.argsort(-totals, kind="stable")  # of equal ones, the first by name
    named = [number for number in busiest.tolist() if totals[number] and names[number]]
    kept = sorted(named[:most])
    ids = [f"{prefix}{names[number]}" for number in kept]
    places = np.zeros(len(names), dtype=np.int32)
    if int(totals[kept].sum()) < int(totals.sum()):
        ids.insert(0, prefix)
    places[kept] = np.arange(len(ids) - len(kept), len(ids))
    return ids, places, len(named) - len(kept)


def _sums(numbers: Numbers, size: int, values: Ints) -> Ints:
    """Returns the sum for each number; exact, as bincount with weights is not."""
    sums = np.zeros(size, dtype=np.int64)
    np.add.at(sums, numbers, values)
    return sums
