"""`penstock worker`: one worker, in place of this process, as `faust -A app worker` starts it."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from app.cli.options.given import as_settings
from app.local.packaged import python_module
from app.settings import load_settings
from knative.errors import UsageError


def worker(
    role: Annotated[
        str, typer.Option("--role", help="Role of the worker: all, ingress, dispatcher or controller.")
    ] = "",
    kafka: Annotated[str, typer.Option("--kafka", help="HOST:PORT[,...] of Kafka.")] = "",
    resources: Annotated[
        str, typer.Option("--resources", help="Directory with YAML files of resources, or cluster:[NS,...].")
    ] = "",
    http_port: Annotated[str, typer.Option("--web-port", help="Port for events.")] = "",
    log_level: Annotated[str, typer.Option("--log-level", "-l", help="debug, info, warning or error.")] = "",
    given: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE: any setting of `config show`; may be repeated.")
    ] = None,
    processes: Annotated[
        str,
        typer.Option(
            "--processes",
            help="Number of processes that share the ports of the worker, or auto: one for each processor.",
        ),
    ] = "",
) -> None:
    """Run one worker, as `faust -A app worker` does, or several.

    It never starts a Kafka. With --processes, a supervisor restarts processes that end, and stops all of them together.

    \b
    Examples:
      penstock worker --resources examples/quickstart
      penstock worker --role dispatcher --kafka kafka-1:9092,kafka-2:9092
      penstock worker --web-port 9000 --set drain_s=5
      penstock worker --processes auto
    """
    options = as_settings(
        role=role, kafka=kafka, resources=resources, http_port=http_port, log_level=log_level, processes=processes
    )
    overrides = {**_settings_given(given), **options}
    settings = load_settings(overrides)  # reject wrong values here, in one sentence
    for name, value in overrides.items():
        os.putenv(f"PENSTOCK_{name.upper()}", value)
    command = python_module("app", "worker", "-l", settings.log_level)
    # In place of this process: SIGTERM from a supervisor must reach the worker, which then drains.
    os.execv(command[0], command)


def _settings_given(texts: list[str] | None) -> dict[str, str]:
    settings = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--set {text!r} is incomplete.", "Write NAME=VALUE, such as drain_s=5.")
        settings[name.strip().lower().removeprefix("penstock_")] = value
    return settings
