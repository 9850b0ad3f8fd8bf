"""`penstock kafka up`: a real Kafka on this machine, until Ctrl-C."""

from __future__ import annotations

import signal
import time
from typing import Annotated

import typer

from app.cli.commands import Commands
from app.cli.options.embedded import HOME, Data, Heap
from app.cli.output.format import note
from app.cli.output.jar_progress import jar_progress
from app.local.kafka import EmbeddedKafka
from app.local.kafka.config import DEFAULT_HEAP, DEFAULT_PORT
from tables.timing import POLL_S

group = Commands()


@group.callback()
def kafka() -> None:
    """Run a Kafka on this machine.

    It has one broker, which listens on loopback, and needs Java 17 or newer.

    \b
    Examples:
      penstock kafka up
    """


@group.command("up")
def up(
    port: Annotated[int, typer.Option("--port", min=1, max=65534, help="Port for clients.")] = DEFAULT_PORT,
    data: Data = HOME,
    heap: Heap = DEFAULT_HEAP,
    limit_s: Annotated[float, typer.Option("--timeout", min=1, help="Seconds to wait until Kafka is ready.")] = 60.0,
) -> None:
    """Run Kafka until Ctrl-C, and print when it is ready. Its data stays.

    \b
    Examples:
      penstock kafka up
      penstock kafka up --port 19092 --data /tmp/kafka-two
      penstock kafka up --heap 1g
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    with jar_progress() as progress:
        broker = EmbeddedKafka(data, port, heap=heap, jars_root=HOME, progress=progress)
        try:
            broker.start(limit_s)
            print(f"Kafka is up at {broker.bootstrap}. Ctrl-C stops it.", flush=True)
            while True:
                broker.check()
                time.sleep(POLL_S)
        except KeyboardInterrupt:
            note("stopping Kafka")
        finally:
            if not broker.stop():
                note("Kafka did not stop in time and was killed; its data is safe.")
