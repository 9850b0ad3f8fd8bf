"""`penstock job topology`: the same report as `penstock topology`, with joins and counts by Spark."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from analytics.topology.engines.choice import LOCAL_EDGES_MAX, EngineChoice, choose
from app.cli.options.extras import need_or_install
from app.cli.options.kafka import Kafka
from app.cli.options.spark import (
    CheckpointDir,
    Conf,
    DriverHost,
    JobOptions,
    Master,
    Memory,
    Remote,
    interruptible,
    session,
)
from app.cli.topology import (
    Diff,
    Engines,
    FailOn,
    Folder,
    Jars,
    Namespace,
    Out,
    Shape,
    Shapes,
    Since,
    TrafficName,
    TrafficOption,
    Until,
    check_jars,
    finish,
    make_query,
    read_old,
)
from app.settings.environment import started_by_spark_submit
from app.settings.extras import ANALYTICS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from analytics.topology.engines.port import Engine


def topology(
    master: Master = "",
    remote: Remote = "",
    engine: Engines = EngineChoice.AUTO,
    namespace: Namespace = "",
    out: Out = None,
    diff: Diff = None,
    since: Since = "10m",
    until: Until = "",
    traffic: TrafficOption = TrafficName.AUTO,
    folder: Folder = "",
    fail_on: FailOn = None,
    jars: Jars = None,
    kafka: Kafka = "",
    driver_host: DriverHost = "",
    memory: Memory = "1g",
    checkpoint_dir: CheckpointDir = "",
    conf: Conf = None,
    output: Shapes = Shape.TABLE,
) -> None:
    """Show the topology, as `penstock topology` does, with Spark.

    Use it for long time ranges and on a cluster; `penstock topology` is faster for the current traffic.

    \b
    Examples:
      penstock job topology --out report
      penstock job topology --since 7d --folder .penstock/traffic
      penstock job topology --master spark://head:7077 --driver-host 10.0.0.5
      penstock job topology --engine graphframes --jars ~/graphframes-jars
    """
    need_or_install(ANALYTICS, "`penstock job topology`")
    with interruptible():
        from app.operations.topology.job import is_small, run

        old = read_old(diff)
        query = make_query(kafka, since, until, namespace, folder, traffic)
        _check_jars(engine, remote, jars or [])
        # GraphFrames' rounds are many queries over the whole graph: generated code is worth its compile time.
        small = engine is not EngineChoice.GRAPHFRAMES and is_small(query)
        rounds = engine is not EngineChoice.LOCAL and not small
        given = (*(conf or ()), *([f"spark.checkpoint.dir={checkpoint_dir}"] if checkpoint_dir else ()))
        options = JobOptions(master, remote, driver_host, memory, given, tuple(jars or ()), small, rounds)
        with session("penstock job topology", options) as spark:
            new = run(spark, query, partial(_engine, spark, engine), small)
        finish(new, old, out, fail_on, output, query)


def _check_jars(engine: EngineChoice, remote: str, jars: list[Path]) -> None:
    """Raises an error if jars of an explicitly chosen engine are missing, before Spark takes seconds to start."""
    if engine is EngineChoice.GRAPHFRAMES and not remote and not started_by_spark_submit():
        check_jars(jars)


def _engine(spark: SparkSession, query: EngineChoice, edges: int) -> tuple[Engine, str | None]:
    """Returns the engine for this many edges, with a sentence that says why. Raises NoGraphFramesError if GraphFrames
    was chosen explicitly and is missing.
    """
    from analytics.topology.engines.graphframes import GraphFramesEngine, missing
    from analytics.topology.engines.local import LocalEngine

    why_not = missing(spark) if query is EngineChoice.AUTO and edges > LOCAL_EDGES_MAX else None
    chosen, why = choose(query, edges, why_not)
    return (GraphFramesEngine(spark) if chosen is EngineChoice.GRAPHFRAMES else LocalEngine()), why
