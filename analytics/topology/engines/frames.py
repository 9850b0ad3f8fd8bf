"""Walks over a graph of DataFrames: islands, the core of its loops, what starts reach, influence.

    edges (src long, dst long, ...), vertices (id long)  --rounds of joins-->  DataFrames, or a part that is small

A round uses GraphFrames' degrees and plain joins. A local checkpoint cuts the plan after each round; otherwise every
round would compute all previous ones again. GraphFrames' own iterative algorithms are not used: they go one hop of the
whole graph per round and keep all rounds, which exhausts the memory on deep graphs (decision 14).
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

HELD_EDGES_MAX = 20_000_000  #: the most edges to fetch for one question; 320 MB
_LEVELS_MAX = 25  #: of paths that are followed on Spark, with one query each
#: Trimming stops after a round that removes less than this share of the edges.
_TRIM_SHARE_MIN = 0.02


class Keeper:
    """Cuts plans, and at the end releases everything that Spark has persisted since the start, also by GraphFrames."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        # GraphFrames persists frames that it does not return. Comparing Spark's list before and after finds these too.
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
        with contextlib.suppress(*((Py4JError, ConnectionError) if problem is not None else ())):  # Spark may be gone
            self._let_go(self._kept().keys() - self._before)

    def cut(self, frame: DataFrame) -> DataFrame:
        """The same rows, computed now and persisted, so that later frames do not compute them again."""
        before = self._kept().keys()
        made: DataFrame = frame.localCheckpoint(eager=True)
        self._cuts.append((made, self._kept().keys() - before))
        return made

    def drop(self, *frames: DataFrame) -> None:
        """Release frames that `cut` returned."""
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
    """Maps (id, to) to apply in order: after the last, each id is the smallest of its part. Ids that a map lacks stay.

    Every round removes each vertex that has a smaller neighbour, by joining it to the smallest of them. When
    `near` edges or fewer are left, they are fetched and finished here.
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
    """Each pointer moved on to its end. The distance doubles in every round, so a chain of n takes log2(n) rounds."""
    from pyspark.sql import functions as f

    # A pointer always goes to a smaller id, so there are no cycles and every chain ends.
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
    """The map of a graph that is small enough for this process."""
    import pandas as pd

    ids, graph = compact(fetch(left))
    labels = LocalEngine().islands(graph)
    return spark.createDataFrame(pd.DataFrame({"id": ids, "to": ids[labels]}), "id long, to long")


def moved(frame: DataFrame, column: str, to: DataFrame) -> DataFrame:
    """`column` replaced by the map (id, to), where the map has it."""
    from pyspark.sql import functions as f

    found = frame.join(to.select(f.col("id").alias(column), f.col("to").alias("_to")), [column], "left")
    return found.withColumn(column, f.coalesce("_to", column)).drop("_to")


def core(keeper: Keeper, edges: DataFrame, near: int) -> tuple[DataFrame, int]:
    """The edges that may be part of a loop, and their number.

    A round removes the edges into vertices that have no outgoing edge, and those out of vertices that have no incoming
    one. It ends when `near` edges or fewer are left, or when a round removes almost nothing.
    """
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
        # A long chain loses one edge at each end per round: such rounds cost seconds each and gain almost nothing.
        if before - count <= _TRIM_SHARE_MIN * before:
            break
    return left, count


def _ends(edges: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    return edges.select(f.explode(f.array("src", "dst")).alias("id")).distinct()


def loops(keeper: Keeper, edges: DataFrame, near: int) -> tuple[Ints, Ints]:
    """Vertices in strongly connected components of two or more, sorted, and the smallest vertex of each component.

    Fetches only the core. Raises PenstockError when that is too large.
    """
    left, count = core(keeper, edges, near)
    if count > HELD_EDGES_MAX:
        raise PenstockError(
            f"{count} edges may be in loops; at most {HELD_EDGES_MAX} are checked.",
            "Check one namespace: --namespace NAME.",
        )
    ids, graph = compact(fetch(left))
    labels = LocalEngine().loops(graph)
    sizes = np.bincount(labels, minlength=len(ids))[labels]
    return ids[sizes > 1], ids[labels[sizes > 1]]


def compact(ends: Ints, *more: Ints) -> tuple[Ints, Graph]:
    """Rows (src, dst) as a graph with consecutive numbers, and the ids of its vertices. `more`: additional ids."""
    ids = np.unique(np.concatenate([ends.ravel(), *more]))
    places = np.searchsorted(ids, ends)
    return ids, Graph(len(ids), places[:, 0].copy(), places[:, 1].copy(), np.ones(len(places)))


def hops(spark: SparkSession, edges: DataFrame, starts: Iterable[int], near: bool) -> Iterator[tuple[int, Ints, Ints]]:
    """As `Engine.hops`, in ids. Ends before a start that reaches too much.

    `near`: there are few edges, so all are fetched at once. Otherwise fetches only what a batch of starts reaches.
    """
    waiting = iter(starts)
    whole = fetch(edges.select("src", "dst")) if near else None
    while some := list(islice(waiting, 200)):
        part = reachable(spark, edges, some, HELD_EDGES_MAX) if whole is None else whole
        if part is None:
            return
        ids, graph = compact(part, np.asarray(some, dtype=np.int64))
        for start, vertices, depths in LocalEngine().hops(graph, np.searchsorted(ids, some).tolist()):
            yield int(ids[start]), ids[vertices], depths


def reachable(spark: SparkSession, edges: DataFrame, starts: Sequence[int], most: int) -> Ints | None:
    """The edges (src, dst) of all paths from `starts`; None if there are more than `most`.

    Paths longer than _LEVELS_MAX return every edge, if those are not too many: each level is a query of seconds.
    """
    from pyspark.sql import functions as f

    edges = edges.select("src", "dst")
    seen = np.unique(np.asarray(starts, dtype=np.int64))
    found: list[Ints] = [np.empty((0, 2), dtype=np.int64)]
    count, fresh = 0, seen
    for _ in range(_LEVELS_MAX):
        if not len(fresh):
            return np.concatenate(found)
        # The frontier is small and the edges are not: broadcast it, so that Spark does not shuffle the edges.
        # One row more than `most` is enough to know that there are too many.
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
    """Sums (id, value): base (id, value), plus what comes back over edges (src, dst, share), `rounds` deep.

    Each round passes on only what arrived in the previous one, so the loop ends after the longest path, which is
    usually long before `rounds`.
    """
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as f

    # Partitioned by `dst` once, where every round joins: each round then shuffles only its sums, not the edges.
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
    """All rows of a frame of integers."""
    pandas: Any = frame.toPandas()
    return np.asarray(pandas.to_numpy(), dtype=np.int64).reshape(-1, len(frame.columns))


def _ids(values: Ints) -> Any:
    import pandas as pd

    return pd.DataFrame({"src": values})
