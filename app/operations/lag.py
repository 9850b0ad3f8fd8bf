"""Computes the lag of a subscription by partition, in events and in seconds. Pure.

    start          committed                end
      |----settled----|..s..s.s........|     lag in events = unsettled records (.) from the committed offset to the end
                      ^ the oldest unsettled record: its age is the lag in seconds

The metadata of the commit has the settled records above the committed offset. "End minus committed" would count these
as lag for as long as one slow event holds the committed offset back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """The offsets of one subscription in one partition, as Kafka reports them."""

    subscription: str
    channel: str
    group: str
    topic: str
    partition: int
    committed: int | None  #: None: the group has committed nothing there
    start: int  #: of the log
    end: int  #: one past the last record
    settled: frozenset[int] = frozenset()  #: at or above `committed`
    attempts: Mapping[int, int] = field(default_factory=dict)  #: failed ones, of records that are not settled

    @property
    def committable(self) -> int:
        """The lowest offset that may be unsettled. Records that are no longer in the log do not count."""
        return max(self.start, self.committed if self.committed is not None else self.start)

    @property
    def place(self) -> tuple[str, int, int]:
        """Topic, partition and offset of the oldest record that may be unsettled."""
        return self.topic, self.partition, self.committable

    @property
    def state(self) -> str | None:
        """What is unusual about the offsets. None: nothing."""
        if self.committed is None:
            return "nothing committed"
        if self.committed > self.end:
            return "committed beyond the end"
        return "records expired unread" if self.committed < self.start else None


@dataclass(frozen=True, slots=True)
class Lag:
    """The lag of one partition. `seconds` None: there is a lag, but its oldest record could not be read."""

    group_offset: GroupOffset
    events: int
    seconds: float | None


def events_behind(group_offset: GroupOffset) -> int:
    """Returns the number of unsettled records, including those in flight."""
    committable = group_offset.committable
    settled = sum(committable <= offset < group_offset.end for offset in group_offset.settled)
    return max(0, group_offset.end - committable - settled)


def lag_of(group_offset: GroupOffset, oldest_ms: int | None, now_s: float) -> Lag:
    """Returns the lag. `oldest_ms`: the timestamp of the record at the committable offset. None: it is not known."""
    events = events_behind(group_offset)
    if not events:
        return Lag(group_offset, 0, 0.0)
    return Lag(group_offset, events, None if oldest_ms is None else max(0.0, now_s - oldest_ms / 1000))


def by_lag(lags: Iterable[Lag]) -> list[Lag]:
    """Returns the largest lag first: by events, then by seconds, then by name and partition."""
    return sorted(
        lags,
        key=lambda lag: (-lag.events, -(lag.seconds or 0.0), lag.group_offset.subscription, lag.group_offset.partition),
    )
