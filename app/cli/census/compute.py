"""`penstock census compute`: chunks into counts, until it is stopped. `analytics/census` counts."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from app.census.choices import WriteTo
from app.census.metrics import COMPUTE_READ, RESULTS_WRITTEN, CensusMetrics, shown
from app.census.sinks import make_sink
from app.census.topics import Topics
from app.cli.census.long_running import quiet, results_topic_of
from app.cli.census.options import (
    CHECKPOINT,
    COMPUTE,
    METRICS_PORT,
    RESULTS,
    Checkpoint,
    ComputeTopic,
    Delay,
    DryRun,
    Engine,
    MetricsPort,
    Partitions,
    Replication,
    ResultsTopic,
    To,
    Verbose,
    WithMetrics,
    all_or,
    show_plan,
)
from app.cli.options.kafka import Kafka, kafka_client
from app.cli.options.spark import Conf, DriverHost, JobOptions, Master, Memory, Remote, session
from app.cli.output.format import note
from app.settings import load_settings
from knative.errors import UsageError

if TYPE_CHECKING:
    from app.census.computing import ComputeRole


def compute(
    engine: Annotated[
        Engine, typer.Option("--engine", help="Spark streaming, or a Faust worker in a consumer group.")
    ] = Engine.SPARK,
    once: Annotated[bool, typer.Option("--once", help="Exit when all present chunks are counted (Spark).")] = False,
    chunks: Annotated[
        int, typer.Option("--chunks", min=-1, help="Exit after about this many chunks (Spark); -1: all.")
    ] = -1,
    delay: Delay = 0,
    write_to: To = WriteTo.KAFKA,
    kafka: Kafka = "",
    compute_topic: ComputeTopic = COMPUTE,
    results_topic: ResultsTopic = RESULTS,
    partitions: Partitions = None,
    replication: Replication = 1,
    checkpoint: Checkpoint = CHECKPOINT,
    master: Master = "",
    remote: Remote = "",
    driver_host: DriverHost = "",
    driver_memory: Memory = "1g",
    conf: Conf = None,
    with_metrics: WithMetrics = False,
    metrics_port: MetricsPort = METRICS_PORT,
    dry_run: DryRun = False,
    verbose: Verbose = False,
) -> None:
    """Count the codes in each chunk of the compute topic, and write the result to the results topic.

    Runs until Ctrl-C. After a kill it may compute some chunks twice; the results table counts them once.
    With --engine faust, several processes share the partitions; Spark distributes them to its workers.

    \b
    Examples:
      penstock census compute
      penstock census compute --once --master 'local[2]'
      penstock census compute --engine faust --with-metrics
      penstock census compute --chunks 3 --write-to stdout
      penstock census compute --master spark://head:7077 --driver-host 10.0.0.5
    """
    client = kafka_client(kafka)
    if engine is Engine.FAUST and (once or chunks >= 0):
        raise UsageError("--once and --chunks need --engine spark.", "Remove them, or use that engine.")
    if remote:
        raise UsageError(
            "Spark Connect would store the checkpoint of this count on the server, not on this machine.",
            "Remove --remote, or use --master.",
        )
    if dry_run:
        show_plan(
            {
                "command": "compute", "engine": engine.value, "kafka": client["bootstrap.servers"],
                "from_topic": compute_topic, "write_to": write_to.value,
                "to_topic": results_topic if write_to is WriteTo.KAFKA else "", "once": once,
                "chunks": "all" if chunks < 0 else chunks, "delay_ms": delay,
                "partitions": partitions or "as many as the compute topic has", "replication_factor": replication,
                "checkpoint": str(checkpoint) if engine is Engine.SPARK else "", "master": master,
                "metrics_port": metrics_port if with_metrics else "",
            }
        )  # fmt: skip
        return
    options = JobOptions(master, "", driver_host, driver_memory, tuple(conf or ()))
    if engine is Engine.SPARK:
        options.check()
    target = (results_topic, partitions, replication)
    role = _role(client, compute_topic, write_to, target, delay / 1000, once, all_or(chunks), verbose)
    with _metrics(metrics_port if with_metrics else None) as metrics:
        _faust(role, metrics, verbose) if engine is Engine.FAUST else _spark(role, options, checkpoint, metrics)


def _faust(role: ComputeRole, metrics: CensusMetrics, verbose: bool) -> None:
    from app.census.computing import with_faust

    with_faust(
        quiet(load_settings(), verbose),
        role,
        metrics,
        lambda: note(f"Counting {role.compute.name}. Press Ctrl-C to stop."),
    )


def _role(
    client: dict[str, str],
    compute_topic: str,
    write_to: WriteTo,
    target: tuple[str, int | None, int],
    delay_s: float,
    once: bool,
    chunks: int | None,
    verbose: bool,
) -> ComputeRole:
    """`target`: name, partitions and replicas of the results topic. Raises PenstockError."""
    from app.census.computing import ComputeRole

    topics = Topics(client)
    source = topics.describe([compute_topic])[0]
    name, partitions, replication = target
    made = None
    if write_to is WriteTo.KAFKA:
        made = results_topic_of(topics, name, partitions or source.partitions, replication)
    sink = make_sink(write_to, client, name, lambda: None)
    say = note if verbose else lambda _: None
    return ComputeRole(client, source, made, sink, write_to, delay_s, once, chunks, say)


@contextmanager
def _metrics(port: int | None) -> Iterator[CensusMetrics]:
    metrics = CensusMetrics(COMPUTE_READ, RESULTS_WRITTEN)
    with shown(metrics, port, load_settings().bind):
        yield metrics


def _spark(role: ComputeRole, options: JobOptions, checkpoint: Path, metrics: CensusMetrics) -> None:
    from app.census.computing import checkpoint_of, with_spark

    def interrupt(_number: int, _frame: object) -> NoReturn:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    with tempfile.TemporaryDirectory(prefix="penstock-census-") as passing:
        folder = Path(passing) if role.results is None else checkpoint  # without a results topic, no place is kept
        spark = session("penstock census compute", options)
        note(f"Counting chunks of {role.compute.name} with Spark." + ("" if role.once else " Press Ctrl-C to stop."))
        try:
            count = with_spark(spark, role, checkpoint_of(folder, role), metrics)
        except KeyboardInterrupt:
            note("Stopped.")
            return
        note(f"Counted {count} chunks.")
