"""`penstock census compute` and `penstock census results`: the two that run until they are stopped.

Refuses to compute and to total (`analytics/census` and `app/census/results_table` do).
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from app.census.choices import WriteTo
from app.cli.census.options import (
    COMPUTE,
    METRICS_PORT,
    PARTITIONS,
    RESULTS,
    ComputeTopic,
    Delay,
    DryRun,
    Kafka,
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
from app.cli.options.spark import Conf, DriverHost, Master, Memory, Place, Remote
from app.cli.output.format import note
from knative.errors import UsageError

if TYPE_CHECKING:
    from app.census.computing import ComputeRole
    from app.census.metrics import CensusMetrics
    from app.census.topics import Topic, Topics
    from app.settings.load import Settings

CHECKPOINT = Path(".penstock/census/compute")
_PORT = 8888


class Engine(StrEnum):
    """What `--engine` takes."""

    SPARK = "spark"
    FAUST = "faust"


Checkpoint = Annotated[Path, typer.Option("--checkpoint", help="Where Spark keeps its place, a folder for each topic.")]


def register(group: typer.Typer) -> None:
    """Adds `compute` and `results`."""
    group.command("compute")(compute)
    group.command("results")(results)


def compute(
    engine: Annotated[
        Engine, typer.Option("--engine", help="Spark streaming, or a Faust worker of a group.")
    ] = Engine.SPARK,
    once: Annotated[
        bool, typer.Option("--once", help="End when all chunks that are there are counted (Spark).")
    ] = False,
    chunks: Annotated[int, typer.Option("--chunks", min=-1, help="End after about so many (Spark); -1: all.")] = -1,
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
    """Count the codes in each chunk of the topic compute, and write a result for it to the topic results.

    Goes on until Ctrl-C. Killed and started again, it may count some chunks twice, which the results table knows.
    More processes with --engine faust share the partitions; Spark shares them out among its workers.

    \b
    Examples:
      penstock census compute
      penstock census compute --once --master 'local[2]'
      penstock census compute --engine faust --with-metrics
      penstock census compute --chunks 3 --write-to stdout
      penstock census compute --master spark://head:7077 --driver-host 10.0.0.5
    """
    from app.cli.receive import kafka_client

    client = kafka_client(kafka)
    if engine is Engine.FAUST and (once or chunks >= 0):
        raise UsageError("--once and --chunks go with --engine spark.", "Leave them out, or take that engine.")
    if remote:
        raise UsageError(
            "Spark Connect cannot keep the place of this count on this machine: it would end up on the server's.",
            "Leave --remote out, or give --master.",
        )
    if dry_run:
        show_plan(
            {
                "command": "compute", "engine": engine.value, "kafka": client["bootstrap.servers"],
                "from_topic": compute_topic, "write_to": write_to.value,
                "to_topic": results_topic if write_to is WriteTo.KAFKA else "", "once": once,
                "chunks": "all" if chunks < 0 else chunks, "delay_ms": delay,
                "partitions": partitions or "those of the compute topic", "replication_factor": replication,
                "checkpoint": str(checkpoint) if engine is Engine.SPARK else "", "master": master,
                "metrics_port": metrics_port if with_metrics else "",
            }
        )  # fmt: skip
        return
    place = Place(master, "", driver_host, driver_memory, tuple(conf or ()))
    if engine is Engine.SPARK:
        place.check()
    target = (results_topic, partitions, replication)
    role = _role(client, compute_topic, write_to, target, delay / 1000, once, all_or(chunks), verbose)
    with _metrics(metrics_port if with_metrics else None) as metrics:
        _faust(role, metrics, verbose) if engine is Engine.FAUST else _spark(role, place, checkpoint, metrics)


def _quiet(settings: Settings, verbose: bool) -> Settings:
    """What Faust says of its own starting is for those who ask."""
    asked = verbose or "log_level" in settings.sources
    return settings if asked else settings.model_copy(update={"log_level": "warning"})


def _faust(role: ComputeRole, metrics: CensusMetrics, verbose: bool) -> None:
    from app.census.computing import with_faust
    from app.settings.load import load_settings

    with_faust(
        _quiet(load_settings(), verbose), role, metrics, lambda: note(f"Counting {role.compute.name}. Ctrl-C ends it.")
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
    """`target`: name, partitions and replicas of the topic of results. Raises PenstockError."""
    from app.census.computing import ComputeRole
    from app.census.sinks import make_sink
    from app.census.topics import Topics

    topics = Topics(client)
    source = topics.describe([compute_topic])[0]
    name, partitions, replication = target
    made = None
    if write_to is WriteTo.KAFKA:
        made = _results_topic(topics, name, partitions or source.partitions, replication)
    sink = make_sink(write_to, client, name, lambda: None)
    say = note if verbose else lambda _: None
    return ComputeRole(client["bootstrap.servers"], source, made, sink, write_to, delay_s, once, chunks, say)


@contextmanager
def _metrics(port: int | None) -> Iterator[CensusMetrics]:
    from app.census.metrics import COMPUTE_READ, RESULTS_WRITTEN, CensusMetrics, shown
    from app.settings.load import load_settings

    metrics = CensusMetrics(COMPUTE_READ, RESULTS_WRITTEN)
    with shown(metrics, port, load_settings().bind):
        yield metrics


def _results_topic(topics: Topics, name: str, partitions: int, replication: int) -> Topic:
    from app.census.topics import KEPT

    found, new = topics.ensure(name, partitions, replication, KEPT)
    if new:
        note(f"Made the topic {name} with {found.partitions} partitions.")
    return found


def _spark(role: ComputeRole, place: Place, checkpoint: Path, metrics: CensusMetrics) -> None:
    import tempfile

    from app.census.computing import checkpoint_of, with_spark
    from app.cli.options.spark import session

    def interrupt(_number: int, _frame: object) -> NoReturn:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    with tempfile.TemporaryDirectory(prefix="penstock-census-") as passing:
        folder = Path(passing) if role.results is None else checkpoint  # a look keeps no place
        spark = session("penstock census compute", place)
        note(f"Counting chunks of {role.compute.name} with Spark." + ("" if role.once else " Ctrl-C ends it."))
        try:
            count = with_spark(spark, role, checkpoint_of(folder, role), metrics)
        except KeyboardInterrupt:
            note("Stopped.")
            return
        note(f"Counted {count} chunks.")


def results(
    port: Annotated[int, typer.Option("--port", "--results-port", min=1, max=65535, help="Of /results.")] = _PORT,
    kafka: Kafka = "",
    results_topic: ResultsTopic = RESULTS,
    partitions: Partitions = None,
    replication: Replication = 1,
    with_metrics: WithMetrics = False,
    metrics_port: MetricsPort = METRICS_PORT,
    dry_run: DryRun = False,
    verbose: Verbose = False,
) -> None:
    """Add up the topic results, and serve the totals by year and code as JSON at /results until Ctrl-C.

    The totals live in a Faust table: after a restart they are there again, and each chunk counts once. /results?wide
    says what is missing or doubtful; /readyz answers 200 when all totals are here.

    \b
    Examples:
      penstock census results
      curl -s localhost:8888/results
      curl -s 'localhost:8888/results?wide'
      penstock census results --port 9000 --with-metrics
    """
    from app.cli.receive import kafka_client

    client = kafka_client(kafka)
    if dry_run:
        show_plan(
            {
                "command": "results", "kafka": client["bootstrap.servers"], "topic": results_topic, "port": port,
                "metrics_port": metrics_port if with_metrics else "",
            }
        )  # fmt: skip
        return
    from app.census.metrics import RESULTS_READ, CensusMetrics, shown
    from app.census.results_worker import ResultsRole, serve
    from app.census.topics import Topics
    from app.local.kafka.ports import is_free
    from app.settings.load import load_settings
    from knative.errors import PenstockError

    settings = load_settings()
    topic = _results_topic(Topics(client), results_topic, partitions or PARTITIONS, replication)
    if not is_free(port):
        raise PenstockError(f"Port {port} is taken by another program.", "Choose another one: --port PORT.")
    metrics = CensusMetrics(RESULTS_READ)
    role = ResultsRole(client["bootstrap.servers"], port, settings.bind)
    where = f"http://localhost:{port}/results"
    with shown(metrics, metrics_port if with_metrics else None, settings.bind):
        serve(_quiet(settings, verbose), role, topic, metrics, lambda: note(f"Totals are at {where}. Ctrl-C ends it."))
