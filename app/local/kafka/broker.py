"""One embedded broker process: start it, wait until it serves, stop it cleanly.

    <data dir>/server.properties   written at each start
              /storage/            Kafka's data; stays
              /broker.log          Kafka's warnings and errors
              /jvm.log             output of the JVM itself
              /lock                held by the process that runs a broker here

A broker dies with the process that started it, whatever ends that.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from types import TracebackType

from app.local.child_process import Child
from app.local.kafka.config import DEFAULT_HEAP, DEFAULT_PORT, Cluster, Node, java_arguments, new_cluster_id
from app.local.kafka.jar_sets import LOG_CONFIG
from app.local.kafka.jars import Progress, ensure_jars
from app.local.kafka.locks import owned
from app.local.kafka.ports import LOOPBACK, free_port, is_free, is_open
from app.local.kafka.storage import DATA, prepare
from app.local.machine import find_java
from app.timing import START_S
from knative.errors import NotReadyError, PenstockError, UsageError
from tables.timing import POLL_S


class EmbeddedKafka:
    """One broker on loopback. Start it again after `stop` or `kill`: data and port stay. From the main thread."""

    def __init__(
        self,
        data_dir: Path,
        port: int = DEFAULT_PORT,
        *,
        heap: str = DEFAULT_HEAP,
        jars_root: Path = Path(".penstock/kafka"),
        cluster: Cluster | None = None,
        node_id: int = 1,
        progress: Progress | None = None,
        port_option: str = "--port",
    ) -> None:
        """`port` 0 = a free one, chosen now. `port_option`: the option that the hint for a used port names.

        With `cluster` (several nodes) this is its node `node_id`.
        """
        self.data_dir = data_dir.absolute()
        self.jars_root = jars_root.absolute()
        self.heap = heap
        self._cluster = cluster
        self._node_id = node_id
        self._progress = progress
        self._port_option = port_option
        self._child: Child | None = None
        self._lock: contextlib.ExitStack | None = None  # of the data directory
        self.port = _node(cluster, node_id).port if cluster else port or free_port()

    @property
    def bootstrap(self) -> str:
        """`host:port` of this broker."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._child.pid if self._child is not None and self._child.code is None else None

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

    def claim(self) -> None:
        """Own the data directory until `stop` or `kill`. Raises UsageError when another process does."""
        if self._lock is not None:
            return
        second = f"--data DIR {self._port_option} N. Or use its Kafka: penstock up --kafka HOST:PORT"
        lock = contextlib.ExitStack()
        # Kafka locks its storage too, but later: two that format it at once would damage it.
        lock.enter_context(owned(self.data_dir, *DATA, "runs a Kafka in", second))
        self._lock = lock

    def start(self, limit_s: float = START_S) -> None:
        """Blocks until the broker serves clients, at most `limit_s` after its jars were downloaded.

        Raises PenstockError with a hint, and leaves no process.
        """
        libs = ensure_jars(self.jars_root, self._progress)
        java = [find_java(), *java_arguments(libs, LOG_CONFIG, self.log_file, self.heap)]
        end = time.monotonic() + limit_s
        self.claim()
        try:
            if not is_free(self.port):
                raise self._port_taken()
            # With one node no other process needs the controller's port, so each start takes any free one.
            cluster = self._cluster or Cluster(new_cluster_id(), (Node(self._node_id, self.port, self._other_port()),))
            properties = prepare(self.data_dir, cluster, _node(cluster, self._node_id), java, _left(end))
            command = [*java, "kafka.Kafka", str(properties)]
            self._child = Child("embedded Kafka", command, self.data_dir / "jvm.log", folder=self.data_dir)
            self._wait_ready(self._child, _left(end), alone=self._cluster is None)
        except BaseException:  # even Ctrl-C
            self.kill()
            raise

    def stop(self, limit_s: float = 20.0) -> bool:
        """Send SIGTERM and wait; send SIGKILL after `limit_s`. Returns whether it ended by itself or did not run."""
        clean = self._child is None or self._child.stop(limit_s)
        self.kill()
        return clean

    def kill(self) -> None:
        """Send SIGKILL; does nothing when it does not run."""
        if self._child is not None:
            self._child.kill()
        self._child = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def check(self) -> None:
        """Raises PenstockError when it has ended by itself."""
        if self._child is not None and self._child.code is not None:
            raise PenstockError(
                f"The embedded Kafka exited (exit code {self._child.code}).", f"Its log is {self.log_file}."
            )

    def _other_port(self) -> int:
        port = free_port()
        return port if port != self.port else self._other_port()

    def _port_taken(self) -> PenstockError:
        return PenstockError(
            f"Port {self.port} on {LOOPBACK} is already in use, so the embedded Kafka cannot listen.",
            f"Choose another port ({self._port_option} {self._other_port()}), or use the Kafka that listens there "
            f"(penstock up --kafka {self.bootstrap}).",
        )

    def _wait_ready(self, child: Child, limit_s: float, *, alone: bool) -> None:
        end = time.monotonic() + limit_s
        while not (is_open(self.port) and (not alone or answers(self.bootstrap))):
            if child.code is not None:
                # Another program may have taken the port between `start` and the broker's own bind.
                if not is_free(self.port):
                    raise self._port_taken()
                raise PenstockError(
                    f"The embedded Kafka exited during its start (exit code {child.code}): {self._last_words(child)}",
                    f"Its log is {self.log_file}.",
                )
            if time.monotonic() > end:
                raise NotReadyError(
                    f"The embedded Kafka at {self.bootstrap} did not answer in time.",
                    f"Allow more time with --timeout. Its log is {self.log_file}.",
                )
            time.sleep(POLL_S)

    def _last_words(self, child: Child) -> str:
        if self.log_file.exists():
            log = self.log_file.read_text(errors="replace").splitlines()
            if lines := [line for line in log if line.strip() and not line[0].isspace()]:  # no lines of a stack
                return " | ".join(lines[-3:])
        return child.last_words or "it printed nothing."


def answers(bootstrap: str, limit_s: float = 2.0) -> bool:
    """Returns whether a Kafka at `bootstrap` answers with brokers that take requests."""
    from tables.kafka.admin.kafka_admin import KafkaAdmin
    from tables.kafka.errors import KafkaUnavailable

    try:
        return bool(KafkaAdmin({"bootstrap.servers": bootstrap, "socket.timeout.ms": 2000}, limit_s).cluster().brokers)
    except KafkaUnavailable:
        return False


def _left(end: float) -> float:
    """Returns seconds until then, for something that must have a moment to run at all."""
    return max(0.1, end - time.monotonic())


def _node(cluster: Cluster, node_id: int) -> Node:
    for node in cluster.nodes:
        if node.id == node_id:
            return node
    raise UsageError(f"There is no node {node_id} among {[node.id for node in cluster.nodes]}.")
