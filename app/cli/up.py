"""`penstock up`: everything on this machine, until Ctrl-C.

Its worker is the one that `faust -A app worker` starts, with the same settings.
"""

from __future__ import annotations

import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from app.cli.options.embedded import HOME, Data, Heap
from app.cli.options.given import as_settings
from app.cli.output.format import note
from app.cli.output.jar_progress import jar_progress
from app.cli.output.steps import Steps
from app.cli.output.up_banner import banner
from app.local.kafka.config import DEFAULT_HEAP, DEFAULT_PORT
from app.local.kafka.locks import owned
from app.local.kafka.ports import free_port, is_free
from app.local.packaged import SUBSCRIBER_PORT, example, is_repository
from app.local.quickstart import resources_of_up
from app.local.stack import FIXED, LOGS, Stack, StackConfig
from app.settings.describe import plain
from app.settings.load import Settings, load_settings
from app.timing import START_S
from knative.errors import UsageError
from knative.urls import is_loopback
from tables.timing import POLL_S
from web.console.safety import AUTO, Mode, mode_of

Running = Annotated[
    str,
    typer.Option(
        "--kafka",
        help="HOST:PORT of a running Kafka; by default PENSTOCK_KAFKA. Without both, the command starts a Kafka.",
    ),
]
ResourcesDir = Annotated[
    Path | None,
    typer.Option(
        "--resources",
        help="Directory with YAML files of resources; by default PENSTOCK_RESOURCES, else examples/quickstart.",
    ),
]
HttpPort = Annotated[
    int | None, typer.Option("--http-port", min=1, max=65535, help="Port for events; by default from the settings.")
]
AdminPort = Annotated[
    int | None,
    typer.Option("--admin-port", min=0, max=65535, help="Port of the console; by default from the settings."),
]
KafkaPort = Annotated[
    int | None,
    typer.Option(
        "--kafka-port", min=1, max=65534, help=f"Port of the Kafka that the command starts; by default {DEFAULT_PORT}."
    ),
]

AnyPort = Annotated[bool, typer.Option("--any-port", help="Use a free port in place of each port that is in use.")]
Processes = Annotated[
    str, typer.Option("--processes", help="Number of worker processes, or auto; by default PENSTOCK_PROCESSES, else 1.")
]
Timeout = Annotated[
    float, typer.Option("--timeout", min=1, help="Seconds to wait, after a download, until everything is ready.")
]


def up(
    kafka: Running = "",
    resources: ResourcesDir = None,
    http_port: HttpPort = None,
    admin_port: AdminPort = None,
    subscriber_port: Annotated[
        int, typer.Option("--subscriber-port", min=0, max=65535, help="Port of the sample subscriber; 0 = none.")
    ] = SUBSCRIBER_PORT,
    kafka_port: KafkaPort = None,
    any_port: AnyPort = False,
    data: Data = HOME,
    home: Annotated[Path, typer.Option("--home", help="Directory for logs and statuses.")] = HOME.parent,
    heap: Heap = DEFAULT_HEAP,
    limit_s: Timeout = START_S,
    processes: Processes = "",
) -> None:
    """Run everything on this machine: Kafka, a worker and an example.

    When everything is ready, it prints a command that sends an event, and the address of the console. Logs are in the
    folder `logs` of --home, statuses in `state`. A second Ctrl-C kills what has not stopped yet.

    With another --subscriber-port, it serves a copy of the example, in
    the folder `quickstart` of --home; your changes to its files are kept.

    Resources of the same PENSTOCK_INSTANCE that are in no file are not served.
    On a shared Kafka, choose an instance and a topic template of your own.

    The settings of `penstock config show` apply, except PENSTOCK_ROLE,
    _BIND, _DRAIN_S and _LOG_FORMAT, which are fixed here, and
    PENSTOCK_STATE_DIR, which is the folder `state` in --home.

    \b
    Examples:
      penstock up
      penstock up --resources my/resources --subscriber-port 0
      penstock up --any-port
      penstock up --processes auto
      penstock up --http-port 8088 --admin-port 8089
      export PENSTOCK_INSTANCE=mine
      export PENSTOCK_TOPIC_TEMPLATE='mine-events.{namespace}.{name}'
      penstock up --kafka kafka-1:9092
    """
    settings = load_settings(as_settings(kafka=kafka, processes=processes))
    said = settings_notes(settings, chosen=resources is not None)
    own = settings.kafka if kafka or ("kafka" in settings.sources and kafka_port is None) else None
    port = _free_one if any_port else int
    subscriber_port = port(subscriber_port)
    resources = resources or settings.resources_dir
    with owned(home, *LOGS, "runs in", "--home DIR --data DIR --any-port"):
        if resources is None:
            resources, of_copy = resources_of_up(example("quickstart"), home, subscriber_port, in_place=is_repository())
            said += of_copy
        for sentence in said:
            note(sentence)
        config = StackConfig(
            home=home,
            resources=resources,
            jars_root=HOME,
            kafka=own,
            kafka_port=DEFAULT_PORT if own is not None else port(kafka_port or DEFAULT_PORT),
            kafka_data=data,
            heap=heap,
            http_port=port(settings.http_port if http_port is None else http_port),
            admin_port=port(settings.admin_port if admin_port is None else admin_port),
            subscriber_port=subscriber_port,
            ready_limit_s=limit_s,
            console=console_mode(settings),
            settings=as_settings(processes=settings.processes, ingress_url=settings.ingress_url),
        )
        _run_until_ctrl_c(config)


def console_mode(settings: Settings) -> Mode:
    """Returns what its console allows: everything, unless a setting says otherwise, or others reach the port."""
    wish = "write" if settings.console == AUTO and is_loopback(settings.admin_bind) else settings.console
    return mode_of(wish, settings.admin_bind, bool(settings.console_tokens))


def _free_one(port: int) -> int:
    """Returns this port, or another one if it is in use; 0 stays 0."""
    return port if not port or is_free(port) else free_port()


def settings_notes(settings: Settings, *, chosen: bool) -> list[str]:
    """Says which settings `up` ignores, and which one names the resources (if not `chosen` by --resources).
    Raises UsageError if that names a cluster: a controller of the example would compete with the one there."""
    if settings.namespaces is not None and not chosen:
        raise UsageError(
            f"PENSTOCK_RESOURCES (from the {settings.sources['resources']}) is a cluster, and `penstock up` serves a "
            "directory.",
            "Name a directory with --resources DIR, or start `penstock worker`.",
        )
    own = {**FIXED, "state_dir": "the folder `state` in --home"}
    said = [
        f"PENSTOCK_{name.upper()} (from the {settings.sources[name]}) has no effect: `penstock up` uses {value}."
        for name, value in own.items()
        if name in settings.sources and plain(getattr(settings, name)) != value
    ]
    if settings.resources_dir is not None and not chosen:
        said.append(
            f"Using the resources in {settings.resources_dir}: PENSTOCK_RESOURCES (from the "
            f"{settings.sources['resources']}) is set. To use other resources, add --resources DIR."
        )
    return said


def _run_until_ctrl_c(config: StackConfig) -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    with jar_progress() as progress, Steps() as steps:
        stack = Stack(config, steps, progress)
        try:
            stack.start()
            print("\n".join(["", *banner(config, stack.bootstrap, command_here()), ""]), flush=True)
            while True:
                stack.check()
                time.sleep(POLL_S)
        except KeyboardInterrupt:
            steps.begin("stop", "stopping: the worker completes deliveries in flight, then Kafka stops")
        finally:
            _stop(stack, steps)


def command_here() -> str:
    """Returns how to call this command from the current directory: by its name if it is in the PATH."""
    own = Path(sys.executable).with_name("penstock")
    if shutil.which("penstock") is not None or not own.exists():
        return "penstock"
    return str(own.relative_to(Path.cwd())) if own.is_relative_to(Path.cwd()) else str(own)


def _stop(stack: Stack, steps: Steps) -> None:
    if not stack.runs:  # it failed before it started anything
        return
    try:
        stack.stop()
    except KeyboardInterrupt:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        stack.kill()
    steps.done("stopped", "")
