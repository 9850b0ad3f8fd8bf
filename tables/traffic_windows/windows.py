"""Traffic windows: deltas in, rows of a table out. Pure: a mapping of bytes to bytes stands for the table.

    delta --add--> window of 10 s (in memory) --flush, once a second--> row of the table
                                                       | its minute is over
                                                       v
                                     row of the minute = the sum of its six windows

A row knows the offset of the last delta in it (`through`). Deltas that are read again, because the process that read
them first was killed before it could commit, are passed over row by row: sums stay exact. A delta that was *sent* twice
is known by its number (`Seen`). Old rows are removed. Refuses to read a clock, and to keep what is older than it shall.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, MutableMapping
from dataclasses import dataclass, field

import orjson

from knative.traffic import latency_sketch
from knative.traffic.delta import ACCEPTED, Delta
from knative.traffic.latency_sketch import LatencySketch

SHORT_S = 10
LONG_S = 60
_LATE_S = 5  #: a minute is summed up when it has been over for so long; what comes later changes its row again
_AHEAD_S = 600  #: further ahead than that no honest clock is
_NUMBERS_MAX = 4096  #: of one sender: older ones count as seen
_SENDERS_MAX = 1000

_COUNTS = ("accepted", "data_bytes", "delivered", "retried", "dead", "filtered", "ignored")


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """Which window: its size and start in (Unix) seconds, of a channel (`subscription` "") or of a subscription."""

    size: int
    start: int
    namespace: str
    channel: str
    subscription: str = ""

    def encode(self) -> bytes:
        """The key of a row."""
        return f"{self.size}/{self.start}/{self.namespace}/{self.channel}/{self.subscription}".encode()

    @classmethod
    def decode(cls, key: bytes) -> Key:
        """Back. Raises ValueError for what is no key."""
        size, start, namespace, channel, subscription = key.decode().split("/")
        return cls(int(size), int(start), namespace, channel, subscription)


@dataclass(slots=True)
class Window:
    """The numbers of one row. `accepted` and `data_bytes` of a channel; all but `accepted` of a subscription."""

    through: int = -1  #: offset of the last delta in it
    accepted: int = 0
    data_bytes: int = 0
    delivered: int = 0
    retried: int = 0
    dead: int = 0
    filtered: int = 0
    ignored: int = 0
    latency: LatencySketch = field(default_factory=dict)

    def add(self, delta: Delta, offset: int) -> bool:
        """Count a delta; False when it is in already."""
        if offset <= self.through:
            return False
        self.through = offset
        if delta.kind == ACCEPTED:
            self.accepted += delta.events
        self.data_bytes += delta.bytes
        self.delivered += delta.delivered
        self.retried += delta.retried
        self.dead += delta.dead
        self.filtered += delta.filtered
        self.ignored += delta.ignored
        latency_sketch.merge(self.latency, delta.latency)
        return True

    def encode(self) -> bytes:
        """The value of a row: JSON without what is zero."""
        row: dict[str, object] = {name: getattr(self, name) for name in _COUNTS if getattr(self, name)}
        if self.latency:
            row["latency"] = {str(bucket): count for bucket, count in sorted(self.latency.items())}
        return orjson.dumps({"through": self.through, **row})

    @classmethod
    def decode(cls, value: bytes) -> Window:
        """Back. Raises ValueError, KeyError or TypeError for junk."""
        row = orjson.loads(value)
        if not isinstance(row, dict) or not isinstance(row.get("latency", {}), dict):
            raise ValueError("no row of the traffic windows")
        latency = {int(bucket): int(count) for bucket, count in row.get("latency", {}).items()}
        return cls(int(row["through"]), **{name: int(row.get(name, 0)) for name in _COUNTS}, latency=latency)


def merged(windows: Iterable[Window]) -> Window:
    """All of them in one."""
    whole = Window()
    for one in windows:
        whole.through = max(whole.through, one.through)
        for name in _COUNTS:
            setattr(whole, name, getattr(whole, name) + getattr(one, name))
        latency_sketch.merge(whole.latency, one.latency)
    return whole


def start_of(at: int, size: int) -> int:
    """The start of the window that holds a second."""
    return at - at % size


class Seen:
    """Which deltas there were, by sender and number: one that its sender had to send again may come twice."""

    def __init__(self) -> None:
        self._senders: OrderedDict[str, set[int]] = OrderedDict()

    def first(self, by: str, number: int) -> bool:
        """True the first time."""
        numbers = self._senders.get(by)
        if numbers is None:
            numbers = self._senders[by] = set()
            if len(self._senders) > _SENDERS_MAX:
                self._senders.popitem(last=False)
        self._senders.move_to_end(by)
        if number in numbers:
            return False
        numbers.add(number)
        if len(numbers) > 2 * _NUMBERS_MAX:
            least = max(numbers) - _NUMBERS_MAX
            self._senders[by] = {one for one in numbers if one > least}
        return True


class Windows:
    """Keeps the rows of a table up to date. `rows` is the table: a mapping, each write to which has its price."""

    def __init__(
        self, rows: MutableMapping[bytes, bytes], short_keep_s: int, long_keep_s: int, seen: Seen | None = None
    ) -> None:
        self._rows = rows
        self._keep_s = {SHORT_S: short_keep_s, LONG_S: long_keep_s}
        self._seen = seen or Seen()
        self._open: dict[Key, Window] = {}  # read or written lately
        self._changed: set[Key] = set()
        self._minutes: set[Key] = set()  # to be summed up (again) when they are over
        self._starts: dict[tuple[int, int], set[Key]] = {}  # (size, start) -> keys in the table
        self._swept_at = 0

    def load(self, now: float) -> None:
        """Look at the table as it was found: what must be summed up, and what will have to be removed."""
        for raw in list(self._rows):
            try:
                key = Key.decode(raw)
            except ValueError:
                del self._rows[raw]
                continue
            self._index(key)
            if key.size == SHORT_S:
                self._minutes.add(minute_of(key))
        self._sum_up_minutes(now)  # before anything is added to a minute whose windows will go

    def add(self, delta: Delta, offset: int, now: float) -> bool:
        """Count a delta that lies at `offset`; False for one that is in already, too old, or of a clock gone mad."""
        if delta.at > now + _AHEAD_S or not self._seen.first(delta.by, delta.number):
            return False
        short = Key(SHORT_S, start_of(delta.at, SHORT_S), delta.namespace, delta.channel, delta.subscription)
        minute = minute_of(short)
        if self._kept(short, now):
            self._minutes.add(minute)
            key = short
        elif self._kept(minute, now):
            key = minute  # its windows are gone
        else:
            return False
        if not self._window(key).add(delta, offset):
            return False
        self._changed.add(key)
        return True

    def flush(self, now: float) -> int:
        """Write what has changed; the number of rows written."""
        self._sum_up_minutes(now)
        written = len(self._changed)
        for key in sorted(self._changed):
            self._rows[key.encode()] = self._open[key].encode()
            self._index(key)
        self._changed.clear()
        if now - self._swept_at >= SHORT_S:
            self._swept_at = int(now)
            self._sweep(now)
        return written

    def _kept(self, key: Key, now: float) -> bool:
        """Windows go by whole minutes, or one could no longer be summed up."""
        return start_of(key.start, LONG_S) + LONG_S > now - self._keep_s[key.size]

    def _window(self, key: Key) -> Window:
        window = self._open.get(key)
        if window is None:
            window = self._open[key] = self._stored(key) or Window()
        return window

    def _stored(self, key: Key) -> Window | None:
        value = self._rows.get(key.encode())
        if value is None:
            return None
        try:
            return Window.decode(value)
        except (ValueError, KeyError, TypeError):
            return None  # junk is written over

    def _sum_up_minutes(self, now: float) -> None:
        over = {key for key in self._minutes if key.start + LONG_S + _LATE_S <= now}
        self._minutes -= over
        for minute in over:
            parts = [self._open.get(key) or self._stored(key) for key in parts_of(minute)]
            whole = merged(part for part in parts if part is not None)
            if whole.through > self._window(minute).through:
                self._open[minute] = whole
                self._changed.add(minute)

    def _index(self, key: Key) -> None:
        self._starts.setdefault((key.size, key.start), set()).add(key)

    def _sweep(self, now: float) -> None:
        """Remove rows that are too old, and forget what has not changed for a while (the table has it)."""
        for place in [place for place, keys in self._starts.items() if not self._kept(next(iter(keys)), now)]:
            for key in self._starts.pop(place):
                self._rows.pop(key.encode(), None)
                self._open.pop(key, None)
        for key in [key for key in self._open if key.start + key.size + 2 * LONG_S < now]:
            del self._open[key]


def minute_of(short: Key) -> Key:
    """The minute that a window of 10 s belongs to."""
    return Key(LONG_S, start_of(short.start, LONG_S), short.namespace, short.channel, short.subscription)


def parts_of(minute: Key) -> Iterator[Key]:
    """The six windows that a minute is made of."""
    for start in range(minute.start, minute.start + LONG_S, SHORT_S):
        yield Key(SHORT_S, start, minute.namespace, minute.channel, minute.subscription)
