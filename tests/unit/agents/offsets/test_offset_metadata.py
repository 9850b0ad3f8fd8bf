"""The metadata of commits: what is written is read back, within the broker's limit, and nothing is ever invented."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from agents.offsets.offset_metadata import (
    METADATA_MAX,
    NO_METADATA,
    SPAN_MAX,
    STARTED_MAX,
    OffsetMetadata,
    read,
    write,
)
from tests.support.profiles import examples

NOW = 1_800_000_000.0


@given(
    start=st.integers(0, 2**40),
    above=st.sets(st.integers(1, SPAN_MAX - 1), max_size=3000),
    failed=st.dictionaries(st.integers(0, SPAN_MAX - 1), st.integers(1, 20_000), max_size=STARTED_MAX),
    waits=st.lists(st.none() | st.floats(0.0, 100_000.0), min_size=STARTED_MAX, max_size=STARTED_MAX),
)
@examples(60)
def test_round_trip_and_bound(start: int, above: set[int], failed: dict[int, int], waits: list[float | None]) -> None:
    attempts = {start + o: n for o, n in failed.items() if o not in above}
    due = {o: NOW + wait for o, wait in zip(attempts, waits, strict=False) if wait is not None}
    settled = frozenset(start + o for o in above)
    text = write(start, settled, attempts, due)
    assert len(text) <= METADATA_MAX
    metadata = read(start, text)
    assert metadata.settled == settled
    assert metadata.attempts == {o: min(n, 16_383) for o, n in attempts.items()}
    assert metadata.due.keys() == due.keys()
    earliest = min(due.values(), default=0.0)
    for offset, time in due.items():
        late = metadata.due[offset] - time
        assert -1e-6 <= late <= 0.11 * (1 + time - earliest) + 0.002, "never before its time, and not much later"


def test_longest_metadata_fits_into_the_limit() -> None:
    noise = random.Random(1)
    above = frozenset(o for o in range(1, SPAN_MAX) if noise.random() < 0.5)
    free = noise.sample([o for o in range(SPAN_MAX) if o not in above], STARTED_MAX)
    attempts = {o: 16_383 - o % 97 for o in free}
    text = write(0, above, attempts, {o: NOW + noise.random() * 100_000 for o in free})
    assert 3_000 < len(text) <= METADATA_MAX


def test_wait_beyond_the_scale_is_cut_to_days() -> None:
    metadata = read(5, write(5, frozenset(), {5: 1, 6: 1}, {5: NOW, 6: NOW + 10_000_000}))
    assert 2 * 86_400 < metadata.due[6] - NOW < 4 * 86_400


@given(text=st.one_of(st.text(max_size=50), st.text(max_size=50).map(lambda t: "p2:" + t)), offset=st.integers(0, 1000))
def test_foreign_metadata_reads_as_nothing(text: str, offset: int) -> None:
    assert read(offset, text) == NO_METADATA


@given(at=st.integers(3, 60), flip=st.integers(1, 255))
def test_damaged_metadata_reads_as_nothing(at: int, flip: int) -> None:
    text = write(100, frozenset(range(103, 400, 7)), {100: 2}, {100: NOW})
    at = 3 + at % (len(text) - 3)
    damaged = text[:at] + chr((ord(text[at]) ^ flip) & 0x7F) + text[at + 1 :]
    assert read(100, damaged) in (NO_METADATA, read(100, text))  # base85 has two spellings of nothing else


def test_metadata_belongs_to_its_offset() -> None:
    text = write(100, frozenset({103}), {100: 2}, {})
    assert read(100, text) == OffsetMetadata(frozenset({103}), {100: 2})
    assert read(90, text) == NO_METADATA
    assert read(100, None) == NO_METADATA
