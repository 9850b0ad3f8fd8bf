"""Walks over a graph of DataFrames: islands, the core of its loops, what starts reach, influence.

    edges (src long, dst long, ...), vertices (id long)  --rounds of joins-->  DataFrames, or a part that is small

Rounds are of GraphFrames' degrees and of plain joins. After each the plan is cut off by
a local checkpoint, or every round would compute all before it again. GraphFrames' own loops over rounds are not used:
one hop of the whole graph a round, and all of them kept, exhausts the memory on deep graphs (decision 14).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from analytics.topology.engines.local import LocalEngine
from analytics.topology.engines.port import Graph, Ints
from knative.errors import PenstockError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HELD_EDGES_MAX = 20_000_000  #: the most that are fetched for one question; 320 MB
_STARTS_AT_ONCE = 200
_LEVELS_MAX = 25  #: of ways that are looked at on Spark, a query for each
#: A round of trimming that takes away less than this share of the edges was not worth its time.
_TRIM_SHARE_MIN = 0.02


class Keeper:
    """Cuts plans off, and in the end lets go of all that Spark has come to keep since, whoever had it kept."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._before = self._kept().keys()
        self._cuts: list[tuple[DataFrame, set[int]]] = []

    def __enter__(self) -> Keeper:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        from py4j.protocol import Py4JError

        if isinstance(problem, KeyboardInterrupt):  # the connection waits for another answer
            return
        with contextlib.suppress(*((Py4JError, ConnectionError) if problem is not None else ())):  # Spark may have gone
            self._let_go(self._kept().keys() - self._before)

    def cut(self, frame: DataFrame) -> DataFrame:
        """The same rows, computed now and kept: what is made from them does not compute them again."""
        before = self._kept().keys()
        made: DataFrame = frame.localCheckpoint(eager=True)
        self._cuts.append((made, self._kept().keys() - before))
        return made

    def drop(self, *frames: DataFrame) -> None:
        """Let go of what `cut` gave."""
        for one, numbers in self._cuts:
            if any(one is frame for frame in frames):
                self._let_go(numbers)
        self._cuts = [(one, numbers) for one, numbers in self._cuts if not any(one is frame for frame in frames)]

    def _let_go(self, numbers: set[int]) -> None:
        for number, rdd in self._kept().items():
            if number in numbers:
                rdd.unpersist(False)

    def _kept(self) -> dict[int, Any]:
        jsc: Any = self.spark.sparkContext._jsc
        return dict(jsc.getPersistentRDDs().items())


def islands(keeper: Keeper, edges: DataFrame, near: int) -> list[DataFrame]:
    """Maps (id, to) to apply one after the other: after the last each id is the smallest of its part; ids that a map
    lacks stay. Every round joins each vertex to its smallest neighbour, until `near` edges are left, which are fetched.

    A vertex that is not smaller than all its neighbours goes, so half of them do in each round.
    """
    from pyspark.sql import functions as f

    maps: list[DataFrame] = []
    left = keeper.cut(_undirected(edges))
    while left.count() > near:
        both = left.unionAll(left.select(f.col("dst").alias("src"), f.col("src").alias("dst")))
        nearest = both.groupBy(f.col("src").alias("id")).agg(f.min("dst").alias("to")).where("to < id")
        roots = _roots(keeper, keeper.cut(nearest))
        maps.append(roots)
        fresh = keeper.cut(_undirected(moved(moved(left, "src", roots), "dst", roots)))
        keeper.drop(left)
        left = fresh
    return [*maps, _finish(keeper.spark, left)]


def _undirected(edges: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    ends = edges.where("src <> dst").select(f.least("src", "dst").alias("src"), f.greatest("src", "dst").alias("dst"))
    return ends.distinct()


def _roots(keeper: Keeper, pointers: DataFrame) -> DataFrame:
    """Each pointer moved on to where it ends, twice as far in every round."""
    from pyspark.sql import functions as f

    while True:
        on = pointers.select(f.col("id").alias("to"), f.col("to").alias("further"))
        further = pointers.select("id", "to").join(on, ["to"], "left")
        step = keeper.cut(
            further.select("id", f.coalesce("further", "to").alias("to"), f.expr("further is null as ends"))
        )
        keeper.drop(pointers)
        pointers = step
        if pointers.where("not ends").isEmpty():
            return pointers


def _finish(spark: SparkSession, left: DataFrame) -> DataFrame:
    """The map of a graph that is walked here."""
    import pandas as pd

    ids, graph = compact(fetch(left))
    labels = LocalEngine().islands(graph)
    return spark.createDataFrame(pd.DataFrame({"id": ids, "to": ids[labels]}), "id long, to long")


def moved(frame: DataFrame, column: str, to: DataFrame) -> DataFrame:
    """`column` as a map (id, to) has it."""
    from pyspark.sql import functions as f

    found = frame.join(to.select(f.col("id").alias(column), f.col("to").alias("_to")), [column], "left")
    return found.withColumn(column, f.coalesce("_to", column)).drop("_to")


def core(keeper: Keeper, edges: DataFrame, near: int) -> tuple[DataFrame, int]:
    """The edges that may be a part of a loop, and how many: those are left out whose end leads nowhere, or whose
    beginning nothing leads to, until there are `near` at most or a round takes next to nothing away."""
    from graphframes import GraphFrame
    from pyspark.sql import functions as f

    left = keeper.cut(edges.select("src", "dst").where("src <> dst").distinct())
    count = left.count()
    while count > near:
        graph = GraphFrame(_ends(left), left)
        begins = graph.outDegrees.select(f.col("id").alias("dst"))
        ends = graph.inDegrees.select(f.col("id").alias("src"))
        kept = keeper.cut(left.join(begins, ["dst"], "left_semi").join(ends, ["src"], "left_semi").select("src", "dst"))
        keeper.drop(left)
        before, left, count = count, kept, kept.count()
        if before - count <= _TRIM_SHARE_MIN * before:
            break
    return left, count


def _ends(edges: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    return edges.select(f.explode(f.array("src", "dst")).alias("id")).distinct()


def loops(keeper: Keeper, edges: DataFrame, near: int) -> tuple[Ints, Ints]:
    """Vertices in strongly connected components of two or more, sorted, and the smallest vertex of each one's.

    Only the core is fetched. Raises PenstockError when that is too large."""
    left, count = core(keeper, edges, near)
    if count > HELD_EDGES_MAX:
        raise PenstockError(
            f"{count} edges may be in loops, and {HELD_EDGES_MAX} are the most that are looked at.",
            "Look at one namespace: --namespace NAME.",
        )
    ids, graph = compact(fetch(left))
    labels = LocalEngine().loops(graph)
    sizes = np.bincount(labels, minlength=len(ids))[labels]
    return ids[sizes > 1], ids[labels[sizes > 1]]


def compact(ends: Ints, *more: Ints) -> tuple[Ints, Graph]:
    """Rows (src, dst) as a graph without gaps: the ids that its vertices have, sorted. `more`: ids that it has too."""
    ids = np.unique(np.concatenate([ends.ravel(), *more]))
    places = np.searchsorted(ids, ends)
    return ids, Graph(len(ids), places[:, 0].copy(), places[:, 1].copy(), np.ones(len(places)))


def hops(spark: SparkSession, edges: DataFrame, starts: Iterable[int], near: bool) -> Iterator[tuple[int, Ints, Ints]]:
    """As `Engine.hops`, in ids. `near`: the edges are few, and fetched at once. Otherwise only what a batch of starts
    reaches is fetched; ends before a start that reaches too much."""
    waiting = iter(starts)
    whole = fetch(edges.select("src", "dst")) if near else None
    while some := list(islice(waiting, _STARTS_AT_ONCE)):
        part = reachable(spark, edges, some, HELD_EDGES_MAX) if whole is None else whole
        if part is None:
            return
        ids, graph = compact(part, np.asarray(some, dtype=np.int64))
        for start, vertices, depths in LocalEngine().hops(graph, np.searchsorted(ids, some).tolist()):
            yield int(ids[start]), ids[vertices], depths


def reachable(spark: SparkSession, edges: DataFrame, starts: Sequence[int], most: int) -> Ints | None:
    """The edges (src, dst) that ways from `starts` go over; None: there are more than `most` of them.

    Where the ways are long it is every edge, if those are not too many: a level of them takes seconds."""
    from pyspark.sql import functions as f

    edges = edges.select("src", "dst")
    seen = np.unique(np.asarray(starts, dtype=np.int64))
    found: list[Ints] = [np.empty((0, 2), dtype=np.int64)]
    count, fresh = 0, seen
    for _ in range(_LEVELS_MAX):
        if not len(fresh):
            return np.concatenate(found)
        level = spark.createDataFrame(_ids(fresh), "src long")
        step = fetch(edges.join(f.broadcast(level), ["src"], "left_semi").limit(most + 1))
        found.append(step)
        count += len(step)
        if count > most:
            return None
        fresh = np.setdiff1d(step[:, 1], seen)
        seen = np.union1d(seen, fresh)
    return fetch(edges) if edges.count() <= most else None


def influence(keeper: Keeper, edges: DataFrame, base: DataFrame, rounds: int) -> DataFrame:
    """(id, value): base (id, value) + what comes back over edges (src, dst, share), `rounds` deep.

    Each round sends on only what came in the one before: it ends with the longest way, not with the last round. The
    edges lie where their ends are looked up, so a round exchanges sums only.
    """
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as f

    edges = keeper.cut(edges.where("share <> 0").select("src", "dst", "share").repartition("dst"))
    came = keeper.cut(base.where("value <> 0").select("id", "value"))
    terms = [came]
    for _ in range(rounds):
        back = edges.join(came.withColumnRenamed("id", "dst"), ["dst"])
        step = keeper.cut(back.groupBy(f.col("src").alias("id")).agg(f.sum(f.expr("value * share")).alias("value")))
        if step.isEmpty():
            break
        terms.append(step)
        came = step
    whole = reduce(DataFrame.unionAll, terms)
    return whole.groupBy("id").agg(f.sum("value").alias("value"))


def fetch(frame: DataFrame) -> Ints:
    """All rows of a frame of whole numbers."""
    pandas: Any = frame.toPandas()
    return np.asarray(pandas.to_numpy(), dtype=np.int64).reshape(-1, len(frame.columns))


def _ids(values: Ints) -> Any:
    import pandas as pd

    return pd.DataFrame({"src": values})
