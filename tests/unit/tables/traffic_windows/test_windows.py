"""Traffic windows: sums stay exact whatever is read twice, minutes are made of their windows, and everything ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knative.traffic.counts import NAMES, Counts
from knative.traffic.delta import Delta
from tables.traffic_windows.windows import LONG_S, SHORT_S, Key, Seen, Window, Windows, merged

T0 = 1_700_000_040  # the start of a minute
KEEP = (900, 3600)
ACCEPTED = Delta("w", 1, T0, "accepted", "ns", "ch", type="t", source="/s", counts=Counts(5, 50))
SETTLED = Delta("w", 2, T0 + 1, "settled", "ns", "ch", "sub", "t", "/s", Counts(4, 40, 3, 2, 1), {1: 2, 9: 1})
CHANNEL, SUBSCRIPTION = Key(SHORT_S, T0, "ns", "ch"), Key(SHORT_S, T0, "ns", "ch", "sub")

counts = st.builds(Counts, *(st.integers(0, 10**6) for _ in NAMES))
windows = st.builds(Window, st.integers(0, 10**9), counts, st.dictionaries(st.integers(0, 240), st.integers(1, 99)))


def table() -> tuple[dict[bytes, bytes], Windows]:
    rows: dict[bytes, bytes] = {}
    return rows, Windows(rows, *KEEP)


def read(rows: Mapping[bytes, bytes]) -> dict[Key, Window]:
    return {Key.decode(key): Window.decode(value) for key, value in rows.items()}


@given(windows)
def test_row_comes_back_as_it_was(window: Window) -> None:
    assert Window.decode(window.encode()) == window


def test_key_comes_back_as_it_was() -> None:
    assert [Key.decode(key.encode()) for key in (CHANNEL, SUBSCRIPTION)] == [CHANNEL, SUBSCRIPTION]


@pytest.mark.parametrize("junk", [b"", b"10/1", b"x/1/ns/ch/", b"10/x/ns/ch/", b"7/1/ns/ch/", b"\xff/1/ns/ch/"])
def test_junk_is_not_a_key(junk: bytes) -> None:
    with pytest.raises(ValueError, match=r"unpack|invalid literal|not the size|can't decode"):
        Key.decode(junk)


def test_deltas_add_up_in_their_windows() -> None:
    rows, kept = table()

    assert kept.add(ACCEPTED, 0, T0)
    assert kept.add(SETTLED, 1, T0)
    assert kept.add(replace(SETTLED, number=3, at=T0 + 9), 2, T0)
    assert kept.add(replace(SETTLED, number=4, at=T0 + 10), 3, T0)
    assert kept.flush(T0 + 1) == 3

    stored = read(rows)
    assert stored[CHANNEL] == Window(0, Counts(5, 50))
    assert stored[SUBSCRIPTION] == Window(2, Counts(0, 80, 6, 4, 2), {1: 4, 9: 2})
    assert stored[replace(SUBSCRIPTION, start=T0 + 10)] == Window(3, Counts(0, 40, 3, 2, 1), {1: 2, 9: 1})


def test_bytes_of_a_row() -> None:
    window = Window(7, Counts(1, 2, 3, 4, 5, 6, 7), {9: 2, 1: 4})
    stored = (
        b'{"through":7,"accepted":1,"data_bytes":2,"delivered":3,"retried":4,"dead":5,"filtered":6,"ignored":7,'
        b'"latency":{"1":4,"9":2}}'
    )
    assert (window.encode(), Window.decode(stored)) == (stored, window)
    assert Window(0, Counts(0, 80)).encode() == b'{"through":0,"data_bytes":80}'


def test_flush_writes_only_what_has_changed() -> None:
    _, kept = table()
    kept.add(ACCEPTED, 0, T0)

    assert (kept.flush(T0), kept.flush(T0 + 1)) == (1, 0)


def test_delta_that_was_sent_twice_counts_once() -> None:
    rows, kept = table()

    assert [kept.add(ACCEPTED, offset, T0) for offset in (0, 1)] == [True, False]
    kept.flush(T0)
    assert read(rows)[CHANNEL].counts.events == 5


@given(st.lists(st.integers(0, 130), min_size=1, max_size=30), st.data())
def test_sums_are_exact_when_deltas_are_read_again(seconds: list[int], data: st.DataObject) -> None:
    """Killed at any flush, and read again from any offset before it: as if nothing had happened."""
    deltas = [
        replace(ACCEPTED, number=n, at=T0 + at, latency={}, counts=Counts(n + 1))
        for n, at in enumerate(sorted(seconds))
    ]
    rows, kept = table()
    for offset, delta in enumerate(deltas):
        kept.add(delta, offset, delta.at)
        if data.draw(st.booleans()):
            kept.flush(delta.at)
            if data.draw(st.booleans()):
                kept = Windows(rows, *KEEP)
                kept.load(delta.at)
                for again in range(data.draw(st.integers(0, offset)), offset + 1):
                    kept.add(deltas[again], again, delta.at)
    kept.flush(T0 + 200)

    stored = read(rows)
    for size in (SHORT_S, LONG_S):
        expected: dict[int, int] = {}
        for delta in deltas:
            start = delta.at - delta.at % size
            expected[start] = expected.get(start, 0) + delta.counts.events
        assert {key.start: window.counts.events for key, window in stored.items() if key.size == size} == expected


def test_minute_is_summed_up_when_it_is_over_and_again_for_what_comes_late() -> None:
    rows, kept = table()
    minute = replace(CHANNEL, size=LONG_S)
    kept.add(ACCEPTED, 0, T0)
    kept.add(replace(ACCEPTED, number=3, at=T0 + 59), 1, T0 + 60)
    kept.flush(T0 + 60)
    assert minute not in read(rows)

    kept.flush(T0 + 65)
    assert read(rows)[minute].counts.events == 10

    kept.add(replace(ACCEPTED, number=4, at=T0 + 30), 2, T0 + 70)
    kept.flush(T0 + 70)
    assert read(rows)[minute].counts.events == 15


def test_what_comes_when_its_windows_are_gone_counts_in_its_minute() -> None:
    rows, kept = table()
    kept.add(ACCEPTED, 0, T0)
    kept.flush(T0 + 66)
    late = T0 + 60 + KEEP[0]
    kept.flush(late)
    assert set(read(rows)) == {replace(CHANNEL, size=LONG_S)}

    assert kept.add(replace(ACCEPTED, number=5), 7, late)
    kept.flush(late)
    assert read(rows) == {replace(CHANNEL, size=LONG_S): Window(7, Counts(10, 100))}


def test_rows_end_with_their_time() -> None:
    rows, kept = table()
    kept.add(ACCEPTED, 0, T0)
    kept.flush(T0 + 66)
    kept.flush(T0 + 60 + KEEP[1])

    assert rows == {}
    assert not kept.add(replace(ACCEPTED, number=9), 9, T0 + 60 + KEEP[1])


def test_rows_of_a_former_process_end_too_and_junk_at_once() -> None:
    rows = {CHANNEL.encode(): Window(1, Counts(5)).encode(), b"junk": b"1"}
    kept = Windows(rows, *KEEP)
    kept.load(T0 + 30)
    assert set(rows) == {CHANNEL.encode()}

    kept.flush(T0 + 66)
    assert len(rows) == 2
    kept.flush(T0 + 60 + KEEP[1])
    assert rows == {}


def test_clock_that_is_far_ahead_leaves_no_row_for_ever() -> None:
    rows, kept = table()

    assert not kept.add(replace(ACCEPTED, at=T0 + 10_000), 0, T0)
    kept.flush(T0)
    assert rows == {}


def test_row_that_cannot_be_read_is_written_over() -> None:
    rows = {CHANNEL.encode(): b"{"}
    kept = Windows(rows, *KEEP)
    kept.add(ACCEPTED, 0, T0)
    kept.flush(T0)

    assert read(rows)[CHANNEL].counts.events == 5


def test_of_a_sender_only_the_latest_numbers_are_kept() -> None:
    seen = Seen()
    assert all(seen.first("w", number) for number in range(10_000))
    assert not seen.first("w", 9_999)
    assert all(seen.first(f"w{number}", 1) for number in range(2_000))
    assert len(seen._senders) == 1000
    assert max(map(len, seen._senders.values())) <= 8192


@given(st.lists(windows, max_size=5))
def test_merged_windows_lose_nothing(several: list[Window]) -> None:
    whole = merged(several)

    assert whole.counts.delivered == sum(window.counts.delivered for window in several)
    assert sum(whole.latency.values()) == sum(sum(window.latency.values()) for window in several)
