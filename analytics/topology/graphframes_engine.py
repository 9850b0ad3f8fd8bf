"""The engine that walks the graph on Spark, with GraphFrames.

Its Python half is a dependency; its JVM half is two jars that a Spark session must have been started with. `missing`
says in one sentence when they are not there, and how to add them. What is known of GraphFrames 0.12, and kept here:

    ids are long (strings cost a join each) · algorithm="graphx" for components, which needs no checkpoint directory ·
    results stay cached until they are unpersisted · pageRank knows no weights, so influence is a Pregel of our own ·
    components are found until nothing is left, for a bound on the rounds would leave loops out

GraphFrames has no cut vertices: their edges are collected and walked here, up to CUT_EDGES_MAX. Refuses to bring jars.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from analytics.session import find_jar
from analytics.topology.cuts import cut_vertices
from analytics.topology.graph import DAMPING, ROUNDS, Floats, Graph, Ints, shares, smallest_label
from knative.errors import PenstockError

if TYPE_CHECKING:
    from graphframes import GraphFrame
    from pyspark.sql import DataFrame, SparkSession

VERSION = "0.12.3"
COORDINATES = (
    f"io.graphframes:graphframes-spark4_2.13:{VERSION}",
    f"io.graphframes:graphframes-graphx-spark4_2.13:{VERSION}",
)
_CLASS = "org.graphframes.GraphFramePythonAPI"
_LOOPS_ROUNDS_MAX = 1_000_000  # it ends by itself when every vertex has its component
_STARTS_AT_ONCE = 25  # distances to so many starts are kept in each vertex
CUT_EDGES_MAX = 2_000_000


class NoGraphFramesError(PenstockError):
    """The Spark session has no GraphFrames."""


def missing_jars(places: Sequence[Path]) -> str:
    """The same by the names of the jars in these folders, before Spark is started for nothing."""
    there = [find_jar(places, coordinate.split(":")[1] + "-") is not None for coordinate in COORDINATES]
    absent = [coordinate for coordinate, found in zip(COORDINATES, there, strict=True) if not found]
    return _sentence(absent) if absent else ""


def _sentence(absent: Sequence[str]) -> str:
    return (
        f"GraphFrames' half for the JVM is not here ({' and '.join(absent)}): bring the jars from Maven Central or "
        "your mirror into a folder, and name it with --jars or PENSTOCK_SPARK_JARS."
    )


def missing(spark: SparkSession) -> str:
    """Why this session cannot run GraphFrames, as a sentence with the cure; "" = it can."""
    from py4j.protocol import Py4JError

    try:
        loader: Any = spark._jvm.Thread.currentThread().getContextClassLoader()  # type: ignore[union-attr]
        loader.loadClass(_CLASS)
    except AttributeError:
        return "The graphframes engine needs a session in this process, not Spark Connect: leave --remote out."
    except Py4JError:
        return _sentence(COORDINATES)
    return ""


class GraphFramesEngine:
    """Owns the frames that it caches, not the session."""

    name = "graphframes"

    def __init__(self, spark: SparkSession) -> None:
        """Raises NoGraphFramesError when the jars are not there."""
        why = missing(spark)
        if why:
            raise NoGraphFramesError(why, "--engine local needs none.")
        self._spark = spark

    def islands(self, graph: Graph) -> Ints:
        """See `Engine`."""
        if not len(graph.heads):
            return np.arange(graph.size, dtype=np.int64)
        with _Frames(self._spark, graph) as frames:
            found = frames.graph.connectedComponents(algorithm="graphx")
            return smallest_label(frames.column(found, "component"))

    def loops(self, graph: Graph) -> Ints:
        """See `Engine`."""
        if not len(graph.heads):
            return np.arange(graph.size, dtype=np.int64)
        with _Frames(self._spark, graph) as frames:
            found = frames.graph.stronglyConnectedComponents(maxIter=_LOOPS_ROUNDS_MAX)
            return smallest_label(frames.column(found, "component"))

    def hops(self, graph: Graph, starts: Iterable[int]) -> Iterator[tuple[int, Ints, Ints]]:
        """See `Engine`. Shortest paths lead to landmarks, so the edges are turned."""
        waiting = iter(starts)
        with _Frames(self._spark, graph.turned()) as frames:
            while some := list(islice(waiting, _STARTS_AT_ONCE)):
                yield from self._hops(frames, some)

    def _hops(self, frames: _Frames, starts: list[int]) -> Iterator[tuple[int, Ints, Ints]]:
        from pyspark.sql import functions as F

        distances = frames.graph.shortestPaths(landmarks=sorted({int(start) for start in starts}), algorithm="graphx")
        flat = distances.select("id", F.explode("distances").alias("start", "hops"))
        rows = frames.rows(flat.select("start", "hops", "id"), distances)
        for start in starts:
            mine = rows[(rows[:, 0] == start) & (rows[:, 2] != start)]
            mine = mine[np.lexsort((mine[:, 2], mine[:, 1]))]
            yield start, mine[:, 2], mine[:, 1]

    def influence(self, graph: Graph, base: Floats) -> Floats:
        """See `Engine`."""
        from graphframes.lib import Pregel
        from pyspark.sql import functions as F

        if not len(graph.heads):
            return base
        share = Graph(graph.size, graph.heads, graph.tails, shares(graph) * DAMPING)
        with _Frames(self._spark, share, base) as frames:
            walk = (
                frames.graph.pregel.setMaxIter(ROUNDS)
                .setCheckpointInterval(5)
                .setUseLocalCheckpoints(True)
                .withVertexColumn("value", F.col("base"), F.col("base") + F.coalesce(Pregel.msg(), F.lit(0.0)))
                .sendMsgToSrc(Pregel.dst("value") * Pregel.edge("weight"))
                .aggMsgs(F.sum(Pregel.msg()))
                .required_edge_columns("weight")
            )
            return np.asarray(frames.column(walk.run(), "value"), dtype=np.float64)

    def cuts(self, graph: Graph, values: Ints) -> dict[int, tuple[int, int]]:
        """See `Engine`. Walked here: see the top of this file."""
        if len(graph.heads) > CUT_EDGES_MAX:
            raise PenstockError(
                f"Cut vertices of {len(graph.heads)} edges are not looked for; {CUT_EDGES_MAX} are the most.",
                "Look at one namespace: --namespace NAME.",
            )
        return cut_vertices(graph, values)

    def close(self) -> None:
        """Everything that was cached goes; the session stays for its owner."""
        self._spark.catalog.clearCache()


class _Frames:
    """A GraphFrame of a Graph; gives back arrays by number of vertex, and lets go of what was cached."""

    def __init__(self, spark: SparkSession, graph: Graph, base: Floats | None = None) -> None:
        import pandas as pd

        self._size = graph.size
        vertices: dict[str, object] = {"id": np.arange(graph.size, dtype=np.int64)}
        if base is not None:
            vertices["base"] = base
        self._vertices = spark.createDataFrame(pd.DataFrame(vertices), self._schema("id", base is not None, "base"))
        edges = pd.DataFrame({"src": graph.heads, "dst": graph.tails, "weight": graph.weights})
        self._edges = spark.createDataFrame(edges, "src long, dst long, weight double")
        self._graph: GraphFrame | None = None

    @staticmethod
    def _schema(first: str, more: bool, second: str) -> str:
        return f"{first} long, {second} double" if more else f"{first} long"

    def __enter__(self) -> _Frames:
        from graphframes import GraphFrame

        self._graph = GraphFrame(self._vertices.persist(), self._edges.persist())
        return self

    def __exit__(self, *_: object) -> None:
        self._vertices.unpersist()
        self._edges.unpersist()

    @property
    def graph(self) -> GraphFrame:
        """Only inside `with`."""
        assert self._graph is not None, "used outside `with`"
        return self._graph

    def column(self, found: DataFrame, name: str) -> Any:
        """One column of a result, in the order of the vertices; the result is let go of."""
        pairs: Any = found.select("id", name).toPandas()
        found.unpersist()
        assert len(pairs) == self._size, "an answer for every vertex"
        return pairs.sort_values("id")[name].to_numpy()

    def rows(self, chosen: DataFrame, cached: DataFrame) -> Ints:
        """All of a frame of whole numbers; `cached`, which it is made from, is let go of."""
        pandas: Any = chosen.toPandas()
        cached.unpersist()
        return np.asarray(pandas.to_numpy(), dtype=np.int64).reshape(-1, len(chosen.columns))
