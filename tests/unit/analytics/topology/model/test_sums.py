"""Columns add up to what plain dictionaries add up to, whatever the order and however often they are added up."""

from __future__ import annotations

import tracemalloc
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analytics.topology.model import arrivals as columns
from analytics.topology.model import sums
from analytics.topology.model.arrivals import Arrivals, published
from analytics.topology.model.sums import Summing
from knative.traffic.counts import Counts
from knative.traffic.delta import ACCEPTED, SETTLED, Delta

Row = tuple[str, tuple[str, str], int, int]
_NAMES = st.sampled_from(["", "/a", "/b", "urn:ü", "/c"])
_ROWS = st.lists(
    st.tuples(
        _NAMES,
        st.tuples(st.sampled_from("mn"), st.sampled_from(["c", "broker:c", "d"])),
        st.integers(0, 2**53),
        st.integers(0, 2**53),
    ),
    max_size=30,
)


def added_up(rows: list[Row]) -> list[Row]:
    """The slow way."""
    totals: dict[tuple[str, tuple[str, str]], tuple[int, int]] = defaultdict(lambda: (0, 0))
    for source, channel, events, size in rows:
        before = totals[source, channel]
        totals[source, channel] = (before[0] + events, before[1] + size)
    return [(*pair, *total) for pair, total in sorted(totals.items())]


@pytest.mark.parametrize("pending", [1, 3, sums._PENDING_MAX])
@given(rows=_ROWS, types=st.lists(_NAMES, min_size=30, max_size=30))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_columns_add_up_as_dictionaries_do(pending: int, rows: list[Row], types: list[str]) -> None:
    """Deltas one by one, and a table of rows: by source, and by type."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sums, "_PENDING_MAX", pending)
        single, table = Summing(), Summing()
        for number, (type_, (source, (namespace, name), events, size)) in enumerate(zip(types, rows, strict=False)):
            delta = Delta("w", number, 1, ACCEPTED, namespace, name, "", type_, source, Counts(events, size))
            assert single.delta(delta)
            assert not single.delta(delta)
        names = ("type", "source", "namespace", "channel", "events", "bytes")
        values = [(type_, row[0], *row[1], *row[2:]) for type_, row in zip(types, rows, strict=False)]
        lists = zip(*values, strict=True) if rows else [()] * len(names)
        arrays = [
            pa.array(value, kind) for value, kind in zip(lists, [pa.string()] * 4 + [pa.int64()] * 2, strict=True)
        ]
        table.came(pa.table(dict(zip(names, arrays, strict=True))))
        wanted = added_up(rows)
        for summing in (single, table):
            accepted, arrivals, carried = summing.sums()
            assert list(carried.rows()) == added_up(
                [(type_, *row[1:]) for type_, row in zip(types, rows, strict=False)]
            )
            assert list(arrivals.rows()) == wanted
            of_channels = added_up([("", channel, events, size) for _, channel, events, size in rows])
            assert [((one.namespace, one.channel), *one.counts.values()[:2]) for one in accepted] == [
                row[1:] for row in of_channels
            ]


@given(rows=_ROWS, limit=st.integers(1, 5))
def test_sources_beyond_the_limit_are_one(rows: list[Row], limit: int) -> None:
    """Those with the fewest events; of equal ones, the last by name. Channels that are not in the map are left out."""
    ids = {("n", "c"): "channel:n/c", ("n", "broker:c"): "broker:n/c", ("m", "c"): "channel:m/c"}
    known = [row for row in added_up(rows) if row[1] in ids and row[2]]
    totals: dict[str, int] = defaultdict(int)
    for source, _, events, _ in known:
        totals[source] += events
    named = sorted(filter(None, totals), key=lambda source: (-totals[source], source))
    kept = {"", *named[:limit]}
    summing = Summing()
    for number, (source, (namespace, name), events, size) in enumerate(rows):
        summing.delta(Delta("w", number, 1, ACCEPTED, namespace, name, "", "t", source, Counts(events, size)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "SOURCES_MAX", limit)
        found, left_out = published(summing.sums()[1], ids)

    wanted = [(f"source:{row[0] if row[0] in kept else ''}", ids[row[1]], *row[2:]) for row in known]
    assert list(found.rows()) == added_up(wanted)  # type: ignore[arg-type]
    assert left_out == len(named[limit:])


def test_a_pair_takes_some_tens_of_bytes() -> None:
    pairs: Arrivals[str] = Arrivals(
        [str(number) for number in range(1_000)],
        ["c", "d"],
        np.arange(1_000, dtype=np.int32),
        np.zeros(1_000, dtype=np.int32),
        np.ones(1_000, dtype=np.int64),
        np.ones(1_000, dtype=np.int64),
    )
    kept = pairs.only(pairs.source % 2 == 0)
    assert sum(getattr(kept, name).nbytes for name in ("source", "channel", "events", "bytes")) == 24 * len(kept)
    assert kept.of_channels()[0].tolist() == [500, 0]


@given(numbers=st.lists(st.tuples(st.sampled_from("vw"), st.integers(0, 3) | st.integers(4090, 4100) | st.just(2**60))))
def test_a_delta_is_counted_once(numbers: list[tuple[str, int]]) -> None:
    summing = Summing()
    new = [summing.delta(Delta(by, number, 1, SETTLED, "n", "c", "s")) for by, number in numbers]

    assert new == [place == numbers.index(pair) for place, pair in enumerate(numbers)]


def test_a_counted_delta_takes_less_than_a_number() -> None:
    """A worker writes millions of them in a week."""
    count = 100_000
    summing = Summing()
    tracemalloc.start()
    try:
        for number in range(count):
            summing.delta(Delta("w", number, 1, SETTLED, "n", "c", "s"))
        assert tracemalloc.get_traced_memory()[0] < 8 * count
    finally:
        tracemalloc.stop()
