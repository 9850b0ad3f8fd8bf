"""Everything on one machine, for `penstock up` and the demo: Kafka, the worker in role `all`, the sample subscriber.

    start:  ports free? -> Kafka serves -> subscriber -> worker ready -> every subscription ready
    stop:   worker (it drains) -> subscriber -> Kafka          all within one limit, then SIGKILL

Each is a child process. A child that ends is not restarted: its name is reported, and everything else stops.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from app.local.child_process import Child
from app.local.kafka import EmbeddedKafka
from app.local.kafka.config import DEFAULT_HEAP, DEFAULT_PORT
from app.local.kafka.jars import Progress, ensure_jars
from app.local.kafka.locks import unwritable
from app.local.kafka.ports import LOOPBACK, is_free
from app.local.machine import find_java
from app.local.packaged import SUBSCRIBER_PORT, python_module
from app.local.probes import (
    counted,
    former_address,
    probe_worker,
    resources_in,
    subscribers_not_ready,
    subscriptions_by_channel,
)
from app.timing import START_S
from knative.errors import NotReadyError, PenstockError, UsageError
from knative.resources.values import Resource
from tables.timing import POLL_S
from web.console.safety import Mode

#: Warnings that the sample subscriber causes on purpose: in the log file only.
PICKY = ("attempt failed", "dead-lettered")
#: Warnings of the Kafka client while a new Kafka loads its own state; the client retries by itself.
_FRESH_KAFKA = ("GETPID ",)
LOGS = ("--home", "Logs and statuses")  #: for errors: an option that chooses a folder, and what is written there
_DRAIN_S = 4.0  #: at stop, for requests in flight; short enough to stop everything within ten seconds
#: Settings of the worker that its environment cannot change: field name -> text.
FIXED: Mapping[str, str] = {"role": "all", "bind": LOOPBACK, "drain_s": f"{_DRAIN_S:g}", "log_format": "json"}


@dataclass(frozen=True, slots=True)
class StackConfig:
    """Folders, addresses and options. `kafka` None = the embedded one; `subscriber_port` 0 = no sample subscriber."""

    home: Path
    resources: Path
    jars_root: Path
    kafka: str | None = None
    kafka_port: int = DEFAULT_PORT
    kafka_data: Path = Path(".penstock/kafka")
    heap: str = DEFAULT_HEAP
    http_port: int = 8080
    admin_port: int = 8081
    subscriber_port: int = SUBSCRIBER_PORT
    subscriber_arguments: tuple[str, ...] = ()
    console: Mode = Mode.OFF
    settings: Mapping[str, str] = field(default_factory=dict)  #: field name -> text, for the worker
    expected: tuple[str, ...] = ()  #: beginnings of warnings that a demo causes on purpose: in the log file only
    ready_limit_s: float = START_S


class Reporter(Protocol):
    """Shows the progress of a start to a person."""

    def begin(self, name: str, doing: str) -> None:
        """Show that a step begins, which may take seconds."""

    def wait(self, why: str) -> None:
        """Show what the step waits for."""

    def done(self, name: str, result: str) -> None:
        """Show the result of a step."""

    def say(self, sentence: str) -> None:
        """Show something that a person should know, such as a warning of the worker."""


class Stack:
    """The processes. Call `start`, then `check` at intervals, then `stop`, all from the main thread."""

    def __init__(self, config: StackConfig, reporter: Reporter, progress: Progress | None = None) -> None:
        """`progress` is called during the download of Kafka's jars."""
        self.config = config
        self.bootstrap = config.kafka or ""  #: "" = the embedded one has not started
        self._reporter = reporter
        self._progress = progress
        self._kafka: EmbeddedKafka | None = None
        self._children: list[Child] = []

    @property
    def worker_log(self) -> Path:
        """The worker's log: one JSON object a line."""
        return self.config.home / "logs" / "worker.log"

    @property
    def runs(self) -> bool:
        """Whether there is something to stop."""
        return bool(self._children) or (self._kafka is not None and self._kafka.pid is not None)

    def start(self) -> None:
        """Blocks until every subscription is ready. Raises PenstockError; call `stop` even then."""
        config = self.config
        resources = resources_in(config.resources)
        if config.kafka is None:
            self._kafka = EmbeddedKafka(
                config.kafka_data,
                config.kafka_port,
                heap=config.heap,
                jars_root=config.jars_root,
                progress=self._progress,
                port_option="--kafka-port",
            )
            # Before the ports: another `penstock up` in this folder uses the ports too, and this error names the cause.
            self._kafka.claim()
        self._check_ports()
        self._make_home()
        if self._kafka is not None:
            find_java()  # before the download, which may take minutes
            ensure_jars(config.jars_root, self._progress)
        self._say_what_changed()
        began = time.monotonic()
        end = began + config.ready_limit_s
        self._start_kafka(end)
        if config.subscriber_port:
            port = ("--port", str(config.subscriber_port))
            command = python_module("app.local.sample_subscriber", *port, *config.subscriber_arguments)
            self._children.append(Child("sample subscriber", command))
        self._start_worker(resources, end)
        self._reporter.done("ready", f"Penstock is up after {time.monotonic() - began:.1f} s. Ctrl-C stops it.")

    def _start_worker(self, resources: Sequence[Resource], end: float) -> None:
        config = self.config
        quiet = (
            config.expected
            + (PICKY if config.subscriber_port else ())
            + (_FRESH_KAFKA if self._kafka is not None else ())
        )
        self._reporter.begin("worker", "starting the worker")
        self._children.append(Child("worker", self._worker_command(), self.worker_log, self._reporter.say, quiet))
        base = f"http://{LOOPBACK}:{config.http_port}"
        self._wait(lambda: probe_worker(base), end)
        metrics = f", metrics at http://localhost:{config.admin_port}/metrics" if config.admin_port else ""
        self._reporter.done("worker", f"events at http://localhost:{config.http_port}{metrics}")
        state = config.home / "state"
        self._reporter.begin("resources", f"waiting for the resources of {config.resources}")
        self._wait(lambda: former_address(state, resources), end)
        # A ready worker accepts events, but a subscription gets only those after it is ready: wait for each of them.
        for channel, subscriptions in subscriptions_by_channel(resources).items():
            self._wait(lambda c=channel, n=subscriptions: subscribers_not_ready(base, c, n, state), end)  # type: ignore[misc]
        self._reporter.done("resources", f"{counted(resources)} from {config.resources}")
        if config.subscriber_port:
            self._reporter.done("subscriber", f"port {config.subscriber_port}; it prints each event that it receives")

    def _say_what_changed(self) -> None:
        """Say so if the last run here served another directory, and note which one this run serves."""
        note = self.config.home / "last-up.json"
        now = str(self.config.resources.absolute())
        with suppress(OSError, ValueError, KeyError, TypeError):  # this is the first run, or somebody edited the file
            former = str(json.loads(note.read_text("utf-8"))["resources"])
            if former != now:
                self._reporter.say(
                    f"The last run served {former}. Resources that are only in that directory are kept, but not served."
                )
        note.write_text(json.dumps({"resources": now}), "utf-8")

    def check(self) -> None:
        """Raises PenstockError when one of the processes has ended."""
        for child in self._children:
            if child.code is not None:
                raise _ended(child)
        if self._kafka is not None:
            self._kafka.check()

    def stop(self, limit_s: float = 9.0) -> None:
        """Stop everything in order. Sends SIGKILL to processes that do not end in time."""
        end = time.monotonic() + limit_s
        # The worker first: while it drains it still needs its subscriber, and Kafka for its last commits.
        for child in reversed(self._children):
            if child.code is None and not child.stop(min(_DRAIN_S + 3.0, end - time.monotonic())):
                self._reporter.say(f"The {child.name} did not stop in time and was killed.")
        self._children.clear()
        if self._kafka is not None and not self._kafka.stop(max(0.5, end - time.monotonic())):
            self._reporter.say("Kafka did not stop in time and was killed; its data is safe.")

    def kill(self) -> None:
        """Send SIGKILL to everything."""
        for child in self._children:
            child.kill()
        if self._kafka is not None:
            self._kafka.kill()

    def _check_ports(self) -> None:
        config = self.config
        options = {
            "--http-port": (config.http_port, "events"),
            "--admin-port": (config.admin_port, "metrics"),
            "--subscriber-port": (config.subscriber_port, "the sample subscriber"),
            "--kafka-port": (config.kafka_port if config.kafka is None else 0, "Kafka"),
        }
        busy = {option: use for option, use in options.items() if use[0] and not is_free(use[0])}
        if busy:
            raise PenstockError(
                " ".join(f"Port {port} on {LOOPBACK} (for {what}) is already in use." for port, what in busy.values()),
                "Stop the program that uses it, or choose other ports: --any-port, or "
                f"{' '.join(f'{option} N' for option in busy)}.",
            )

    def _make_home(self) -> None:
        # Write a file: permission bits do not show a full disk or a read-only file system.
        try:
            for folder in (self.worker_log.parent, self.config.home / "state"):
                folder.mkdir(parents=True, exist_ok=True)
                probe = folder / ".probe"
                probe.write_bytes(bytes(4096))  # an empty file fits on a full disk
                probe.unlink()
        except OSError as problem:
            raise unwritable(self.config.home, *LOGS, problem) from problem

    def _start_kafka(self, end: float) -> None:
        if self._kafka is None:
            self._reporter.done("Kafka", f"yours at {self.bootstrap}")
            return
        self._reporter.begin("Kafka", f"starting Kafka at {self._kafka.bootstrap}")
        self._kafka.start(end - time.monotonic())
        self.bootstrap = self._kafka.bootstrap
        self._reporter.done("Kafka", self.bootstrap)

    def _worker_command(self) -> list[str]:
        config = self.config
        settings = {
            **FIXED,
            "kafka": self.bootstrap,
            "resources": f"file:{config.resources.absolute()}",
            "http_port": str(config.http_port),
            "admin_port": str(config.admin_port),
            "ingress_url": f"http://{LOOPBACK}:{config.http_port}",
            "state_dir": str((config.home / "state").absolute()),
            "console": config.console,
            **({"kafka_secret": ""} if config.kafka is None else {}),  # the embedded Kafka has no TLS and no SASL
            # Without TLS and tokens: only this machine reaches the port, and all its users may run the shown commands.
            **dict.fromkeys(("tls_cert", "tls_key", "tokens"), ""),
            **config.settings,
        }
        given = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        return python_module("app.cli", "worker", *given)

    def _wait(self, missing: Callable[[], str | None], end: float) -> None:
        """Wait until `missing` returns None: as long as something is missing, it returns what."""
        while (why := missing()) is not None:
            self.check()
            self._reporter.wait(why)
            if time.monotonic() > end:
                raise NotReadyError(
                    f"Penstock is not ready after {self.config.ready_limit_s:.0f} s: {why}.",
                    f"See `penstock status` for the reason; the worker's log is {self.worker_log}.",
                )
            time.sleep(POLL_S)


def _ended(child: Child) -> PenstockError:
    """Returns an error with the child's exit code: 2 = a setting was wrong, 3 = something did not answer in time."""
    details = f" {child.last_words}" if child.log_file else ""
    kinds: dict[int | None, type[PenstockError]] = {kind.exit_code: kind for kind in (UsageError, NotReadyError)}
    return kinds.get(child.code or 0, PenstockError)(
        f"The {child.name} exited (exit code {child.code}).{details.rstrip()}",
        f"Its log is {child.log_file}." if child.log_file else "",
    )
