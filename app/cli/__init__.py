"""`penstock`: the friendly door. Commands say what they did, with a table or with JSON, and end with 0, 1, 2, 3 or 4.

    0 done   1 failed   2 the command or a setting was wrong   3 not ready, or a time limit passed   4 partly done

Refuses to do what the worker does: it starts it, sends to it, and looks at it. What a command needs is imported when it
runs, so that `--help` answers at once.
"""

from __future__ import annotations

import sys
from typing import Annotated, NoReturn

import typer

from app.cli import configuration, kafka, lag, receive, remove, running, send, status, tail, topology, traffic, validate
from app.cli.census import group as census
from app.cli.commands import Commands, Root
from app.cli.dlq import group as dlq
from app.cli.job import group as job
from app.cli.output.format import print_error
from app.settings.extras import error_of
from knative.errors import PenstockError

cli = Commands(
    cls=Root,
    name="penstock",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
kafka.register(cli)
running.register(cli)
send.register(cli)
receive.register(cli)
tail.register(cli)
status.register(cli)
lag.register(cli)
traffic.register(cli)
dlq.register(cli)
remove.register(cli)
topology.register(cli)
job.register(cli)
census.register(cli)
validate.register(cli)
configuration.register(cli)


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
    """The entry point: errors that a person can mend are one sentence with its cure, never a traceback."""
    try:
        cli(prog_name="penstock")
    except PenstockError as error:
        _end(error)
    except ModuleNotFoundError as problem:
        # Commands check for extras before they begin; this is for an import that no check knew of.
        missing = error_of(problem, "This command")
        if missing is None:
            raise
        _end(missing)


def _end(error: PenstockError) -> NoReturn:
    print_error(error)
    sys.exit(error.exit_code)
