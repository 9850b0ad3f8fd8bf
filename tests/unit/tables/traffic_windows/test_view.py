"""The changelog of the traffic windows in memory: which rows a page is made of, and that old ones go."""

from __future__ import annotations

from typing import Any

from knative.traffic.counts import Counts
from tables.kafka.compacted_topic import Record
from tables.traffic_windows.view import Line, TrafficRows
from tables.traffic_windows.windows import LONG_S, SHORT_S, Key, Window

T0 = 1_700_000_040  # the start of a minute


class Clocked:
    """Rows with a clock set by hand."""

    def __init__(self, now: float) -> None:
        self.now = now
        self.rows = TrafficRows("t", {}, 900, 3600, lambda: self.now)

    def put(self, key: Key, accepted: int | None) -> None:
        value = None if accepted is None else Window(1, Counts(accepted)).encode()
        self.rows.apply([Record(key.encode(), value)])

    def seen(self, size: int, last: int, **only: Any) -> dict[str, dict[int, int]]:
        """channel/subscription -> start (from T0) -> accepted."""
        return {
            f"{line.channel}/{line.subscription}": {start - T0: w.counts.events for start, w in line.windows.items()}
            for line in self.rows.lines(size, last, **only)
        }


def key(size: int, start: int, channel: str = "ch", subscription: str = "", namespace: str = "ns") -> Key:
    return Key(size, T0 + start, namespace, channel, subscription)


def test_last_windows_by_name() -> None:
    clocked = Clocked(T0 + 25)
    for start in (0, 10, 20):
        clocked.put(key(SHORT_S, start), start + 1)
    clocked.put(key(SHORT_S, 20, "ch", "sub"), 5)
    clocked.put(key(SHORT_S, 20, "aa"), 6)
    clocked.put(key(SHORT_S, 10, namespace="other"), 7)

    assert clocked.seen(SHORT_S, 2, namespace="ns") == {"aa/": {20: 6}, "ch/": {10: 11, 20: 21}, "ch/sub": {20: 5}}
    assert clocked.seen(SHORT_S, 1) == {"aa/": {20: 6}, "ch/": {20: 21}, "ch/sub": {20: 5}}
    assert clocked.seen(SHORT_S, 3, channels=("ch",), namespace="other") == {"ch/": {10: 7}}
    assert clocked.seen(SHORT_S, 3, channels=("nobody",)) == {}


def test_latest_version_of_a_row_counts() -> None:
    clocked = Clocked(T0)
    clocked.put(key(SHORT_S, 0), 1)
    clocked.put(key(SHORT_S, 0), 2)
    assert clocked.seen(SHORT_S, 1) == {"ch/": {0: 2}}

    clocked.put(key(SHORT_S, 0), None)
    clocked.put(key(SHORT_S, 10), None)
    assert clocked.seen(SHORT_S, 1) == {}


def test_minute_is_its_row_or_the_sum_of_its_windows_until_there_is_one() -> None:
    clocked = Clocked(T0 + 75)
    for start, accepted in ((0, 1), (50, 2), (60, 4), (70, 8)):
        clocked.put(key(SHORT_S, start), accepted)
    clocked.put(key(SHORT_S, 60, "ch", "sub"), 16)
    assert clocked.seen(LONG_S, 2) == {"ch/": {0: 3, 60: 12}, "ch/sub": {60: 16}}

    clocked.put(key(LONG_S, 0), 3)
    assert clocked.seen(LONG_S, 2) == {"ch/": {0: 3, 60: 12}, "ch/sub": {60: 16}}
    assert clocked.seen(LONG_S, 1) == {"ch/": {60: 12}, "ch/sub": {60: 16}}


def test_old_rows_are_dropped_without_tombstones() -> None:
    clocked = Clocked(T0)
    clocked.put(key(SHORT_S, 0), 1)
    clocked.put(key(LONG_S, 0), 1)
    clocked.now = T0 + 1000
    clocked.put(key(SHORT_S, 1000), 1)
    assert set(clocked.rows._rows) == {(LONG_S, T0), (SHORT_S, T0 + 1000)}

    clocked.now = T0 + 4000
    clocked.put(key(SHORT_S, 4000), 1)
    assert set(clocked.rows._rows) == {(SHORT_S, T0 + 4000)}


def test_junk_is_passed_over() -> None:
    clocked = Clocked(T0)
    clocked.rows.apply(
        [Record(b"junk", b"{}"), Record(key(SHORT_S, 0).encode(), b"{"), Record(key(LONG_S, 0).encode(), b"[]")]
    )

    assert clocked.rows.lines(SHORT_S, 1) == []
    assert clocked.rows.lines(LONG_S, 1) == []


def test_reader_that_fails_says_so_and_shows_what_it_has() -> None:
    clocked = Clocked(T0)
    clocked.put(key(SHORT_S, 0), 1)
    clocked.rows._reading_failed(OSError("gone"))

    assert clocked.rows.problem == "OSError: gone"
    assert clocked.rows.lines(SHORT_S, 1) == [Line("ns", "ch", "", {T0: Window(1, Counts(1))})]
