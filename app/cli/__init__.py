"""The `penstock` command line. Commands print what they did, as a table or as JSON, and end with 0, 1, 2, 3 or 4.

    0 done   1 failed   2 the command or a setting was wrong   3 not ready, or a time limit passed   4 partly done

The module of a command is imported when the command is called, so that `--help` answers at once.
"""

from __future__ import annotations

import signal
import sys
import threading
from typing import Annotated, NoReturn

import typer

from app.cli.commands import Commands, Entry, Root
from app.cli.output.format import print_error
from app.settings.extras import error_of
from knative.errors import PenstockError

#: In the order of `--help`.
_COMMANDS = (
    Entry(
        "up",
        "app.cli.up:up",
        "Run everything on this machine until Ctrl-C: Kafka, a worker, the example's resources, a sample subscriber.",
    ),
    Entry(
        "demo",
        "app.cli.demo:demo",
        "Send 1,000 events through everything, on free ports and in a temporary directory; the last line is JSON.",
    ),
    Entry(
        "worker",
        "app.cli.worker:worker",
        "Run one worker: the same as `faust -A app worker -l info` with these settings. It never starts a Kafka.",
    ),
    Entry(
        "send",
        "app.cli.send:send",
        "Send one event or many to a channel: ends with 0 when all were stored (202), 3 when not ready, else 1.",
    ),
    Entry(
        "receive",
        "app.cli.receive:receive",
        "Print events as they are stored: new ones until Ctrl-C, or --last N, or all --from-beginning.",
    ),
    Entry(
        "tail",
        "app.cli.tail:tail",
        "Print the latest events of a channel, then new ones until Ctrl-C.",
    ),
    Entry(
        "status",
        "app.cli.status:status",
        "Show channels and subscriptions: ends with 0 when all are ready and every file is taken, else with 3.",
    ),
    Entry(
        "lag",
        "app.cli.lag:lag",
        "Show how far each subscription is behind, per partition: the furthest first.",
    ),
    Entry(
        "traffic",
        "app.cli.traffic:traffic",
        "Show what went through channels and subscriptions: of the last minute, if nothing else is said.",
    ),
    Entry(
        "remove",
        "app.cli.remove:remove",
        "Remove resources that no file names any more: a subscription with its group, a channel with its topics.",
    ),
    Entry(
        "topology",
        "app.cli.topology:topology",
        "Draw the map of sources, channels, subscriptions and destinations, and find what is wrong with it.",
    ),
    Entry(
        "validate",
        "app.cli.validate:validate",
        "Check resource files: ends with 0 when all of them can be served, with 1 when not.",
    ),
    Entry(
        "kafka",
        "app.cli.kafka:group",
        "A real Kafka on this machine, in the background (one broker on loopback; needs Java 17 and, once, Maven).",
    ),
    Entry(
        "dlq",
        "app.cli.dlq.group:group",
        "Dead letters: events that a subscriber did not take.",
    ),
    Entry(
        "job",
        "app.cli.job.group:group",
        "Jobs on Spark: on this machine, or on a cluster with --master.",
    ),
    Entry(
        "census",
        "app.cli.census.group:group",
        "Count housing units in census files by many processes: files -> chunks -> counts -> totals, over Kafka.",
    ),
    Entry(
        "config",
        "app.cli.configuration:group",
        "The settings: PENSTOCK_... in the environment, or in the file named by PENSTOCK_CONFIG.",
    ),
)


cli = Commands(
    _COMMANDS,
    cls=Root,
    name="penstock",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"penstock {version('penstock')}")
        raise typer.Exit()


@cli.callback()
def penstock(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and end.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """CloudEvents in by HTTP, stored in Kafka, delivered to every subscription.

    \b
    Examples:
      penstock up             everything on this machine, with an example to try
      penstock send           an event into the example's channel
      penstock status         channels and subscriptions, ready or not
      penstock lag            how far each subscription is behind
      penstock traffic        what went through in the last minute
      penstock dlq list       what could not be delivered
      penstock topology       who sends what to whom, and what is wrong with it
      penstock config show    every setting and where its value came from
    """


def main() -> None:
    """The entry point. An error that a user can fix is one sentence with a hint, never a traceback."""
    try:
        cli(prog_name="penstock")
    except PenstockError as error:
        _end(error)
    except ModuleNotFoundError as problem:
        # Commands check for extras before they begin; this is for an import that no check covers.
        missing = error_of(problem, "This command")
        if missing is None:
            raise
        _end(missing)
    finally:
        # The command is over. While the interpreter ends, Python handles signals by their defaults again: Ctrl-C would
        # kill a process that has done its work.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def _end(error: PenstockError) -> NoReturn:
    print_error(error)
    sys.exit(error.exit_code)
