"""The engine that walks the graph on Spark, with GraphFrames.

Its Python half is a dependency. Its JVM half is two jars, with which the Spark session must start. `missing` says in
one sentence whether they are absent or of another release, and how to add them.

    islands    GraphFrames' connectedComponents      loops, hops, articulation points    in this process
    influence  GraphFrames' pregel

What GraphFrames has for loops and hops goes one hop of the graph per round, and a chain of 80 takes minutes (decision
50). Articulation points it does not have.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from analytics.spark.rows import frame_of_table
from analytics.spark.session import find_jar
from analytics.topology.engines.local import LocalEngine
from analytics.topology.engines.port import DAMPING, ROUNDS, Floats, Graph, Ints, shares, smallest_label
from knative.errors import PenstockError

if TYPE_CHECKING:
    from graphframes import GraphFrame
    from pyspark.sql import DataFrame, SparkSession

VERSION = version("graphframes-py")  #: the jars must have the same release (decision 14)
COORDINATES = (
    f"io.graphframes:graphframes-spark4_2.13:{VERSION}",
    f"io.graphframes:graphframes-graphx-spark4_2.13:{VERSION}",
)
_ROUNDS_MAX = 2**31 - 1  #: the default of graphframes-py is 2 ^ 31 - 2, which Python reads as 31
_CLASSES = ("org.graphframes.GraphFramePythonAPI", "org.apache.spark.graphframes.graphx.Graph")  # one of each jar


class NoGraphFramesError(PenstockError):
    """The Spark session has no GraphFrames, or another release of it."""


def missing_jars(places: Sequence[Path]) -> str | None:
    """Returns why GraphFrames cannot run with the jars in these folders, before Spark starts; None: it can."""
    jars = [find_jar(places, coordinate.split(":")[1] + "-") for coordinate in COORDINATES]
    return _problem([jar.name if jar is not None else None for jar in jars])


def missing(spark: SparkSession) -> str | None:
    """Returns why this session cannot run GraphFrames, as a sentence with a hint; None: it can."""
    jvm = getattr(spark, "_jvm", None)
    if jvm is None:
        return "The graphframes engine does not work with Spark Connect: remove --remote."
    return _problem([_jar_of(jvm, name) for name in _CLASSES])


def _jar_of(jvm: Any, name: str) -> str | None:
    """Returns the file that a class comes from; None: there is no such class."""
    from py4j.protocol import Py4JJavaError

    try:
        class_ = jvm.Thread.currentThread().getContextClassLoader().loadClass(name)
    except Py4JJavaError:
        return None
    source = class_.getProtectionDomain().getCodeSource()
    return "" if source is None else str(source.getLocation().getPath()).rpartition("/")[2]


def _problem(jars: Sequence[str | None]) -> str | None:
    """Returns what is wrong with the jars; None: nothing. `jars`: file names in the order of COORDINATES. A name
    without a version is accepted."""
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
    return None


class GraphFramesEngine:
    """Releases what Spark persists for it, but does not own the session."""

    name = "graphframes"

    def __init__(self, spark: SparkSession) -> None:
        """Raises NoGraphFramesError when the jars are missing."""
        why = missing(spark)
        if why:
            raise NoGraphFramesError(why, "--engine local needs no jars.")
        self._spark = spark
        self._local = LocalEngine()
        #: Rounds are kept on the executors, and are gone with one of them, unless there is a place for them.
        self._on_executors = spark.sparkContext.getCheckpointDir() is None

    def islands(self, graph: Graph) -> Ints:
        """See `Engine`."""
        if not len(graph.heads):
            return np.arange(graph.size, dtype=np.int64)
        with _released(self._spark):
            components = self._graph(graph, np.zeros(graph.size), graph.weights).connectedComponents(
                algorithm="graphframes",
                checkpointInterval=1,
                use_local_checkpoints=self._on_executors,
                max_iter=_ROUNDS_MAX,
            )
            labels = _column(components, "component", graph.size)
        return smallest_label(labels.astype(np.int64))

    def influence(self, graph: Graph, base: Floats) -> Floats:
        """See `Engine`. A round passes on what the one before has brought, so the rounds end with the longest path."""
        from graphframes.lib import Pregel
        from pyspark.sql import functions as f

        if not len(graph.heads):
            return base
        came = f.coalesce(Pregel.msg(), f.lit(0.0))
        with _released(self._spark):
            pregel = self._graph(graph, base, shares(graph) * DAMPING).pregel
            result = (
                pregel.setMaxIter(ROUNDS)
                .setUseLocalCheckpoints(self._on_executors)
                .setEarlyStopping(True)
                .withVertexColumn("value", f.col("base"), f.col("value") + came)
                .withVertexColumn("came", f.col("base"), came)
                .sendMsgToSrc(f.when(Pregel.dst("came") != 0, Pregel.dst("came") * Pregel.edge("weight")))
                .aggMsgs(f.sum(Pregel.msg()))
                .run()
            )
            return _column(result, "value", graph.size).astype(np.float64)

    def loops(self, graph: Graph) -> Ints:
        """See `Engine`."""
        return self._local.loops(graph)

    def hops(self, graph: Graph, starts: Iterable[int]) -> Iterator[tuple[int, Ints, Ints]]:
        """See `Engine`."""
        yield from self._local.hops(graph, starts)

    def articulation_points(self, graph: Graph, values: Ints) -> dict[int, tuple[int, int]]:
        """See `Engine`."""
        return self._local.articulation_points(graph, values)

    def close(self) -> None:
        """Nothing to release between two questions."""

    def _graph(self, graph: Graph, base: Floats, weights: Floats) -> GraphFrame:
        from graphframes import GraphFrame

        vertices = pa.table({"id": np.arange(graph.size, dtype=np.int64), "base": base})
        edges = pa.table({"src": graph.heads, "dst": graph.tails, "weight": weights})
        return GraphFrame(frame_of_table(self._spark, vertices), frame_of_table(self._spark, edges))


def _column(frame: DataFrame, name: str, size: int) -> NDArray[Any]:
    """Returns the values of a column by vertex."""
    table = frame.select("id", name).toArrow()
    assert table.num_rows == size, "an answer for every vertex"
    values: NDArray[Any] = table[name].to_numpy()
    return values[np.argsort(table["id"].to_numpy())]


@contextlib.contextmanager
def _released(spark: SparkSession) -> Iterator[None]:
    """Lets go of everything that Spark has persisted inside: GraphFrames persists frames that it does not return."""
    jsc: Any = spark.sparkContext._jsc
    before = set(jsc.getPersistentRDDs())
    yield
    for number, rdd in dict(jsc.getPersistentRDDs()).items():
        if number not in before:
            rdd.unpersist(False)
