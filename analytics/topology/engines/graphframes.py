"""The engine that walks the graph on Spark, with GraphFrames.

Its Python half is a dependency. Its JVM half is two jars, with which the Spark session must start. `missing` says in
one sentence whether they are absent or of another release, and how to add them.

    islands    by contraction, in rounds of joins           loops      trimmed on Spark, the core finished here
    influence  rounds of joins, as long as something comes  hops       what starts reach is fetched, and walked here

GraphFrames has no articulation points: those are computed in this process too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from analytics.spark.session import find_jar
from analytics.topology.engines import frames
from analytics.topology.engines.frames import Keeper
from analytics.topology.engines.local import LocalEngine
from analytics.topology.engines.port import DAMPING, ROUNDS, Floats, Graph, Ints, shares
from knative.errors import PenstockError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VERSION = version("graphframes-py")  #: the jars must have the same release (decision 14)
COORDINATES = (
    f"io.graphframes:graphframes-spark4_2.13:{VERSION}",
    f"io.graphframes:graphframes-graphx-spark4_2.13:{VERSION}",
)
_CLASSES = ("org.graphframes.GraphFramePythonAPI", "org.apache.spark.graphframes.graphx.Graph")  # one of each jar
NEAR_EDGES = 500_000  #: a graph of so few edges is not trimmed further: this process walks it in a second


class NoGraphFramesError(PenstockError):
    """The Spark session has no GraphFrames, or another release of it."""


def missing_jars(places: Sequence[Path]) -> str:
    """The names of the jars that these folders lack, known before Spark starts; "" = none."""
    found = [find_jar(places, coordinate.split(":")[1] + "-") for coordinate in COORDINATES]
    return _problem([jar.name if jar is not None else None for jar in found])


def missing(spark: SparkSession) -> str:
    """Why this session cannot run GraphFrames, as a sentence with a hint; "" = it can."""
    jvm = getattr(spark, "_jvm", None)
    if jvm is None:
        return "The graphframes engine does not work with Spark Connect: remove --remote."
    return _problem([_jar_of(jvm, name) for name in _CLASSES])


def _jar_of(jvm: Any, name: str) -> str | None:
    """The file that a class comes from; None: there is no such class."""
    from py4j.protocol import Py4JJavaError

    try:
        found = jvm.Thread.currentThread().getContextClassLoader().loadClass(name)
    except Py4JJavaError:
        return None
    source = found.getProtectionDomain().getCodeSource()
    return "" if source is None else str(source.getLocation().getPath()).rpartition("/")[2]


def _problem(jars: Sequence[str | None]) -> str:
    """`jars`: file names in the order of COORDINATES. A name without a version is accepted."""
    absent = [coordinate for coordinate, jar in zip(COORDINATES, jars, strict=True) if jar is None]
    if absent:
        return (
            f"The JVM part of GraphFrames is missing ({' and '.join(absent)}): download the jars from Maven Central or "
            "your mirror into a folder, and name it with --jars or PENSTOCK_SPARK_JARS."
        )
    for jar in jars:
        named = re.fullmatch(r"graphframes-.*_2\.13-(.+)\.jar", jar or "")
        if named is not None and named[1] != VERSION:
            return (
                f"{jar} is not of the same release as graphframes-py ({VERSION}): download "
                f"{' and '.join(COORDINATES)} instead."
            )
    return ""


class GraphFramesEngine:
    """Releases what Spark persists for it, but does not own the session. `near`: this process finishes a graph of no
    more edges.
    """

    name = "graphframes"

    def __init__(self, spark: SparkSession, near: int = NEAR_EDGES) -> None:
        """Raises NoGraphFramesError when the jars are missing."""
        why = missing(spark)
        if why:
            raise NoGraphFramesError(why, "--engine local needs no jars.")
        self._spark = spark
        self._near = near
        self._local = LocalEngine()

    def islands(self, graph: Graph) -> Ints:
        """See `Engine`."""
        if not len(graph.heads):
            return np.arange(graph.size, dtype=np.int64)
        with Keeper(self._spark) as keeper:
            labels = self._spark.range(graph.size).selectExpr("id", "id as island")
            for to in frames.islands(keeper, self._edges(keeper, graph), self._near):
                labels = frames.moved(labels, "island", to)
            found = frames.fetch(labels.select("id", "island"))
        assert len(found) == graph.size, "an answer for every vertex"
        labelled: Ints = found[np.argsort(found[:, 0]), 1]
        return labelled

    def loops(self, graph: Graph) -> Ints:
        """See `Engine`. Fetches only the core of the graph."""
        if not len(graph.heads):
            return np.arange(graph.size, dtype=np.int64)
        found: Ints = np.arange(graph.size, dtype=np.int64)
        with Keeper(self._spark) as keeper:
            ids, labels = frames.loops(keeper, self._edges(keeper, graph), self._near)
        found[ids] = labels
        return found

    def hops(self, graph: Graph, starts: Iterable[int]) -> Iterator[tuple[int, Ints, Ints]]:
        """See `Engine`. Fetches only what a batch of starts reaches; ends before a start that reaches too much."""
        if len(graph.heads) <= self._near:
            yield from self._local.hops(graph, starts)
            return
        with Keeper(self._spark) as keeper:
            yield from frames.hops(self._spark, self._edges(keeper, graph), starts, near=False)

    def influence(self, graph: Graph, base: Floats) -> Floats:
        """See `Engine`."""
        import pandas as pd

        if not len(graph.heads):
            return base
        share = Graph(graph.size, graph.heads, graph.tails, shares(graph) * DAMPING)
        rows = pd.DataFrame({"id": np.arange(graph.size, dtype=np.int64), "value": base})
        with Keeper(self._spark) as keeper:
            edges = self._edges(keeper, share).withColumnRenamed("weight", "share")
            values = self._spark.createDataFrame(rows, "id long, value double")
            found: Any = frames.influence(keeper, edges, values, ROUNDS).toPandas()
        value = np.zeros(graph.size)
        value[found["id"].to_numpy()] = found["value"].to_numpy()
        return value

    def articulation_points(self, graph: Graph, values: Ints) -> dict[int, tuple[int, int]]:
        """See `Engine`. Computed in this process, as GraphFrames does not have it."""
        return self._local.articulation_points(graph, values)

    def close(self) -> None:
        """Nothing to release between two questions."""

    def _edges(self, keeper: Keeper, graph: Graph) -> DataFrame:
        import pandas as pd

        rows = pd.DataFrame({"src": graph.heads, "dst": graph.tails, "weight": graph.weights})
        return keeper.cut(self._spark.createDataFrame(rows, "src long, dst long, weight double"))
