"""Everything on one machine, for `penstock up` and the demo: Kafka, the worker in role `all`, the sample subscriber.

    start:  ports free? -> Kafka serves -> subscriber -> worker ready -> every subscription ready
    stop:   worker (it drains) -> subscriber -> Kafka          all within one limit, then SIGKILL

Each is a child process. Does not restart one that ended: it reports which one, and everything else stops.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from app.local.child_process import Child
from app.local.kafka import EmbeddedKafka
from app.local.kafka.config import DEFAULT_HEAP, DEFAULT_PORT
from app.local.kafka.jars import Progress, ensure_jars
from app.local.kafka.ports import LOOPBACK, free_port, is_free
from app.local.kafka.record import Running, read_record
from app.local.packaged import SUBSCRIBER_PORT, python_module
from app.local.probes import (
    former_address,
    probe_worker,
    resources_in,
    subscribers_not_ready,
    subscriptions_by_channel,
)
from knative.errors import NotReadyError, PenstockError, UsageError, os_reason

#: For Kafka and the worker together, after a download: a minute for each.
START_LIMIT_S = 120.0
_POLL_S = 0.1
_SILENT_S = 5.0  #: how long a wait may take before its reason is printed
#: Warnings that the sample subscriber causes on purpose: in the log file only.
PICKY = ("attempt failed", "dead-lettered")
#: Warnings of the Kafka client while a new Kafka loads its own state; the client retries by itself.
_FRESH_KAFKA = ("GETPID ",)
_DRAIN_S = 4.0  #: at stop, for requests in flight; short enough to stop everything within ten seconds
#: Settings of the worker that the environment does not change: field name -> text.
FIXED: Mapping[str, str] = {"role": "all", "bind": LOOPBACK, "drain_s": f"{_DRAIN_S:g}", "log_format": "json"}


@dataclass(frozen=True, slots=True)
class StackConfig:
    """Folders, addresses and options. `kafka` "" = the embedded one; `subscriber_port` 0 = no sample subscriber."""

    home: Path
    resources: Path
    jars_root: Path
    kafka: str = ""
    kafka_port: int = DEFAULT_PORT
    kafka_data: Path = Path(".penstock/kafka")
    heap: str = DEFAULT_HEAP
    http_port: int = 8080
    admin_port: int = 8081
    subscriber_port: int = SUBSCRIBER_PORT
    subscriber_arguments: tuple[str, ...] = ()
    cluster_domain: str = "cluster.local"  #: as the worker's setting says
    settings: Mapping[str, str] = field(default_factory=dict)  #: field name -> text, for the worker
    expected: tuple[str, ...] = ()  #: beginnings of warnings that a demo causes on purpose: in the log file only
    ready_limit_s: float = START_LIMIT_S


class Stack:
    """The processes. `start`, then `check` now and then, then `stop`. From the main thread."""

    def __init__(self, config: StackConfig, say: Callable[[str], None], progress: Progress | None = None) -> None:
        """`say` gets each step, and each warning of the worker."""
        self.config = config
        self.bootstrap = config.kafka
        self.kafka_log: Path | None = None
        self._say = say
        self._progress = progress
        self._kafka: EmbeddedKafka | None = None
        self._children: list[Child] = []

    @property
    def worker_log(self) -> Path:
        """The worker's log: one JSON object a line."""
        return self.config.home / "logs" / "worker.log"

    @property
    def runs(self) -> bool:
        """True while there is something to stop."""
        return bool(self._children) or (self._kafka is not None and self._kafka.pid is not None)

    def start(self) -> None:
        """Blocks until every subscription is ready. Raises PenstockError; call `stop` also in that case."""
        config = self.config
        resources = resources_in(config.resources)
        channels = subscriptions_by_channel(resources)
        # Checked before the ports: if another `penstock up` runs here the ports are in use too, but it is the cause.
        running = None if self.bootstrap else self._kafka_of_others()
        self._check_ports()
        self._make_home()
        if not self.bootstrap and running is None:
            ensure_jars(config.jars_root, self._progress)  # a download takes as long as the line is slow
        end = time.monotonic() + config.ready_limit_s
        if self.bootstrap:
            self._say(f"Using the Kafka at {self.bootstrap}; waiting until it answers ...")
        else:
            self._start_kafka(running, end)
        if config.subscriber_port:
            port = ("--port", str(config.subscriber_port))
            command = python_module("app.local.sample_subscriber", *port, *config.subscriber_arguments)
            self._children.append(Child("sample subscriber", command))
        quiet = (
            config.expected
            + (PICKY if config.subscriber_port else ())
            + (_FRESH_KAFKA if self._kafka is not None else ())
        )
        self._children.append(Child("worker", self._worker_command(), self.worker_log, self._say, quiet))
        base = f"http://{LOOPBACK}:{config.http_port}"
        state = config.home / "state"
        self._wait(lambda: probe_worker(base), end)
        self._wait(lambda: former_address(state, resources), end)
        # A ready worker accepts events, but a subscription gets only those after it is ready: wait for each of them.
        for channel, subscriptions in channels.items():
            self._wait(lambda c=channel, n=subscriptions: subscribers_not_ready(base, c, n, state), end)  # type: ignore[misc]

    def check(self) -> None:
        """Raises PenstockError when one of the processes has ended."""
        for child in self._children:
            if child.code is not None:
                raise _ended(child)
        if self._kafka is not None and self._kafka.pid is None:
            raise PenstockError("The embedded Kafka exited.", f"Its log is {self._kafka.log_file}.")

    def stop(self, limit_s: float = 9.0) -> None:
        """Stop everything in order. Sends SIGKILL to processes that do not end in time."""
        end = time.monotonic() + limit_s
        # The worker first: while it drains it still needs its subscriber, and Kafka for its last commits.
        for child in reversed(self._children):
            if child.code is None and not child.stop(min(_DRAIN_S + 3.0, end - time.monotonic())):
                self._say(f"The {child.name} did not stop in time and was killed.")
        self._children.clear()
        if self._kafka is not None and not self._kafka.stop(max(0.5, end - time.monotonic())):
            self._say("Kafka did not stop in time and was killed; its data is safe.")

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
        }
        for option, (port, what) in options.items():
            if port and not is_free(port):
                raise PenstockError(
                    f"Port {port} of {LOOPBACK}, wanted for {what}, is used by another program.",
                    f"Stop that program, or choose another port: {option} {free_port()}.",
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
            raise PenstockError(
                f"Logs and statuses cannot be written to {self.config.home}: {os_reason(problem)}.",
                "Choose another directory with --home DIR, or check the permissions and the free space of this one.",
            ) from problem

    def _kafka_of_others(self) -> Running | None:
        """The Kafka that already runs in the background on our data, or None. Raises UsageError when it belongs to
        another command, which would stop it at any time."""
        data = self.config.kafka_data
        running = read_record(data)
        if running is not None and running.attached:
            raise UsageError(
                f"Penstock already runs here: another command runs the Kafka on {data} (process {running.pid}).",
                "Stop that one (Ctrl-C in its terminal), or choose other data and ports: --data DIR --home DIR "
                "--http-port N --admin-port N --subscriber-port N.",
            )
        return running

    def _start_kafka(self, running: Running | None, end: float) -> None:
        config = self.config
        if running is not None:
            self.bootstrap = running.bootstrap
            self._say(f"Kafka is already up at {running.bootstrap}; it stays up afterwards.")
            return
        self._say(f"Starting Kafka at {LOOPBACK}:{config.kafka_port} ...")
        self._kafka = EmbeddedKafka(
            config.kafka_data,
            config.kafka_port,
            heap=config.heap,
            jars_root=config.jars_root,
            progress=self._progress,
            port_option="--kafka-port",
        )
        self._kafka.start(end - time.monotonic())
        self.bootstrap = self._kafka.bootstrap
        self.kafka_log = self._kafka.log_file

    def _worker_command(self) -> list[str]:
        config = self.config
        settings = {
            "role": "all",
            "kafka": self.bootstrap,
            "resources": f"file:{config.resources.absolute()}",
            "http_port": str(config.http_port),
            "admin_port": str(config.admin_port),
            "bind": LOOPBACK,
            "ingress_url": f"http://{LOOPBACK}:{config.http_port}",
            "state_dir": str((config.home / "state").absolute()),
            "drain_s": str(_DRAIN_S),
            "log_format": "json",
            **({} if config.kafka else {"kafka_secret": ""}),  # the embedded Kafka has no TLS and no SASL
            # On loopback, for the commands that are shown: without TLS, and for everybody on this machine.
            **dict.fromkeys(("tls_cert", "tls_key", "tokens"), ""),
            **config.settings,
        }
        self._say("Starting the worker ...")
        given = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        return python_module("app.cli", "worker", *given)

    def _wait(self, missing: Callable[[], str], end: float) -> None:
        """Wait until `missing` returns "". Otherwise it returns the reason to wait, which is printed in a long wait."""
        printed, print_at = "", time.monotonic() + _SILENT_S
        while why := missing():
            self.check()
            now = time.monotonic()
            if now >= print_at and why != printed:
                self._say(f"Waiting: {why} ...")
                printed, print_at = why, now + _SILENT_S
            if now > end:
                raise NotReadyError(
                    f"Not ready within {self.config.ready_limit_s:.0f} s: {why}.",
                    f"See `penstock status` for the reason; the worker's log is {self.worker_log}.",
                )
            time.sleep(_POLL_S)


def _ended(child: Child) -> PenstockError:
    """An error with the child's own exit code: 2 = a setting was wrong, 3 = something did not answer in time."""
    details = f" {child.last_words}" if child.log_file else ""
    kinds = {UsageError.exit_code: UsageError, NotReadyError.exit_code: NotReadyError}
    return kinds.get(child.code or 0, PenstockError)(
        f"The {child.name} exited (exit code {child.code}).{details.rstrip()}",
        f"Its log is {child.log_file}." if child.log_file else "",
    )
