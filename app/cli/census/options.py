"""Options that several census commands share, and the values that they result in."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from analytics.census.model import COMPUTE_TOPIC, RESULTS_TOPIC
from app.census.choices import WriteTo
from app.cli.output.format import Format, print_json

ComputeTopic = Annotated[str, typer.Option("--compute-topic", help="Topic for the chunks.")]
ResultsTopic = Annotated[str, typer.Option("--results-topic", help="Topic for the results.")]
To = Annotated[WriteTo, typer.Option("--write-to", help="Where the output goes; null: discard it.")]
Chunks = Annotated[int, typer.Option("--chunks", min=-1, help="At most this many chunks; -1: all.")]
Delay = Annotated[int, typer.Option("--delay", min=0, help="Milliseconds to wait after each chunk, to watch it work.")]
Partitions = Annotated[
    int | None,
    typer.Option("--partitions", "--compute-topic-partitions", min=1, max=1_000, help="Partitions of a new topic."),
]
Replication = Annotated[
    int,
    typer.Option(
        "--replication-factor", "--compute-topic-replfactor", min=1, max=9, help="Replication factor of a new topic."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the options that would be used, and exit.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Print more details.")]
WithMetrics = Annotated[bool, typer.Option("--with-metrics", help="Serve Prometheus metrics while it runs.")]
MetricsPort = Annotated[int, typer.Option("--metrics-port", min=1, max=65535, help="Port of the metrics.")]

Years = Annotated[str, typer.Option("--years", help="Years, comma-separated: 2018,2019.")]
Months = Annotated[str, typer.Option("--months", help="Months, comma-separated: jan,feb; '*' means all.")]
Checkpoint = Annotated[Path, typer.Option("--checkpoint", help="Folder of Spark's checkpoints, one for each topic.")]

COMPUTE = COMPUTE_TOPIC
RESULTS = RESULTS_TOPIC
CHECKPOINT = Path(".penstock/census/compute")
METRICS_PORT = 9123
PARTITIONS = 4  #: enough to share work, also on a laptop


class Engine(StrEnum):
    """The values of `--engine`."""

    SPARK = "spark"
    FAUST = "faust"


def all_or(chunks: int) -> int | None:
    """The option's -1 means "all"."""
    return None if chunks < 0 else chunks


def show_plan(plan: Mapping[str, object], output: Format = Format.TABLE) -> None:
    """What `--dry-run` prints."""
    if output is Format.JSON:
        print_json(plan)
        return
    print("Would run with:")
    width = max(map(len, plan))
    for name, value in plan.items():
        lines = (
            list(map(str, value)) if isinstance(value, (list, tuple)) else ["-" if value in (None, "") else str(value)]
        )
        for number, line in enumerate(lines or ["-"]):
            print(f"  {'' if number else name.replace('_', ' '):{width}}  {line}")
