"""`penstock census results`: counts into totals, served until it is stopped. `app/census` adds them up."""

from __future__ import annotations

from typing import Annotated

import typer

from app.census.metrics import RESULTS_READ, CensusMetrics, shown
from app.census.topics import Topics
from app.cli.census.long_running import quiet, results_topic_of
from app.cli.census.options import (
    METRICS_PORT,
    PARTITIONS,
    RESULTS,
    DryRun,
    MetricsPort,
    Partitions,
    Replication,
    ResultsTopic,
    Verbose,
    WithMetrics,
    show_plan,
)
from app.cli.options.kafka import Kafka, kafka_client
from app.cli.output.format import note
from app.local.kafka.ports import is_free
from app.settings import load_settings
from knative.errors import PenstockError

_PORT = 8888


def results(
    port: Annotated[int, typer.Option("--port", "--results-port", min=1, max=65535, help="Port of /results.")] = _PORT,
    kafka: Kafka = "",
    results_topic: ResultsTopic = RESULTS,
    partitions: Partitions = None,
    replication: Replication = 1,
    with_metrics: WithMetrics = False,
    metrics_port: MetricsPort = METRICS_PORT,
    dry_run: DryRun = False,
    verbose: Verbose = False,
) -> None:
    """Add up the results topic, and serve the totals by year and code as JSON at /results until Ctrl-C.

    The totals are in a Faust table, which survives restarts; each chunk counts once. /results?wide shows what is
    missing or doubtful; /readyz answers 200 when all totals are loaded.

    \b
    Examples:
      penstock census results
      curl -s localhost:8888/results
      curl -s 'localhost:8888/results?wide'
      penstock census results --port 9000 --with-metrics
    """
    client = kafka_client(kafka)
    if dry_run:
        show_plan(
            {
                "command": "results", "kafka": client["bootstrap.servers"], "topic": results_topic, "port": port,
                "metrics_port": metrics_port if with_metrics else "",
            }
        )  # fmt: skip
        return
    from app.census.results_worker import ResultsRole, serve

    settings = load_settings()
    topic = results_topic_of(Topics(client), results_topic, partitions or PARTITIONS, replication)
    if not is_free(port):
        raise PenstockError(f"Port {port} is used by another program.", "Choose another one: --port PORT.")
    metrics = CensusMetrics(RESULTS_READ)
    role = ResultsRole(client, port, settings.bind)
    where = f"http://localhost:{port}/results"
    with shown(metrics, metrics_port if with_metrics else None, settings.bind):
        serve(
            quiet(settings, verbose),
            role,
            topic,
            metrics,
            lambda: note(f"Totals are at {where}. Press Ctrl-C to stop."),
        )
