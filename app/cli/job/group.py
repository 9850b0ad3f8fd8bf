"""`penstock job NAME`: jobs on Spark, on this machine or on a cluster; only --master differs.

Each job has a module of its own; what they share is in `app/cli/options/spark`.
"""

from __future__ import annotations

from app.cli.commands import Commands, Entry

_COMMANDS = (
    Entry(
        "traffic",
        "app.cli.job.traffic:traffic",
        "Count events by channel, subscription, type and source, in windows of a minute, an hour or a day.",
    ),
    Entry(
        "topology",
        "app.cli.job.topology:topology",
        "Show the topology, as `penstock topology` does, with Spark.",
    ),
)


group = Commands(_COMMANDS)


@group.callback()
def job() -> None:
    """Run a Spark job: traffic or topology.

    The job runs on this machine, or on a cluster with --master.

    \b
    Examples:
      penstock job traffic
      penstock job traffic --since 1h
      penstock job traffic --master spark://head:7077
      penstock job topology --out report
    """
