"""Makes `server.properties` and the JVM arguments of an embedded broker from a list of nodes. Pure.

Every node is both broker and controller (KRaft), and all listen on loopback only.
"""

from __future__ import annotations

import base64
import uuid
from dataclasses import dataclass
from pathlib import Path

from app.local.kafka.ports import LOOPBACK

DEFAULT_PORT = 9092
DEFAULT_HEAP = "512m"
#: The largest record by default (a topic may allow more): an event of 1 MiB fits even as a dead letter.
RECORD_BYTES_MAX = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Node:
    """One broker: its id (from 1), the port for clients and the port for other controllers."""

    id: int
    port: int
    controller_port: int


@dataclass(frozen=True, slots=True)
class Cluster:
    """All nodes of one Kafka. `id` is 16 bytes in URL-safe base64 without padding, as Kafka writes it."""

    id: str
    nodes: tuple[Node, ...]

    @property
    def bootstrap(self) -> str:
        """`host:port[,...]` of all nodes."""
        return ",".join(f"{LOOPBACK}:{node.port}" for node in self.nodes)


def new_cluster_id() -> str:
    """Returns a random id that does not start with `-`, because it is also a command-line argument."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def server_properties(cluster: Cluster, node: Node, log_dir: Path) -> str:
    """Returns the text of `server.properties` of one node."""
    copies = min(3, len(cluster.nodes))
    in_sync = 2 if copies == 3 else 1
    settings: dict[str, object] = {
        "process.roles": "broker,controller",
        "node.id": node.id,
        "controller.quorum.voters": ",".join(f"{n.id}@{LOOPBACK}:{n.controller_port}" for n in cluster.nodes),
        "listeners": f"PLAINTEXT://{LOOPBACK}:{node.port},CONTROLLER://{LOOPBACK}:{node.controller_port}",
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{node.port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": log_dir,
        "auto.create.topics.enable": "false",
        "num.partitions": 1,
        "default.replication.factor": copies,
        "min.insync.replicas": in_sync,
        "message.max.bytes": RECORD_BYTES_MAX,
        "replica.fetch.max.bytes": RECORD_BYTES_MAX,
        # Internal topics: small, because each partition costs files and start time.
        "offsets.topic.replication.factor": copies,
        "offsets.topic.num.partitions": 5,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        "transaction.state.log.num.partitions": 5,
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": in_sync,
        "share.coordinator.state.topic.num.partitions": 5,
        # A group with one member starts at once, and a killed member may time out sooner than after 6 s.
        "group.initial.rebalance.delay.ms": 0,
        "group.min.session.timeout.ms": 1000,
        # A killed broker that comes back waits for its old session to end. But on a machine with too much to do, a
        # broker misses heartbeats: one that is alone then loses its partitions, and no other takes them over. So it has
        # twice Kafka's default. Of several, another one leads the sooner.
        "broker.session.timeout.ms": 18_000 if copies == 1 else 4000,
        "broker.heartbeat.interval.ms": 500,
        # At rest, a quarter less CPU: else the controller writes twice a second that nothing has changed.
        "metadata.max.idle.interval.ms": 5000,
        # Few threads and little memory, for a laptop; the cleaner's buffer is 128 MiB by default. An index is a file
        # with a hole of its largest size (10 MiB by default), of which the system may read all at the first entry.
        "num.network.threads": 2,
        "num.io.threads": 4,
        "background.threads": 4,
        "log.cleaner.dedupe.buffer.size": 8 * 1024 * 1024,
        "log.index.size.max.bytes": 1024 * 1024,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def java_arguments(libs: Path, log_config: Path, log_file: Path, heap: str) -> list[str]:
    """Returns the arguments of every Java process of the embedded Kafka, up to the main class."""
    return [
        f"-Xmx{heap}",
        "-XX:+UseSerialGC",
        "-XX:-UsePerfData",
        "-Djava.awt.headless=true",
        f"-Dpenstock.kafka.log={log_file}",
        f"-Dlog4j2.configurationFile={log_config}",
        "-cp",
        f"{libs}/*",
    ]
