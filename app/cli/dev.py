"""`penstock dev FILE`: serves the handlers of a Python file, and subscribes them while it runs.

FILE --> a child process serves its handlers (penstock/serving) --> their filters --> Triggers in the directory
  ^                                                                                        | Ctrl-C
  +-- a change of a .py file beside it: the child starts again                             v
                                                                                       removed
"""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.output.format import note
from app.local.child_process import die_with_parent
from app.local.kafka.locks import locked
from app.local.kafka.ports import LOOPBACK, free_port
from app.operations.dev_resources import MARK, resources
from knative.errors import UsageError
from penstock.client import address_of

_POLL_S = 0.3
_STOP_S = 10.0
_SERVE = "from penstock.serving import main; main()"
_OWN_BROKER = "default/dev"
_TYPE = re.compile(r"\btype\s*=\s*['\"]([^'\"]+)['\"]")


def dev(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A Python file with @penstock.on handlers.")],
    broker: Annotated[
        str, typer.Option("--broker", help=f"NAMESPACE/NAME of a broker; by default {_OWN_BROKER}, which it creates.")
    ] = "",
    folder: Annotated[
        Path | None,
        typer.Option(
            "--resources",
            help="Directory of resources; by default the directory that `penstock up` serves in this folder.",
        ),
    ] = None,
    home: Annotated[Path, typer.Option("--home", help="The folder in which `penstock up` keeps its files.")] = Path(
        ".penstock"
    ),
) -> None:
    """Serve the handlers of a Python file, and create triggers for them.

    Ctrl-C ends the command and removes the triggers. A changed file is served at once.

    \b
    Examples:
      penstock dev app.py
      penstock dev app.py --broker default/shop --resources my/resources
    """
    if not file.is_file():
        raise UsageError(f"There is no file {file}.", "Name a Python file with @penstock.on handlers.")
    name = broker or _OWN_BROKER
    address_of("broker", name, "")  # raises UsageError
    target = (folder or served_folder(home)) / f"dev-{file.stem}.yaml"
    if target.exists() and not target.read_text("utf-8").startswith(MARK):
        raise UsageError(f"{target} was not written by `penstock dev`.", "Rename that file, or the Python file.")
    if not target.parent.is_dir():
        raise UsageError(
            f"There is no directory {target.parent}.", "Name a directory that `penstock up` serves: --resources DIR."
        )
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    lock = target.with_name(f".{target.name}.lock")
    with locked(lock, 0.0, f"has {target}"), tempfile.TemporaryDirectory(prefix="penstock-dev-") as scratch:
        serving = _Serving(file.resolve(), Path(scratch))
        try:
            _follow(serving, target, name, own_broker=not broker)
        except KeyboardInterrupt:
            note(f"stopping: {target.name} is removed, and its triggers receive no more events")
        finally:
            target.unlink(missing_ok=True)
            serving.stop()
    kept = "The triggers" if broker else "The broker, its events and the triggers"
    note(f"{kept} stay in Kafka. They continue where they stopped when {file.name} is served again.")
    note("`penstock remove --unlisted` deletes resources that are in no file.")


def served_folder(home: Path) -> Path:
    """Returns the directory that `penstock up` serves. Raises UsageError."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        folder = Path(json.loads((home / "last-up.json").read_text("utf-8"))["resources"])
        if folder.is_dir():
            return folder
    raise UsageError(
        "It is not known which directory of resources to use.",
        "Run this command in a folder where `penstock up` runs. Or name a directory: "
        "--resources DIR, or the folder .penstock of `penstock up`: --home DIR.",
    )


def _follow(serving: _Serving, target: Path, broker: str, *, own_broker: bool) -> None:
    """Until Ctrl-C: start the child again when a file changes, and write what it serves."""
    while True:
        seen = changes(serving.file)
        handlers = serving.start()
        if handlers is None:
            note(f"{serving.file.name} cannot be served. Fix it: `penstock dev` reads it again when it changes.")
        else:
            text = resources(handlers, broker, serving.url, own_broker=own_broker)
            new = target.with_name(f".{target.name}.new")
            new.write_text(text, "utf-8")
            new.replace(target)
            for handler in handlers:
                note(f"{handler['name']} receives {handler['filter'] or 'every event'} of {broker} in a few seconds")
            note(f"Then send an event: penstock send --broker {broker} --type {shlex.quote(_a_type(handlers))}")
        while changes(serving.file) == seen:
            if handlers is not None and serving.has_ended:
                note("The server has ended.")
                handlers = None
            time.sleep(_POLL_S)


def _a_type(handlers: Sequence[Mapping[str, Any]]) -> str:
    """Returns a type that a filter names, for an example."""
    named = (_TYPE.search(handler["filter"] or "") for handler in handlers)
    return next((match[1] for match in named if match), "TYPE")


def changes(file: Path) -> Mapping[Path, int]:
    """Returns the Python files beside this one with the times of their last changes."""
    times = {}
    for path in file.parent.glob("*.py"):
        with suppress(OSError):  # an editor replaces it at this moment
            times[path] = path.stat().st_mtime_ns
    return times


class _Serving:
    """The child process that serves the handlers."""

    def __init__(self, file: Path, scratch: Path) -> None:
        self.file = file
        self._port = free_port()
        self.url = f"http://{LOOPBACK}:{self._port}"
        self._listed = scratch / "handlers.json"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def has_ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def start(self) -> list[dict[str, Any]] | None:
        """Start a child in place of the former one. Returns its handlers, once they listen; None if it ends before."""
        self.stop()
        self._listed.unlink(missing_ok=True)
        command = [sys.executable, "-c", _SERVE, str(self.file), str(self._port), str(self._listed)]
        self._process = subprocess.Popen(command, start_new_session=True, preexec_fn=die_with_parent())
        while not self._listed.exists():
            if self.has_ended:
                return None
            time.sleep(_POLL_S / 10)
        handlers: list[dict[str, Any]] = json.loads(self._listed.read_text("utf-8"))
        return handlers

    def stop(self) -> None:
        """Stop the child. It has some seconds to finish what is in flight."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
