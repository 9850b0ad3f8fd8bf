"""Ranges of a partition's log, and who may take them: what makes one fetch safe for many members. Pure.

    log        100 101 102 103 104 105 106 107 108          a range [start, end) holds every record of the log from
    range               [--------------)                    `start` up to, without, `end`
    position    A        B         C         D
                |        |         |         +-- at the end or beyond: it has all of this
                |        |         +------------ inside: takes what is left, and continues at `end`
                |        +---------------------- at the start: takes all
                +------------------------------- before the start: must not take it, or it would lose 100 and 101

The position of a member is the first offset that it has not taken. It moves only to the end of a range that covers it.
So a member may take ranges of any reader, in any order, and neither loses a record nor takes one twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from agents.offsets.partition import Delivery, PartitionState
from knative.filters.attributes import attributes_of

NEAR = 10_000  #: records: members that are no further behind the first one start together with it


@dataclass(eq=False)  # not frozen: to make one would take three times as long
class Record:
    """One record of a partition, as all members of this process see it. Nobody changes it."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    size: int  #: in memory, in bytes
    timestamp_ms: int

    @cached_property
    def attributes(self) -> dict[str, str] | None:
        """The attributes that filters see; None if it is not a CloudEvent."""
        return attributes_of(self.headers, self.value)


class Range(NamedTuple):
    """What the log of one partition holds from `start` up to, without, `end`. Offsets without a record are possible."""

    number: int
    start: int
    end: int
    records: list[Record] | list[Delivery]
    size: int  #: of the records, in bytes
    owner: PartitionState | None = None  #: who alone may take it: the records are its deliveries


def covers(start: int, end: int, position: int) -> bool:
    """Returns whether a member at this position takes the range."""
    return start <= position < end


def parts(range_: Range, most: int) -> Iterator[Range]:
    """Yields the range as ranges of at most so many records, one behind the other."""
    if len(range_.records) <= most:
        yield range_
        return
    start = range_.start
    for first in range(0, len(range_.records), most):
        rest = range_.records[first + most : first + most + 1]
        end = rest[0].offset if rest else range_.end
        records = range_.records[first : first + most]
        yield Range(range_.number, start, end, records, sum(record.size for record in records), range_.owner)
        start = end


def first_offset(positions: Collection[int]) -> int:
    """Returns where the reader begins to read a partition: at the hindmost of the members that are near the first.
    Those further behind catch up on their own, so that they hold nobody up."""
    front = max(positions)
    return min(position for position in positions if front - position <= NEAR)
