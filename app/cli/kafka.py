"""`penstock kafka up|down|status`: a real Kafka on this machine, in the background.

Refuses to touch any process but the broker of the given data directory.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.commands import Commands
from app.cli.output.format import Listing, View, Views, jar_progress, note, print_json, print_yaml
from app.local.kafka.config import DEFAULT_HEAP, DEFAULT_PORT

if TYPE_CHECKING:
    from app.local.kafka.daemon import State

#: Jars and data of the embedded Kafka, seen from the folder where the command runs.
HOME = Path(".penstock/kafka")

Data = Annotated[Path, typer.Option("--data", help="Directory of Kafka's data; it survives stops.")]
Port = Annotated[
    int | None, typer.Option("--port", min=1, max=65534, help=f"Port for clients, {DEFAULT_PORT} if free.")
]
Heap = Annotated[str, typer.Option("--heap", help="Memory for Kafka's Java heap, such as 512m or 1g.")]

_LISTING = Listing(
    columns={"state": "STATE", "bootstrap": "BOOTSTRAP", "pid": "PID", "data": "DATA", "log": "LOG"},
    wide={"attached": "ATTACHED"},
    name="bootstrap",
    empty="",
)


def register(cli: typer.Typer) -> None:
    """Adds `kafka` to the commands."""
    group = Commands()
    group.command("up")(up)
    group.command("down")(down)
    group.command("status")(status)
    group.callback()(kafka)
    cli.add_typer(group, name="kafka")


def kafka() -> None:
    """A real Kafka on this machine, in the background (one broker on loopback; needs Java 17 and, once, Maven).

    \b
    Examples:
      penstock kafka up
      penstock kafka status -o json
      penstock kafka down
    """


def up(
    port: Port = None,
    data: Data = HOME,
    heap: Heap = DEFAULT_HEAP,
    limit_s: Annotated[float, typer.Option("--timeout", min=1, help="Seconds to wait until it serves.")] = 60.0,
    output: Views = View.TABLE,
) -> None:
    """Start Kafka in the background and wait until it serves; does nothing when it is up already.

    \b
    Examples:
      penstock kafka up
      penstock kafka up --port 19092 --data /tmp/kafka-two
      penstock kafka up --heap 1g -o json
    """
    from app.local.kafka import daemon

    with jar_progress() as progress:
        state, started = daemon.up(data, port, heap=heap, jars_root=HOME, limit_s=limit_s, progress=progress)
    if output in (View.TABLE, View.WIDE):
        note("Kafka is up." if started else "Kafka was up already.")
    _print(state, output)


def down(
    data: Data = HOME,
    limit_s: Annotated[float, typer.Option("--timeout", min=1, help="Seconds to wait before it is killed.")] = 30.0,
    output: Views = View.TABLE,
) -> None:
    """Stop the Kafka that `penstock kafka up` started; its data stays.

    \b
    Examples:
      penstock kafka down
      penstock kafka down --data /tmp/kafka-two
    """
    from app.local.kafka import daemon

    before, clean = daemon.down(data, limit_s)
    if output in (View.TABLE, View.WIDE):
        if before.state == "down":
            note("Kafka was not up.")
        else:
            note(
                "Kafka is down."
                if clean
                else f"Kafka did not stop within {limit_s:.0f} s and was killed; data is safe."
            )
    _print(daemon.status(data), output)


def status(data: Data = HOME, output: Views = View.TABLE) -> None:
    """Say whether Kafka is up: ends with 0 when it serves, else with 3.

    \b
    Examples:
      penstock kafka status
      penstock kafka status -o json
    """
    from app.local.kafka import daemon

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
