"""Sums up traffic deltas to windows, the rows of a table. Pure: any mapping of bytes to bytes can be the table.

    delta --add--> window of 10 s (in memory) --flush, once a second--> row of the table
                                                       | its minute is over
                                                       v
                                     row of the minute = the sum of its six windows

Each row has the offset of its last delta (`through`). If a process is killed before it commits, deltas are read again,
and each row skips those that it already has: sums stay exact. A delta that was *sent* twice is recognized by its number
(`Seen`). Old rows are removed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, MutableMapping
from dataclasses import dataclass, field

import orjson

from knative.contract.decoding import INTEGER_MAX
from knative.traffic import latency_sketch
from knative.traffic.counts import Counts, read
from knative.traffic.delta import ACCEPTED, Delta
from knative.traffic.latency_sketch import BUCKET_MAX, LatencySketch

SHORT_S = 10
LONG_S = 60
_LATE_S = 5  #: a minute is summed up this long after its end; later deltas change its row again
_AHEAD_S = 600  #: a delta from further in the future comes from a wrong clock and is dropped
_NUMBERS_MAX = 4096  #: numbers that are remembered for one sender
_SENDERS_MAX = 1000

#: Numbers that have another name in a row.
_STORED_AS = {"events": "accepted", "bytes": "data_bytes"}


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """Identifies a window: size and start in (Unix) seconds, of a channel (`subscription` is "") or a subscription."""

    size: int
    start: int
    namespace: str
    channel: str
    subscription: str = ""

    def encode(self) -> bytes:
        """Returns the key of a row."""
        return f"{self.size}/{self.start}/{self.namespace}/{self.channel}/{self.subscription}".encode()

    @classmethod
    def decode(cls, key: bytes) -> Key:
        """Returns the window of a row's key. Raises ValueError if the key is not valid."""
        size, start, namespace, channel, subscription = key.decode().split("/")
        if int(size) not in (SHORT_S, LONG_S):
            raise ValueError(f"{size} is not the size of a window")
        return cls(int(size), int(start), namespace, channel, subscription)


@dataclass(slots=True)
class Window:
    """The numbers of one row. Those of a channel are events and bytes; a subscription has all but events."""

    through: int = -1  #: offset of the last delta in it
    counts: Counts = field(default_factory=Counts)
    latency: LatencySketch = field(default_factory=dict)

    def add(self, delta: Delta, offset: int) -> bool:
        """Count the delta at `offset`; False if it was counted before."""
        if offset <= self.through:
            return False
        self.through = offset
        counts = self.counts + delta.counts
        if delta.kind != ACCEPTED:
            counts.events = 0  # of a subscription, how its events were settled says as much
        self.counts = counts
        latency_sketch.merge(self.latency, delta.latency)
        return True

    def encode(self) -> bytes:
        """Returns the value of a row: JSON without zeros."""
        row: dict[str, object] = {
            _STORED_AS.get(name, name): min(count, INTEGER_MAX) for name, count in self.counts.nonzero().items()
        }
        if self.latency:
            row["latency"] = {str(bucket): min(count, INTEGER_MAX) for bucket, count in sorted(self.latency.items())}
        return orjson.dumps({"through": self.through, **row})

    @classmethod
    def decode(cls, value: bytes) -> Window:
        """Returns the numbers of a row's value. Raises ValueError if it is not valid."""
        row = orjson.loads(value)
        if not isinstance(row, dict) or not isinstance(row.get("latency", {}), dict):
            raise ValueError("not a row of the traffic windows")
        latency = {_whole(int(bucket), BUCKET_MAX): _whole(count) for bucket, count in row.get("latency", {}).items()}
        return cls(
            _whole(row.get("through"), least=-1),
            read(lambda name: _whole(row.get(_STORED_AS.get(name, name), 0))),
            latency,
        )


def events_of(value: bytes) -> int:
    """Returns the events of a row that `Window.decode` has accepted: those that were accepted, or delivered. Takes a
    twentieth of the time."""
    row = orjson.loads(value)
    return int(row.get("accepted", row.get("delivered", 0)))


def _whole(number: object, most: int = INTEGER_MAX, least: int = 0) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
        raise ValueError("a row of the traffic windows has a number that is not valid")
    return number


def merged(windows: Iterable[Window]) -> Window:
    """Returns the sum of all windows."""
    whole = Window()
    for window in windows:
        whole.through = max(whole.through, window.through)
        whole.counts += window.counts
        latency_sketch.merge(whole.latency, window.latency)
    return whole


def start_of(at: int, size: int) -> int:
    """Returns the start of the window of `size` seconds that contains the second `at`."""
    return at - at % size


class Seen:
    """Remembers deltas by sender and number, because a delta that its sender sent again may come twice."""

    def __init__(self) -> None:
        self._senders: OrderedDict[str, set[int]] = OrderedDict()

    def first(self, by: str, number: int) -> bool:
        """Returns whether this delta was not seen before."""
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
            self._senders[by] = {seen for seen in numbers if seen > least}
        return True


class Windows:
    """Keeps the rows of a table up to date. `rows` is the table; writing to it is expensive, so `flush` writes."""

    def __init__(
        self, rows: MutableMapping[bytes, bytes], short_keep_s: int, long_keep_s: int, seen: Seen | None = None
    ) -> None:
        self._rows = rows
        self._keep_s = {SHORT_S: short_keep_s, LONG_S: long_keep_s}
        self._seen = seen or Seen()
        self._open: dict[Key, Window] = {}  # windows that were read or written recently
        self._changed: set[Key] = set()
        self._minutes: set[Key] = set()  # minutes to sum up (again) when they are over
        self._starts: dict[tuple[int, int], set[Key]] = {}  # (size, start) -> keys in the table
        self._swept_at = 0

    def load(self, now: float) -> None:
        """Read the keys of an existing table: find minutes to sum up, and rows to remove later."""
        for raw in list(self._rows):
            try:
                key = Key.decode(raw)
            except ValueError:
                del self._rows[raw]
                continue
            self._index(key)
            if key.size == SHORT_S:
                self._minutes.add(minute_of(key))
        self._sum_up_minutes(now)  # before old windows are removed, and before `add` changes a minute directly

    def add(self, delta: Delta, offset: int, now: float) -> bool:
        """Count the delta at `offset`; False if it was counted before, is too old, or is too far in the future."""
        if delta.at > now + _AHEAD_S or not self._seen.first(delta.by, delta.number):
            return False
        short = Key(SHORT_S, start_of(delta.at, SHORT_S), delta.namespace, delta.channel, delta.subscription)
        minute = minute_of(short)
        if self._kept(short, now):
            self._minutes.add(minute)
            key = short
        elif self._kept(minute, now):
            key = minute  # its windows of 10 s are removed already, so the minute takes the delta itself
        else:
            return False
        if not self._window(key).add(delta, offset):
            return False
        self._changed.add(key)
        return True

    def flush(self, now: float) -> int:
        """Write the changed rows; returns their number."""
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
        """Returns whether a window is kept. Windows expire by whole minutes: a minute's sum needs all its windows."""
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
        except ValueError:
            return None  # overwrite what cannot be read

    def _sum_up_minutes(self, now: float) -> None:
        over = {key for key in self._minutes if key.start + LONG_S + _LATE_S <= now}
        self._minutes -= over
        for minute in over:
            parts = [self._open.get(key) or self._stored(key) for key in parts_of(minute)]
            whole = merged(part for part in parts if part is not None)
            # A row that already covers these deltas (it took late ones directly) must not lose them.
            if whole.through > self._window(minute).through:
                self._open[minute] = whole
                self._changed.add(minute)

    def _index(self, key: Key) -> None:
        self._starts.setdefault((key.size, key.start), set()).add(key)

    def _sweep(self, now: float) -> None:
        """Remove old rows, and drop windows from memory that have not changed recently (the table has them)."""
        for place in [place for place, keys in self._starts.items() if not self._kept(next(iter(keys)), now)]:
            for key in self._starts.pop(place):
                self._rows.pop(key.encode(), None)
                self._open.pop(key, None)
        for key in [key for key in self._open if key.start + key.size + 2 * LONG_S < now]:
            del self._open[key]


def minute_of(short: Key) -> Key:
    """Returns the minute of a window of 10 s."""
    return Key(LONG_S, start_of(short.start, LONG_S), short.namespace, short.channel, short.subscription)


def parts_of(minute: Key) -> Iterator[Key]:
    """Yields the six windows of a minute."""
    for start in range(minute.start, minute.start + LONG_S, SHORT_S):
        yield Key(SHORT_S, start, minute.namespace, minute.channel, minute.subscription)
