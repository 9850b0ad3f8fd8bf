"""How far behind: offsets and metadata in, events and seconds out; and times as people write them."""

from __future__ import annotations

import pytest

from agents.offsets.offset_metadata import read
from agents.offsets.offset_tracker import OffsetTracker
from app.cli.lag import rows
from app.cli.output.time import show_duration, show_time
from app.operations.lag import GroupOffset, Lag, by_lag, events_behind, lag_of
from app.operations.times import read_time
from knative.errors import UsageError

NOW_S = 1_800_000_000.0


def _position(committed: int | None, start: int, end: int, settled: frozenset[int] = frozenset()) -> GroupOffset:
    return GroupOffset("ns/s", "ns/c", "kafka.u", "t", 0, committed, start, end, settled)


@pytest.mark.parametrize(
    ("committed", "start", "end", "settled", "events", "state"),
    [
        (0, 0, 0, (), 0, None),
        (5, 0, 5, (), 0, None),
        (5, 0, 9, (), 4, None),
        (5, 0, 9, (6, 8), 2, None),
        (5, 0, 9, (6, 7, 8), 1, None),  # the head alone
        (5, 7, 9, (6,), 2, "records expired unread"),  # what is gone is neither behind nor settled
        (5, 7, 9, (6, 7), 1, "records expired unread"),
        (None, 3, 9, (), 6, "nothing committed"),
        (12, 0, 9, (), 0, "committed beyond the end"),
        (5, 0, 9, (9, 10), 4, None),  # settled after the end was asked for
    ],
)
def test_events_behind_are_those_after_what_is_settled(
    committed: int | None, start: int, end: int, settled: tuple[int, ...], events: int, state: str | None
) -> None:
    group_offset = _position(committed, start, end, frozenset(settled))
    assert events_behind(group_offset) == events
    assert group_offset.state == state


def test_what_a_commit_says_is_subtracted() -> None:
    """The metadata that delivery writes is what is read here."""
    committable = OffsetTracker(100)
    for offset in range(100, 110):
        committable.add(offset)
    for offset in (101, 103, 109):
        committable.settle(offset)
    committable.failed(100, 2)
    metadata = read(100, committable.metadata())
    group_offset = GroupOffset("ns/s", "ns/c", "kafka.u", "t", 0, 100, 0, 120, metadata.settled, metadata.attempts)
    assert events_behind(group_offset) == 17
    assert rows([lag_of(group_offset, None, NOW_S)], {("kafka.u", 0): "w"})[0].items() >= {
        "settled_above": 3, "attempts": 2, "worker": "w", "seconds": None, "behind": "-",
    }.items()  # fmt: skip


@pytest.mark.parametrize(
    ("committed", "oldest_ms", "seconds"),
    [(9, None, 0.0), (5, 1_799_999_990_500, 9.5), (5, None, None), (5, 1_800_000_001_000, 0.0)],
)
def test_oldest_event_gives_the_seconds(committed: int, oldest_ms: int | None, seconds: float | None) -> None:
    assert lag_of(_position(committed, 0, 9), oldest_ms, NOW_S).seconds == seconds


def test_furthest_behind_comes_first() -> None:
    lags = [Lag(_position(0, 0, 9), events, seconds) for events, seconds in ((0, 0.0), (3, None), (3, 2.0), (7, 1.0))]
    assert [(lag.events, lag.seconds) for lag in by_lag(lags)] == [(7, 1.0), (3, 2.0), (3, None), (0, 0.0)]


@pytest.mark.parametrize(
    ("text", "ago_s"),
    [("90s", 90), ("10m", 600), ("1h30m", 5400), ("2d", 172_800), ("PT10M", 600), ("1.5s", 1.5), ("0s", 0)],
)
def test_duration_is_a_time_before_now(text: str, ago_s: float) -> None:
    assert read_time(text, "--since", NOW_S) == NOW_S - ago_s


@pytest.mark.parametrize(
    ("text", "unix_s"),
    [("2027-01-15T08:00:00Z", NOW_S), ("2027-01-15T09:00:00+01:00", NOW_S), ("2027-01-15T08:00:00.25Z", NOW_S + 0.25)],
)
def test_time_is_read_as_it_is_shown(text: str, unix_s: float) -> None:
    assert read_time(text, "--since", NOW_S) == unix_s
    assert read_time(show_time(unix_s), "--since", 0) == unix_s


@pytest.mark.parametrize("text", ["30000d", "9" * 400 + "d", "0001-01-01T00:00:00Z"])
def test_time_before_those_of_kafka_is_the_first_of_them(text: str) -> None:
    assert read_time(text, "--since", NOW_S) == 0


@pytest.mark.parametrize("text", ["", "10", "yesterday", "2027-01-15", "2027-01-15T08:00:00", "-5m", "P1Y", "m"])
def test_invalid_time_is_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="--since"):
        read_time(text, "--since", NOW_S)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(None, "-"), (0.0, "0s"), (0.42, "0.4s"), (12.3, "12s"), (200, "3m20s"), (7200, "2h"), (356_400, "4d3h")],
)
def test_duration_is_shown_in_its_largest_units(seconds: float | None, expected: str) -> None:
    assert show_duration(seconds) == expected
