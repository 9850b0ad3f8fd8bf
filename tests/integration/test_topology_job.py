"""Traffic that Spark has added up is what one process adds up, from deltas and from tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from analytics.spark.rows import frame_of, frame_of_table
from analytics.topology.engines.graphframes import GraphFramesEngine, NoGraphFramesError, missing
from analytics.topology.model.document import Window
from analytics.topology.model.sums import Summing, Sums
from analytics.topology.spark import sums
from analytics.topology.spark.traffic import of_deltas, of_windows
from analytics.traffic.windows import DAY_S, HOUR_S, MINUTE_S, counted_once, table_of, windows_of
from analytics.traffic.windows import Window as Row
from knative.traffic.counts import Counts
from knative.traffic.delta import Delta, encode
from tests.support.planted_faults import NOW_S, World, faulty
from tests.support.topology_worlds import worlds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.integration


def added_up(deltas: list[Delta]) -> Sums:
    summing = Summing()
    for delta in deltas:
        summing.delta(delta)
    return summing.sums()


def by_spark(spark: SparkSession, deltas: list[Delta]) -> tuple[Sums, Window | None]:
    """Every third record is there twice, and one is not a delta."""
    values = [encode(delta) for number, delta in enumerate(deltas) for _ in range(1 + (number % 3 == 0))]
    records = frame_of(spark, ((value,) for value in [*values, b"junk"]), pa.schema([("value", pa.binary())]))
    spans: list[Window | None] = []

    def window(span: Window | None) -> Window:
        spans.append(span)
        return span or Window()

    totals, _ = sums.fetch(of_deltas(records, NOW_S - 60, NOW_S), window)
    return totals, spans[0]


def same(actual: Sums, expected: Sums) -> None:
    assert actual[0] == expected[0]
    assert list(actual[1].rows()) == list(expected[1].rows())


@pytest.mark.parametrize("slice_rows", [sums.SLICE_ROWS, 3])
def test_spark_adds_up_the_same(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, slice_rows: int) -> None:
    """Fetched at once and in slices."""
    monkeypatch.setattr(sums, "SLICE_ROWS", slice_rows)
    deltas = faulty().sent("ping", "/game", 7, "u").sent("ping", "", 1).settled("there", 3, dead=1).flows

    totals, span = by_spark(spark, deltas)

    same(totals, added_up(deltas))
    assert span == Window(deltas[0].at, deltas[0].at)
    assert len(totals[1]) > 3, "there is more than one slice"


@given(world=worlds())
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_spark_adds_up_the_same_in_any_world(spark: SparkSession, world: World) -> None:
    totals, span = by_spark(spark, world.flows)

    same(totals, added_up(world.flows))
    assert (span is None) is (not world.flows)


def test_spark_adds_up_windows_and_counts_what_is_stored_and_accepted_once(spark: SparkSession) -> None:
    begin = int(NOW_S) // MINUTE_S * MINUTE_S
    rows = [
        Row(begin, MINUTE_S, "stored", "n", "c", "", "t", "/a", Counts(4, 40)),
        Row(begin, MINUTE_S, "stored", "n", "c", "", "u", "/a", Counts(1, 10)),
        Row(begin, MINUTE_S, "accepted", "n", "c", "", "t", "/a", Counts(5, 50)),
        Row(begin, MINUTE_S, "accepted", "n", "d", "", "t", "", Counts(2, 20)),
        Row(begin + MINUTE_S, MINUTE_S, "accepted", "n", "c", "", "t", "/a", Counts(64)),
        Row(begin // DAY_S * DAY_S - 9 * DAY_S, DAY_S, "stored", "n", "c", "", "t", "/a", Counts(128)),
        Row(begin, MINUTE_S, "settled", "n", "c", "s", "t", "/a", Counts(4, 40, 2, 1, 1, 0, 1), 0, {5: 2}),
    ]
    summing = Summing()
    for row in (*rows[:2], *rows[3:]):
        summing.row(row)

    frame = of_windows(frame_of_table(spark, table_of(rows)), begin - 9 * DAY_S, begin + 2 * MINUTE_S)
    totals, span = sums.fetch(frame, lambda window: window or Window())

    same(totals, summing.sums())
    day = begin // DAY_S * DAY_S - 9 * DAY_S
    assert span == Window(day, max(begin // HOUR_S, (begin + MINUTE_S) // HOUR_S) * HOUR_S + HOUR_S)
    assert list(totals[1].rows()) == [
        ("", ("n", "d", "t"), 2, 20),
        ("/a", ("n", "c", "t"), 4 + 64 + 128, 40),
        ("/a", ("n", "c", "u"), 1, 10),
    ]


def test_without_its_jars_graphframes_says_what_is_missing(spark: SparkSession) -> None:
    if not missing(spark):
        return  # they are here; the contract suite runs on them
    with pytest.raises(NoGraphFramesError, match=r"io\.graphframes:graphframes-spark4_2\.13.*--jars.*--engine local"):
        GraphFramesEngine(spark)


def test_spark_counts_once_what_the_tables_count_once(spark: SparkSession) -> None:
    """Each minute with events stored, and accepted: late, early, one after the other, and without records."""
    begin = int(NOW_S) // DAY_S * DAY_S - 2 * MINUTE_S
    minutes = {
        "late": [(1, 0), (0, 1), (0, 0), (2, 1), (0, 1)],
        "each is late": [(1, 0), (1, 1), (1, 1), (0, 1)],
        "early": [(0, 1), (1, 0)],
        "gone": [(5, 9), (0, 5), (0, 1)],
        "apart": [(1, 0), (0, 0), (0, 1)],
    }
    rows = [
        Row(begin + number * MINUTE_S, MINUTE_S, kind, "n", channel, "", "t", "/a", Counts(count))
        for channel, counts in minutes.items()
        for number, both in enumerate(counts)
        for kind, count in zip(("stored", "accepted"), both, strict=True)
        if count
    ]
    expected = Summing()
    for row in windows_of(counted_once(table_of(rows))):
        expected.row(row)

    frame = of_windows(frame_of_table(spark, table_of(rows)), begin, begin + 10 * MINUTE_S)
    totals, _ = sums.fetch(frame, lambda window: window or Window())

    same(totals, expected.sums())
    counts = {channel: events for _, (_, channel, _), events, _ in totals[1].rows()}
    assert counts == {"late": 3, "each is late": 3, "early": 1, "gone": 11, "apart": 2}
