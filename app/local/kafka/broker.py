"""One embedded broker process: start it, wait until it serves, stop it cleanly.

    <data dir>/server.properties   written at each start
              /storage/            Kafka's data; stays
              /broker.log          Kafka's warnings and errors
              /broker.json         the process (record.py)

An attached broker (the default) dies with the process that started it, whatever kills that. A detached one stays.
"""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType

from app.local.kafka.config import DEFAULT_HEAP, DEFAULT_PORT, Cluster, Node, java_arguments, new_cluster_id
from app.local.kafka.jar_sets import LOG_CONFIG
from app.local.kafka.jars import Progress, ensure_jars
from app.local.kafka.locks import locked
from app.local.kafka.ports import LOOPBACK, free_port, is_free, is_open
from app.local.kafka.processes import die_with_parent, start_time
from app.local.kafka.reaping import ended, exit_code, send
from app.local.kafka.record import Running, read_record, remove_record, write_record
from app.local.kafka.storage import make_folder, prepare
from app.local.machine import find_java
from app.timing import END_S
from knative.errors import NotReadyError, PenstockError, UsageError
from tables.timing import POLL_S


class EmbeddedKafka:
    """One broker on loopback. Start it again after `stop` or `kill`: data and port stay. Not thread-safe."""

    def __init__(
        self,
        data_dir: Path,
        port: int = DEFAULT_PORT,
        *,
        heap: str = DEFAULT_HEAP,
        jars_root: Path = Path(".penstock/kafka"),
        cluster: Cluster | None = None,
        node_id: int = 1,
        detached: bool = False,
        progress: Progress | None = None,
        port_option: str = "--port",
    ) -> None:
        """`port` 0 = a free one, chosen now. `port_option`: the option that the hint for a used port names.

        With `cluster` (several nodes) this is its node `node_id`.
        """
        self.data_dir = data_dir.absolute()
        self.jars_root = jars_root.absolute()
        self.heap = heap
        self.detached = detached
        self._cluster = cluster
        self._node_id = node_id
        self._progress = progress
        self._port_option = port_option
        self._process: subprocess.Popen[bytes] | None = None
        self.port = _node(cluster, node_id).port if cluster else port or free_port()

    @property
    def bootstrap(self) -> str:
        """`host:port` of this broker."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._process.pid if self._process is not None and exit_code(self._process) is None else None

    @property
    def log_file(self) -> Path:
        """Kafka's own warnings and errors."""
        return self.data_dir / "broker.log"

    def __enter__(self) -> EmbeddedKafka:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, limit_s: float = 60.0) -> None:
        """Blocks until the broker serves clients, at most `limit_s` after its jars were downloaded.

        Raises PenstockError with a hint, and leaves no process.
        """
        libs = ensure_jars(self.jars_root, self._progress)
        java = [find_java(), *java_arguments(libs, LOG_CONFIG, self.log_file, self.heap)]
        make_folder(self.data_dir)
        end = time.monotonic() + limit_s
        # The lock covers the whole start: two brokers that format one directory at once would damage it, and a second
        # command must find the record of the first.
        with locked(self.data_dir / "start.lock", limit_s, f"is starting a Kafka on {self.data_dir}"):
            self._check_free()
            # With one node no other process needs the controller's port, so each start takes any free one.
            cluster = self._cluster or Cluster(new_cluster_id(), (Node(self._node_id, self.port, self._other_port()),))
            properties = prepare(self.data_dir, cluster, _node(cluster, self._node_id), java, _left(end))
            self._spawn([*java, "kafka.Kafka", str(properties)])
            try:
                self._wait_ready(_left(end), alone=self._cluster is None)
            except BaseException:  # also Ctrl-C: a detached broker would stay without an owner
                self.kill()
                raise

    def stop(self, limit_s: float = 20.0) -> bool:
        """SIGTERM and wait; SIGKILL after `limit_s`. True when it ended by itself or did not run."""
        if self._process is None:
            return True
        send(self._process, signal.SIGTERM)
        clean = ended(self._process, limit_s)
        self.kill()
        return clean

    def kill(self) -> None:
        """Send SIGKILL; does nothing when it does not run."""
        if self._process is None:
            return
        send(self._process, signal.SIGKILL)
        ended(self._process, END_S)
        self._process = None
        remove_record(self.data_dir)

    def _other_port(self) -> int:
        port = free_port()
        return port if port != self.port else self._other_port()

    def _check_free(self) -> None:
        running = read_record(self.data_dir)
        if running is not None:
            raise UsageError(
                f"A Kafka already runs on {self.data_dir} (process {running.pid}, {running.bootstrap}).",
                "Use it, or stop it: penstock kafka down.",
            )
        if not is_free(self.port):
            raise self._port_taken()

    def _port_taken(self) -> PenstockError:
        return PenstockError(
            f"Port {self.port} of {LOOPBACK} is used by another program, so the embedded Kafka cannot listen.",
            f"Choose another port ({self._port_option} {self._other_port()}), or use the Kafka that listens there "
            f"(penstock up --kafka {self.bootstrap}).",
        )

    def _spawn(self, command: list[str]) -> None:
        with (self.data_dir / "broker.out").open("wb") as out:  # output of the JVM itself
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=self.data_dir,
                start_new_session=True,  # Ctrl-C reaches only the command, which then stops everything in order
                preexec_fn=None if self.detached else die_with_parent(),
            )
        pid = self._process.pid
        write_record(self.data_dir, Running(pid, start_time(pid) or "", self.port, attached=not self.detached))

    def _wait_ready(self, limit_s: float, *, alone: bool) -> None:
        end = time.monotonic() + limit_s
        while not (is_open(self.port) and (not alone or answers(self.bootstrap))):
            assert self._process is not None
            code = exit_code(self._process)
            if code is not None:
                # Another program may have taken the port between `_check_free` and the broker's own bind.
                if not is_free(self.port):
                    raise self._port_taken()
                raise PenstockError(
                    f"The embedded Kafka exited during its start (exit code {code}): {self._last_words()}",
                    f"Its log is {self.log_file}.",
                )
            if time.monotonic() > end:
                raise NotReadyError(
                    f"The embedded Kafka at {self.bootstrap} did not answer in time.",
                    f"Give it more with --timeout; its log is {self.log_file}.",
                )
            time.sleep(POLL_S)

    def _last_words(self) -> str:
        for path in (self.log_file, self.data_dir / "broker.out"):
            if path.exists() and (lines := path.read_text(errors="replace").strip().splitlines()):
                return " | ".join(lines[-3:])
        return "it printed nothing."


def answers(bootstrap: str, limit_s: float = 2.0) -> bool:
    """True when a Kafka at `bootstrap` answers with brokers that take requests."""
    from tables.kafka.admin.kafka_admin import KafkaAdmin
    from tables.kafka.errors import KafkaUnavailable

    try:
        return bool(KafkaAdmin({"bootstrap.servers": bootstrap, "socket.timeout.ms": 2000}, limit_s).cluster().brokers)
    except KafkaUnavailable:
        return False


def _left(end: float) -> float:
    """Seconds until then, for something that must have a moment to run at all."""
    return max(0.1, end - time.monotonic())


def _node(cluster: Cluster, node_id: int) -> Node:
    for node in cluster.nodes:
        if node.id == node_id:
            return node
    raise UsageError(f"There is no node {node_id} among {[node.id for node in cluster.nodes]}.")
