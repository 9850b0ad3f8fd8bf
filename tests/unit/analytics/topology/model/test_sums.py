"""Columns add up to what plain dictionaries add up to, whatever the order and however often they are added up."""

from __future__ import annotations

import tracemalloc
from collections import defaultdict
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analytics.topology.model import arrivals as columns
from analytics.topology.model import sums
from analytics.topology.model.arrivals import Arrivals, came_into
from analytics.topology.model.sums import Summing
from knative.traffic.counts import Counts
from knative.traffic.delta import ACCEPTED, SETTLED, Delta

Row = tuple[str, tuple[str, str], int, int]
End = TypeVar("End", str, tuple[str, str], tuple[str, str, str])
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


def added_up(rows: list[tuple[str, End, int, int]]) -> list[tuple[str, End, int, int]]:
    """The slow way."""
    totals: dict[tuple[str, End], tuple[int, int]] = defaultdict(lambda: (0, 0))
    for source, channel, events, size in rows:
        before = totals[source, channel]
        totals[source, channel] = (before[0] + events, before[1] + size)
    return [(source, end, events, size) for (source, end), (events, size) in sorted(totals.items())]


@pytest.mark.parametrize("pending", [1, 3, sums._PENDING_MAX])
@given(rows=_ROWS, types=st.lists(_NAMES, min_size=30, max_size=30))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_columns_add_up_as_dictionaries_do(pending: int, rows: list[Row], types: list[str]) -> None:
    """Deltas one by one, and a table of rows: by source and stream."""
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
        by_stream = [(row[0], (*row[1], type_), *row[2:]) for type_, row in zip(types, rows, strict=False)]
        for summing in (single, table):
            accepted, arrivals = summing.sums()
            assert list(arrivals.rows()) == added_up(by_stream)
            of_channels = added_up([("", channel, events, size) for _, channel, events, size in rows])
            assert [((traffic.namespace, traffic.channel), *traffic.counts.values()[:2]) for traffic in accepted] == [
                row[1:] for row in of_channels
            ]


@given(rows=_ROWS, types=st.lists(_NAMES, min_size=30, max_size=30), limits=st.tuples(*[st.integers(1, 5)] * 2))
def test_what_came_is_summed_by_source_type_and_channel(
    rows: list[Row], types: list[str], limits: tuple[int, int]
) -> None:
    """Sources and types beyond the limit are one: those with the fewest events; of equal ones, the last by name.
    Channels that are not in the map are left out."""
    ids = {("n", "c"): "channel:n/c", ("n", "broker:c"): "broker:n/c", ("m", "c"): "channel:m/c"}
    came = [
        ((source, type_, ids[place]), events, size)
        for (source, place, events, size), type_ in zip(rows, types, strict=False)
        if place in ids
    ]
    summing = Summing()
    for number, ((source, (namespace, name), events, size), type_) in enumerate(zip(rows, types, strict=False)):
        summing.delta(Delta("w", number, 1, ACCEPTED, namespace, name, "", type_, source, Counts(events, size)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "SOURCES_MAX", limits[0])
        patch.setattr(columns, "TYPES_MAX", limits[1])
        pairs = came_into(summing.sums()[1], ids)

    kept, left_out = [], []
    for which, limit in enumerate(limits):
        totals: dict[str, int] = defaultdict(int)
        for names, events, _ in came:
            totals[names[which]] += events
        named = sorted((name for name in totals if name and totals[name]), key=lambda name: (-totals[name], name))
        kept.append(set(named[:limit]))
        left_out.append(len(named[limit:]))
    lines = [
        (
            f"source:{source if source in kept[0] else ''}",
            f"type:{type_ if type_ in kept[1] else ''}",
            channel,
            (events, size),
        )
        for (source, type_, channel), events, size in came
        if events
    ]
    assert list(pairs.published.rows()) == added_up([(source, channel, *sizes) for source, _, channel, sizes in lines])
    assert list(pairs.types.rows()) == added_up([(type_, channel, *sizes) for _, type_, channel, sizes in lines])
    assert list(pairs.sent.rows()) == added_up([(source, type_, *sizes) for source, type_, _, sizes in lines])
    assert [pairs.sources_left_out, pairs.types_left_out] == left_out


def test_pair_takes_some_tens_of_bytes() -> None:
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
def test_delta_is_counted_once(numbers: list[tuple[str, int]]) -> None:
    summing = Summing()
    new = [summing.delta(Delta(by, number, 1, SETTLED, "n", "c", "s")) for by, number in numbers]

    assert new == [place == numbers.index(pair) for place, pair in enumerate(numbers)]


def test_counted_delta_takes_less_than_a_number() -> None:
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
