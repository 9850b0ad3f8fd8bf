"""How far a subscription is behind, partition by partition: in events, and in seconds. Pure.

    start          committed                end
      |----settled----|..s..s.s........|     lag in events = unsettled records (.) from the watermark to the end
                      ^ the oldest unsettled record: its age is the lag in seconds

What lies settled above the watermark is known from the commit's metadata; a plain "end minus committed" would count
it again for as long as one slow key holds the watermark. Refuses to ask Kafka (`app/operations/group_offsets` does) or
a clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """What Kafka says of one partition of one subscription. Offsets; times in milliseconds of Unix time."""

    subscription: str
    channel: str
    group: str
    topic: str
    partition: int
    committed: int | None  #: None: the group has no offset there
    start: int  #: of the log
    end: int  #: one past the last record
    settled: frozenset[int] = frozenset()  #: at or above `committed`
    attempts: Mapping[int, int] = field(default_factory=dict)  #: failed ones, of records that are not settled

    @property
    def committable(self) -> int:
        """The lowest offset that may be unsettled; what the log no longer holds does not count."""
        return max(self.start, self.committed if self.committed is not None else self.start)

    @property
    def place(self) -> tuple[str, int, int]:
        """Topic, partition and offset of the oldest record that may be unsettled."""
        return self.topic, self.partition, self.committable

    @property
    def state(self) -> str:
        """What is odd about it; "" = nothing."""
        if self.committed is None:
            return "nothing committed"
        if self.committed > self.end:
            return "committed beyond the end"
        return "records expired unread" if self.committed < self.start else ""


@dataclass(frozen=True, slots=True)
class Lag:
    """How far behind one partition is. `seconds` None: there is a lag, and its oldest record could not be read."""

    group_offset: GroupOffset
    events: int
    seconds: float | None


def events_behind(group_offset: GroupOffset) -> int:
    """Unsettled records, those being delivered now included."""
    committable = group_offset.committable
    settled = sum(committable <= offset < group_offset.end for offset in group_offset.settled)
    return max(0, group_offset.end - committable - settled)


def lag_of(group_offset: GroupOffset, oldest_ms: int | None, now_s: float) -> Lag:
    """`oldest_ms`: the timestamp of the record at the watermark, None when it is not known."""
    events = events_behind(group_offset)
    if not events:
        return Lag(group_offset, 0, 0.0)
    return Lag(group_offset, events, None if oldest_ms is None else max(0.0, now_s - oldest_ms / 1000))


def by_lag(lags: Iterable[Lag]) -> list[Lag]:
    """The furthest behind first: by events, then by seconds, then by name and partition."""
    return sorted(
        lags,
        key=lambda lag: (-lag.events, -(lag.seconds or 0.0), lag.group_offset.subscription, lag.group_offset.partition),
    )
