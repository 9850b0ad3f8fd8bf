"""`penstock job NAME`: jobs on Spark, on this machine or on a cluster by nothing but --master.

Each job is a module of its own with `register(group)`; what they share is in `spark_options`. Refuses to know what
any of them does.
"""

from __future__ import annotations

import typer

from app.cli.commands import Commands
from app.cli.job import topology, traffic


def register(cli: typer.Typer) -> None:
    """Adds `job` to the commands."""
    group = Commands()
    traffic.register(group)
    topology.register(group)
    group.callback()(job)
    cli.add_typer(group, name="job")


def job() -> None:
    """Jobs on Spark: on this machine, or on a cluster with --master.

    \b
    Examples:
      penstock job traffic
      penstock job traffic --since 1h
      penstock job traffic --master spark://head:7077
      penstock job topology --out report
    """
