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
from app.cli.output.format import note, print_error, write_any_text
from app.settings import ignored_variables

#: In the order of `--help`: groups, and the commands of each.
_COMMANDS = (
    Entry("up", "app.cli.up:up", "Run everything on this machine: Kafka, a worker and an example.", "Run"),
    Entry("worker", "app.cli.worker:worker", "Run one worker, as `faust -A app worker` does, or several.", "Run"),
    Entry(
        "controller",
        "app.cli.controller:controller",
        "Run the controller alone. It makes Kafka match the resources.",
        "Run",
    ),
    Entry("dev", "app.cli.dev:dev", "Serve the handlers of a Python file, and create triggers for them.", "Run"),
    Entry("kafka", "app.cli.kafka:group", "Run a Kafka on this machine.", "Run"),
    Entry("send", "app.cli.send:send", "Send one event or many to a channel or broker.", "Send and look"),
    Entry(
        "tail", "app.cli.tail:tail", "Print the latest events of a channel or broker, then new ones.", "Send and look"
    ),
    Entry(
        "receive", "app.cli.tail:tail", "Print the latest events of a channel or broker, then new ones.", hidden=True
    ),
    Entry("status", "app.cli.status:status", "Show channels, brokers, subscriptions and triggers.", "Send and look"),
    Entry("lag", "app.cli.lag:lag", "Show how far each subscription and trigger is behind.", "Send and look"),
    Entry("traffic", "app.cli.traffic:traffic", "Show the traffic of channels and subscriptions.", "Send and look"),
    Entry(
        "topology",
        "app.cli.topology:group",
        "Show who sends what to whom, and find faults.",
        "Send and look",
    ),
    Entry(
        "explain", "app.cli.explain:explain", "Show whether an event would match a trigger, and why.", "Send and look"
    ),
    Entry(
        "doctor", "app.cli.doctor:doctor", "Check the whole installation, and show how to fix what is wrong.", "Mend"
    ),
    Entry("dlq", "app.cli.dlq.group:group", "List, show and redrive dead letters.", "Mend"),
    Entry("seek", "app.cli.seek:seek", "Move the offsets of a subscription or trigger.", "Mend"),
    Entry("remove", "app.cli.remove:remove", "Delete resources that are no longer in any file.", "Mend"),
    Entry("validate", "app.cli.validate:validate", "Check resource files.", "Operate"),
    Entry("config", "app.cli.configuration:group", "Show the settings and where each value comes from.", "Operate"),
    Entry("token", "app.cli.tokens:token", "Make a token for a sender of events, or for the console.", "Operate"),
    Entry("export", "app.cli.export:export", "Write the resources of a cluster as YAML for a directory.", "Operate"),
    Entry("job", "app.cli.job.group:group", "Run a Spark job: traffic or topology.", "Operate"),
    Entry("docs", "app.cli.docs:docs", "Show the page of the documentation about a topic.", "Operate"),
    Entry("demo", "app.cli.demo:demo", "Send 1,000 events through the whole system, and count them.", "Demos"),
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


#: They say themselves which variables are not settings.
_SAY_THEMSELVES = ("up", "worker", "controller", "config", "doctor")


@cli.callback()
def penstock(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Receive CloudEvents over HTTP, store them in Kafka, and deliver them to every subscription.

    \b
    Examples:
      penstock up        run everything here, with an example
      penstock send      send an event to the example
      penstock tail      see the events that were sent
      penstock status    what is ready, and what is not
      penstock doctor    what is wrong, and what to do
    """
    if context.invoked_subcommand not in _SAY_THEMSELVES:
        for sentence in ignored_variables():
            note(sentence)


def main() -> None:
    """Run the command line. Whatever happens, the user sees sentences and no traceback."""
    write_any_text()
    try:
        cli(prog_name="penstock")
    except Exception as problem:
        from app.cli.last_resort import explained  # rarely needed, and every command would start later

        error = explained(problem, sys.argv[1:])
        with suppress(OSError):  # standard error may be on the disk that is full
            print_error(error)
        sys.exit(error.exit_code)
    finally:
        # The command is over. While the interpreter ends, Python handles signals by their defaults again: Ctrl-C would
        # kill a process that has done its work.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
