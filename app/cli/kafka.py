"""`penstock kafka up|down|status`: a real Kafka on this machine, in the background.

Ends no process except the broker of the given data directory.
"""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.commands import Commands
from app.cli.options.embedded import HOME, Data, Heap
from app.cli.output.format import Listing, View, Views, note, print_json, print_yaml
from app.cli.output.jar_progress import jar_progress
from app.local.kafka import daemon
from app.local.kafka.config import DEFAULT_HEAP, DEFAULT_PORT
from app.local.kafka.daemon import State

Port = Annotated[
    int | None,
    typer.Option("--port", min=1, max=65534, help=f"Port for clients; by default {DEFAULT_PORT} if it is free."),
]

_LISTING = Listing(
    columns={"state": "STATE", "bootstrap": "BOOTSTRAP", "pid": "PID", "data": "DATA", "log": "LOG"},
    wide={"attached": "ATTACHED"},
    name="bootstrap",
    empty="",
)


group = Commands()


@group.callback()
def kafka() -> None:
    """Start, check or stop a Kafka on this machine.

    One broker on loopback; it needs Java 17 or newer.

    \b
    Examples:
      penstock kafka up
      penstock kafka status -o json
      penstock kafka down
    """


@group.command("up")
def up(
    port: Port = None,
    data: Data = HOME,
    heap: Heap = DEFAULT_HEAP,
    limit_s: Annotated[float, typer.Option("--timeout", min=1, help="Seconds to wait until Kafka is ready.")] = 60.0,
    output: Views = View.TABLE,
) -> None:
    """Start Kafka in the background and wait until it is ready; does nothing if it already is.

    \b
    Examples:
      penstock kafka up
      penstock kafka up --port 19092 --data /tmp/kafka-two
      penstock kafka up --heap 1g -o json
    """
    with jar_progress() as progress:
        state, started = daemon.up(data, port, heap=heap, jars_root=HOME, limit_s=limit_s, progress=progress)
    if output in (View.TABLE, View.WIDE):
        note("Kafka is up." if started else "Kafka was already up.")
    _print(state, output)


@group.command("down")
def down(
    data: Data = HOME,
    limit_s: Annotated[float, typer.Option("--timeout", min=1, help="Seconds to wait before Kafka is killed.")] = 30.0,
    output: Views = View.TABLE,
) -> None:
    """Stop the Kafka that `penstock kafka up` started; its data stays.

    \b
    Examples:
      penstock kafka down
      penstock kafka down --data /tmp/kafka-two
    """
    before, clean = daemon.down(data, limit_s)
    if output in (View.TABLE, View.WIDE):
        if before.state == "down":
            note("Kafka was not up.")
        else:
            note(
                "Kafka is down."
                if clean
                else f"Kafka did not stop within {limit_s:.0f} s and was killed; its data is safe."
            )
    _print(daemon.status(data), output)


@group.command("status")
def status(data: Data = HOME, output: Views = View.TABLE) -> None:
    """Show whether Kafka is up. Exit code: 0 if it is ready, else 3.

    \b
    Examples:
      penstock kafka status
      penstock kafka status -o json
    """
    state = daemon.status(data)
    _print(state, output)
    if state.state != "up":
        raise typer.Exit(3)


def _print(state: State, output: View) -> None:
    row = {
        "state": state.state,
        "bootstrap": state.bootstrap,
        "pid": state.pid,
        "data": str(state.data_dir),
        "log": str(state.data_dir / "broker.log"),
        "attached": state.attached,
    }
    if output is View.JSON:
        print_json(row)
    elif output is View.YAML:
        print_yaml(row)
    elif output is not View.NAME or state.bootstrap:
        _LISTING.show([row], output)
