"""`penstock job topology`: the same report as `penstock topology`, joined and counted by Spark.

Refuses to be another report: only who computes differs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.output import note
from app.cli.spark_options import Conf, DriverHost, Master, Memory, Place, Remote, session
from app.cli.topology import (
    Diff,
    FailOn,
    Folder,
    Jars,
    Kafka,
    Namespace,
    Out,
    Shape,
    Shapes,
    Since,
    TrafficName,
    finish,
    make_wish,
    read_old,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from analytics.topology.graph import Engine


class Walker(StrEnum):
    """What walks the graph. `auto`: GraphFrames where its jars are, else the local engine."""

    AUTO = "auto"
    LOCAL = "local"
    GRAPHFRAMES = "graphframes"


def register(group: typer.Typer) -> None:
    """Adds `topology` to the jobs."""
    group.command("topology")(topology)


def topology(
    master: Master = "",
    remote: Remote = "",
    engine: Annotated[
        Walker, typer.Option("--engine", help="What walks the graph; auto: GraphFrames where its jars are.")
    ] = Walker.AUTO,
    namespace: Namespace = "",
    out: Out = None,
    diff: Diff = None,
    since: Since = "10m",
    traffic: Annotated[
        TrafficName, typer.Option("--traffic", help="Where the numbers come from; auto takes the best there is.")
    ] = TrafficName.AUTO,
    folder: Folder = None,
    fail_on: FailOn = None,
    jars: Jars = None,
    kafka: Kafka = "",
    driver_host: DriverHost = "",
    memory: Memory = "1g",
    conf: Conf = None,
    output: Shapes = Shape.TABLE,
) -> None:
    """Draw the map of who sends what to whom, as `penstock topology` does, by Spark.

    For long spans of traffic and on a cluster; for a look at what runs now `penstock topology` is quicker.

    \b
    Examples:
      penstock job topology --out report
      penstock job topology --since 7d --folder .penstock/traffic
      penstock job topology --master spark://head:7077 --driver-host 10.0.0.5
      penstock job topology --engine graphframes --jars ~/graphframes-jars
    """
    from app.topology.job import is_small, run

    old = read_old(diff)
    wish = make_wish(kafka, since, namespace, folder, traffic)
    # GraphFrames' rounds are many queries over the whole graph: for them code is worth its while.
    small = is_small(wish) and not _may_be_graphframes(engine, jars or [])
    place = Place(master, remote, driver_host, memory, tuple(conf or ()), tuple(jars or ()), small)
    with session("penstock job topology", place) as spark:
        notes: list[str] = []
        with _walker(spark, engine, notes) as walking:
            found = run(spark, wish, walking, notes, small)
    finish(found, old, out, fail_on, output)


def _may_be_graphframes(wish: Walker, jars: list[Path]) -> bool:
    """Before Spark is there to be asked."""
    from analytics.topology.graphframes_engine import missing_jars
    from app.spark import known_places

    return wish is not Walker.LOCAL and not missing_jars(known_places(jars))


@contextlib.contextmanager
def _walker(spark: SparkSession, wish: Walker, notes: list[str]) -> Iterator[Engine]:
    from analytics.topology.graphframes_engine import GraphFramesEngine, missing
    from analytics.topology.local_engine import LocalEngine

    if wish is Walker.LOCAL:
        yield LocalEngine()
        return
    why = missing(spark)
    if why:
        notes.append(f"{why} The local engine answered.")
        if wish is Walker.GRAPHFRAMES:
            note(f"{why} The local engine answers.")
        yield LocalEngine()
        return
    engine = GraphFramesEngine(spark)
    try:
        yield engine
    finally:
        engine.close()
