"""The `penstock` command line. Commands print what they did, as a table or as JSON, and end with one of these codes:

    0 done   1 failed   2 the command or a setting was wrong   3 not ready, or a time limit passed   4 partly done
    70 internal error   74 a file or the output cannot be written   130 Ctrl-C

The module of a command is imported when the command is called, so that `--help` answers at once.
"""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import suppress
from typing import Annotated

import typer

from app.cli.commands import Commands, Entry, Root
from app.cli.output.format import print_error, write_any_text

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
        "controller",
        "app.cli.controller:controller",
        "Run the controller alone: Kafka follows the resources. Exit code with --once: 0 if that is done, else 3.",
    ),
    Entry(
        "send",
        "app.cli.send:send",
        "Send one event or many to a channel or broker. Exit code: 0 if all were stored (202), 3 if not ready, else 1.",
    ),
    Entry(
        "receive",
        "app.cli.receive:receive",
        "Print stored events: new ones until Ctrl-C, or --last N, or all with --from-beginning.",
    ),
    Entry(
        "tail",
        "app.cli.tail:tail",
        "Print the latest events of a channel or broker, then new ones until Ctrl-C.",
    ),
    Entry(
        "status",
        "app.cli.status:status",
        "Show channels, brokers, subscriptions, triggers. Exit code: 0 if all are ready, all files accepted, else 3.",
    ),
    Entry(
        "doctor",
        "app.cli.doctor:doctor",
        "Check settings, Kafka, workers, topics and resources, and say what to do. Exit code: 1 if there is a problem.",
    ),
    Entry(
        "export",
        "app.cli.export:export",
        "Write the resources of a cluster as YAML for a directory. Exit code: 4 if something could not be exported.",
    ),
    Entry(
        "explain",
        "app.cli.explain:explain",
        "Show whether an event would match a trigger, and why. Exit code: 0 if it matches, 1 if not, 2 for an error.",
    ),
    Entry(
        "lag",
        "app.cli.lag:lag",
        "Show the lag of each subscription and trigger, per partition, the largest first.",
    ),
    Entry(
        "traffic",
        "app.cli.traffic:traffic",
        "Show the traffic of channels and subscriptions, of the last minute by default.",
    ),
    Entry(
        "seek",
        "app.cli.seek:seek",
        "Move the offsets of a subscription or trigger: to repeat events, or to skip them.",
    ),
    Entry(
        "remove",
        "app.cli.remove:remove",
        "Delete resources that no file has any more: a subscription with its group, a channel with its topics.",
    ),
    Entry(
        "topology",
        "app.cli.topology:topology",
        "Show the topology: sources, channels, subscriptions and destinations, and what is wrong with them.",
    ),
    Entry(
        "validate",
        "app.cli.validate:validate",
        "Check resource files. Exit code: 0 if all of them can be served, else 1.",
    ),
    Entry(
        "token",
        "app.cli.tokens:token",
        "Make a bearer token for a sender of events, and its entry for the file of PENSTOCK_TOKENS.",
    ),
    Entry(
        "kafka",
        "app.cli.kafka:group",
        "Start, check or stop a Kafka on this machine: one broker on loopback (needs Java 17).",
    ),
    Entry(
        "dlq",
        "app.cli.dlq.group:group",
        "List, show and redrive dead letters: events whose delivery has failed permanently.",
    ),
    Entry(
        "job",
        "app.cli.job.group:group",
        "Run a Spark job on this machine, or on a cluster with --master.",
    ),
    Entry(
        "census",
        "app.cli.census.group:group",
        "Count housing units in census files with several processes: files -> chunks -> counts -> totals.",
    ),
    Entry(
        "config",
        "app.cli.configuration:group",
        "Show the settings: PENSTOCK_... in the environment, or in the file that PENSTOCK_CONFIG names.",
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
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Receive CloudEvents over HTTP, store them in Kafka, and deliver them to every subscription.

    \b
    Examples:
      penstock up             run everything on this machine, with an example
      penstock send           send an event to the example's channel
      penstock status         channels and subscriptions, and whether they are ready
      penstock doctor         what is wrong with the installation, and what to do
      penstock lag            how far each subscription is behind
      penstock traffic        traffic of the last minute
      penstock dlq list       events that could not be delivered
      penstock topology       what sends to what, and what is wrong with it
      penstock config show    every setting and where its value came from
    """


def main() -> None:
    """The entry point. Whatever happens, the user sees sentences and no traceback."""
    write_any_text()
    try:
        cli(prog_name="penstock")
    except Exception as problem:
        from app.cli.last_resort import explained  # needed seldom, and every command would start later

        error = explained(problem, sys.argv[1:])
        with suppress(OSError):  # standard error may be on the disk that is full
            print_error(error)
        sys.exit(error.exit_code)
    finally:
        # The command is over. While the interpreter ends, Python handles signals by their defaults again: Ctrl-C would
        # kill a process that has done its work.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
