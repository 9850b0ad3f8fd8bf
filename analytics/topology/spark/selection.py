"""Selects the part of a large map that is in the document: vertices with findings, first in a ranking, or the busiest.

    marks on FactFrames, answers of SparkAnswers --> names --> their rows, which alone come here

Every mark has a limit, and a sentence if it was met. A mark may select more than its rule, as `findings` decides later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from analytics.spark.rows import strings
from analytics.topology.engines.queries import CHANNELS
from analytics.topology.spark.facts import FactFrames

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

WHOLE_EDGES_MAX = 100_000  #: a map of no more edges is in the document as a whole
MARKED_MAX = 10_000  #: subscriptions, or channels, with the same mark
BUSIEST_MAX = 2_000
ARRIVALS_MAX = 20_000
_ENDS = ("target", "reply", "dead")


@dataclass(frozen=True, slots=True)
class Rows:
    """Sorted rows of FactFrames that are in the document."""

    arrivals: Sequence[Row]
    consumers: Sequence[Row]
    channels: Sequence[Row]
    notes: tuple[str, ...] = ()

    def names(self) -> set[str]:
        """All vertices that are in the document."""
        found = {row["id"] for rows in (self.arrivals, self.channels, self.consumers) for row in rows}
        found.update(row["source"] for row in self.arrivals)
        found.update(row[end] for row in self.consumers for end in ("channel_id", *_ENDS))
        return found - {""}

    def uids(self) -> list[str]:
        """The uids of their resources."""
        return sorted({row["uid"] for rows in (self.channels, self.consumers) for row in rows})


@dataclass(frozen=True, slots=True)
class Wanted:
    """Names in answers: consumers, channels, sources, and destinations with a statement about them."""

    consumers: set[str] = field(default_factory=set)
    channels: set[str] = field(default_factory=set)
    sources: set[str] = field(default_factory=set)
    destinations: set[str] = field(default_factory=set)

    def add(self, names: Iterable[str]) -> None:
        """Add each name to its kind."""
        kinds = {
            "subscription": self.consumers,
            "trigger": self.consumers,
            "channel": self.channels,
            "broker": self.channels,
            "source": self.sources,
        }
        for name in names:
            kinds.get(name.partition(":")[0], self.destinations).add(name)


def whole(facts: FactFrames) -> Rows:
    """All rows."""
    return _sorted(facts.arrivals.collect(), facts.consumers.collect(), facts.channels.collect())


def part(spark: SparkSession, facts: FactFrames, wanted: Wanted, workers: int, counted: bool, most: int) -> Rows:
    """`workers`: how many run; `most`: rows of a ranking."""
    from pyspark.sql import functions as f

    consumers, channels, notes = _marked(facts, workers, counted, most)
    consumers |= wanted.consumers | _leading_to(spark, facts, wanted.destinations)
    rows = only(spark, facts.consumers, "id", consumers).collect()
    best = only(spark, facts.arrivals, "source", wanted.sources).groupBy("source")
    firsts = best.agg(f.max_by(f.struct("*"), f.struct("events", "id")).alias("row")).select("row.*").collect()
    channels |= wanted.channels | {row["id"] for row in firsts} | {row["channel_id"] for row in rows}
    channels |= {row[end] for row in rows for end in _ENDS if row[end].startswith(CHANNELS)}
    came = only(spark, facts.arrivals, "id", channels).orderBy(f.desc("events"), "source", "id").limit(ARRIVALS_MAX)
    return _sorted([*came.collect(), *firsts], rows, only(spark, facts.channels, "id", channels).collect(), notes)


def _sorted(
    arrivals: Iterable[Row], consumers: Iterable[Row], channels: Iterable[Row], notes: Iterable[str] = ()
) -> Rows:
    once = {(row["source"], row["id"]): row for row in arrivals}
    return Rows(
        [once[pair] for pair in sorted(once)], sorted(consumers, key=_by_id), sorted(channels, key=_by_id), tuple(notes)
    )


def _by_id(row: Row) -> str:
    return str(row["id"])


def _marked(facts: FactFrames, workers: int, counted: bool, most: int) -> tuple[set[str], set[str], list[str]]:
    from pyspark.sql import functions as f

    marks: dict[str, Column] = {
        "subscriptions that drop what fails": f.col("ignores"),
        "subscriptions whose numbers do not balance": f.col("odd"),
        "subscriptions with events that failed": f.expr("n_dead + n_ignored > 0"),
    }
    if workers:
        marks["subscriptions that may not be served"] = ~f.col("served")
    ranks = (("lag", most), ("n_retried + n_dead", most), ("n_events", BUSIEST_MAX))
    consumers, notes = _chosen(facts.consumers, marks, ranks)
    known = facts.channels.select(f.col("id").alias("channel_id"))
    lost = facts.consumers.join(known, ["channel_id"], "left_anti").select("id")
    gone, more = _chosen(lost, {"subscriptions whose channel does not exist": f.lit(True)}, ())
    consumers |= gone
    notes += more
    marks = {"channels without a subscription": f.expr("own and not read")}
    if counted:
        marks["channels without senders"] = f.expr("own and events is null and not fed")
    channels, more = _chosen(facts.channels, marks, (("events", max(most, BUSIEST_MAX)),))
    return consumers, channels, [*notes, *more]


def _chosen(
    frame: DataFrame, marks: Mapping[str, Column], ranks: Iterable[tuple[str, int]]
) -> tuple[set[str], list[str]]:
    """ids: for each mark the first by id, for each rank the greatest."""
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as f

    some = [frame.where(mark).select("id").orderBy("id").limit(MARKED_MAX) for mark in marks.values()]
    for value, most in ranks:
        ranked = frame.select("id", f.expr(value).alias("value")).where("value > 0")
        some.append(ranked.orderBy(f.desc("value"), "id").limit(most).select("id"))
    counts = frame.agg(*(f.count_if(mark) for mark in marks.values())).collect()[0]
    notes = [
        f"{count} {name}, {MARKED_MAX} of them are shown."
        for name, count in zip(marks, counts, strict=True)
        if count > MARKED_MAX
    ]
    return {row["id"] for row in reduce(DataFrame.unionAll, some).collect()}, notes


def _leading_to(spark: SparkSession, facts: FactFrames, destinations: set[str]) -> set[str]:
    """For each destination a consumer that leads to it: without one, the vertex would not exist."""
    from pyspark.sql import functions as f

    if not destinations:
        return set()
    ends = facts.consumers.select("id", f.explode(f.array(*_ENDS)).alias("end"))
    found = only(spark, ends, "end", destinations).groupBy("end").agg(f.min("id").alias("id"))
    return {row["id"] for row in found.collect()}


def only(spark: SparkSession, frame: DataFrame, column: str, values: set[str]) -> DataFrame:
    """The rows with one of these values."""
    from pyspark.sql import functions as f

    return frame.join(f.broadcast(strings(spark, column, sorted(values))), [column], "left_semi")
