"""A real Kafka of several brokers (KRaft, each both broker and controller), for tests that break one of them.

    client -> TcpProxy -> CLIENTS listener  \\
    test -------------->  PLAINTEXT listener  broker 1, 2, 3     replication 3, min ISR 2, also for internal topics

`bootstrap` leads through the proxies, and brokers advertise these there; `direct` goes past them, for who looks on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata
from confluent_kafka.cimpl import NewTopic

from app.local.kafka.config import Cluster, Node, java_arguments, new_cluster_id
from app.local.kafka.jar_sets import LOG_CONFIG
from app.local.kafka.jars import ensure_jars
from app.local.kafka.ports import LOOPBACK, is_open
from app.local.kafka.storage import prepare
from app.local.machine import find_java
from tests.support.java_classes import QUICK_COMPILER
from tests.support.processes import REPOSITORY, Child, Failed, StartedByWith, free_port, wait_until
from tests.support.tcp_proxy import TcpProxy


class Bootstrap(Protocol):
    """A Kafka, as clients need it."""

    @property
    def bootstrap(self) -> str:
        """`host:port`, separated by commas."""


@dataclass(frozen=True, slots=True)
class Direct:
    """A Kafka past its proxies."""

    bootstrap: str


HEAP = "320m"
_START_LIMIT_S = 300.0
_STOP_LIMIT_S = 180.0
_ASK_LIMIT_S = 10.0
#: Settings of a broker's listeners -> settings to replace or to add.
Also = Callable[[Mapping[str, str]], Mapping[str, str]]


class Broker:
    """One of the brokers: its process, which comes and goes, and the proxy before it, which stays."""

    def __init__(self, cluster: Cluster, node: Node, data_dir: Path, java: list[str], also: Also) -> None:
        self.id, self.data_dir = node.id, data_dir
        self.proxy = TcpProxy(server_port=free_port())
        self.direct = f"{LOOPBACK}:{node.port}"
        self.process: Child  # the one started last
        self._cluster, self._node, self._java, self._also = cluster, node, java, also
        self._paused = False

    @property
    def running(self) -> bool:
        """False once it was stopped or killed, or has ended by itself. A paused one runs."""
        return hasattr(self, "process") and self.process.running

    def prepare(self) -> None:
        """Make its data directory and format its storage, when that has not been done."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        path = prepare(self.data_dir, self._cluster, self._node, self._java)
        path.write_text(path.read_text() + self._listeners())

    def _listeners(self) -> str:
        """Of a setting that is there twice Kafka takes the last."""
        node, clients = self._node, f"CLIENTS://{LOOPBACK}"
        between = f"PLAINTEXT://{LOOPBACK}:{node.port}"
        controllers = f"CONTROLLER://{LOOPBACK}:{node.controller_port}"
        settings = {
            "listeners": f"{between},{controllers},{clients}:{self.proxy.server_port}",
            "advertised.listeners": f"{between},{clients}:{self.proxy.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENTS:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
        }
        settings |= self._also(settings)
        return "".join(f"{name}={value}\n" for name, value in settings.items())

    def spawn(self) -> None:
        """Start the process. It serves only once most of the brokers run: `wait_serving`."""
        assert not self.running, f"broker {self.id} runs already"
        command = [*self._java, "kafka.Kafka", str(self.data_dir / "server.properties")]
        self.process, self._paused = Child(f"broker-{self.id}", command, self.data_dir), False

    def wait_serving(self, limit_s: float = _START_LIMIT_S) -> None:
        """Until it takes clients, which it does when it has caught up with the cluster."""

        def serves() -> bool:
            if not self.running:
                raise Failed(f"broker {self.id} ended while it started\n{self.process.tail()}\n{self._log()}")
            return is_open(self._node.port)

        wait_until(f"broker {self.id} serves\n{self._log()}", serves, limit_s)

    def start(self) -> None:
        """Start it and wait until it serves."""
        self.spawn()
        self.wait_serving()

    def kill(self) -> None:
        self.process.kill()

    def stop(self) -> None:
        """SIGTERM: it hands its partitions over and ends."""
        self.resume()
        self.process.terminate(_STOP_LIMIT_S)

    def restart(self) -> None:
        """Stop it in order and start it again."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """SIGSTOP: connections stay open, nothing is answered."""
        self.process.pause()
        self._paused = True

    def resume(self) -> None:
        if self._paused:
            self.process.resume()
            self._paused = False

    def _log(self) -> str:
        path = self.data_dir / "broker.log"
        return "\n".join(path.read_text(errors="replace").splitlines()[-10:]) if path.exists() else "(no log)"


class KafkaCluster(StartedByWith):
    """Between `with` and its end the brokers run, and their proxies forward everything by default."""

    def __init__(
        self,
        folder: Path,
        brokers: int = 3,
        *,
        heap: str = HEAP,
        also: Also = lambda listeners: {},
        classes: Path | None = None,
    ) -> None:
        """`brokers` 1: a single one behind a proxy, with one replica of everything. `also`: gets the settings of the
        listeners, and gives those to replace or to add. `classes`: a folder with further Java classes."""
        libs = ensure_jars(REPOSITORY / ".penstock" / "kafka")
        nodes = tuple(Node(number, free_port(), free_port()) for number in range(1, brokers + 1))
        cluster = Cluster(new_cluster_id(), nodes)
        self.brokers = []
        for node in nodes:
            data_dir = folder.absolute() / f"broker-{node.id}"
            java = [find_java(), QUICK_COMPILER, *java_arguments(libs, LOG_CONFIG, data_dir / "broker.log", heap)]
            if classes is not None:
                java[-1] += f":{classes}"
            self.brokers.append(Broker(cluster, node, data_dir, java, also))
        self._admin: AdminClient | None = None

    @property
    def bootstrap(self) -> str:
        """For what is tested: through the proxies."""
        return ",".join(f"{LOOPBACK}:{broker.proxy.port}" for broker in self.brokers)

    @property
    def direct(self) -> str:
        """For what looks on: past the proxies."""
        return ",".join(broker.direct for broker in self.brokers)

    def start(self) -> None:
        """Format, start and wait until it is healthy."""
        self.spawn()
        self.heal()

    def spawn(self) -> None:
        """Format and start. It serves only some seconds later."""
        with ThreadPoolExecutor(len(self.brokers)) as threads:
            list(threads.map(Broker.prepare, self.brokers))
        for broker in self.brokers:
            broker.proxy.start()
            broker.spawn()

    def stop(self) -> None:
        """Kill all brokers and end the proxies; the data is not used again."""
        self._admin = None
        for broker in self.brokers:
            if broker.running:
                broker.kill()
        for broker in self.brokers:
            broker.proxy.stop()

    def heal(self, limit_s: float = _START_LIMIT_S) -> None:
        """End all that was broken: proxies pass, paused brokers go on, dead ones are started; wait until healthy."""
        for broker in self.brokers:
            broker.proxy.forward()
            if broker.running:
                broker.resume()
            else:
                broker.spawn()
        for broker in self.brokers:
            broker.wait_serving(limit_s)
        self.wait_healthy(limit_s)

    def wait_healthy(self, limit_s: float = _START_LIMIT_S) -> None:
        """Until all brokers serve, and every partition has a leader and all its replicas in sync."""
        wait_until("all brokers serve, and all replicas are in sync", self.healthy, limit_s, poll_s=0.2)

    def healthy(self) -> bool:
        try:
            metadata = self._metadata()
        except KafkaException:
            return False
        partitions = [partition for topic in metadata.topics.values() for partition in topic.partitions.values()]
        return len(metadata.brokers) == len(self.brokers) and all(
            partition.leader >= 0 and len(partition.isrs) == len(partition.replicas) for partition in partitions
        )

    def broker(self, node_id: int) -> Broker:
        return self.brokers[node_id - 1]

    def leader(self, topic: str, partition: int = 0) -> Broker:
        """The one that takes the records of a partition now."""
        return self.broker(self._ask(lambda: self._metadata(topic).topics[topic].partitions[partition].leader))

    def coordinator(self, group: str) -> Broker:
        """The one that takes the commits of a group now."""

        def ask() -> int:
            described = self._client().describe_consumer_groups([group], request_timeout=_ASK_LIMIT_S)
            return int(described[group].result(_ASK_LIMIT_S).coordinator.id)

        return self.broker(self._ask(ask))

    def groups(self) -> set[str]:
        listed = self._client().list_consumer_groups(request_timeout=_ASK_LIMIT_S).result(_ASK_LIMIT_S)
        return {group.group_id for group in listed.valid}

    def topics(self) -> set[str]:
        return set(self._metadata().topics)

    def others(self, broker: Broker) -> Sequence[Broker]:
        return [other for other in self.brokers if other is not broker]

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """A topic with as many replicas as the cluster's defaults say."""
        created = self._client().create_topics([NewTopic(name, partitions)], operation_timeout=120)
        created[name].result(180)
        self.wait_healthy()

    def in_sync(self, topic: str, partition: int = 0) -> int:
        """How many replicas of a partition are in sync; 0 while it is not known."""
        try:
            return len(self._metadata(topic).topics[topic].partitions[partition].isrs)
        except (KafkaException, KeyError):
            return 0

    def _ask(self, ask: Callable[[], int]) -> int:
        """The number of a broker; asks again while there is none or no answer."""
        numbers = [-1]

        def is_named() -> bool:
            with suppress(KafkaException, KeyError):
                numbers.append(ask())
            return numbers[-1] >= 1

        wait_until("Kafka names the broker", is_named, _START_LIMIT_S, poll_s=0.2)
        return numbers[-1]

    def _metadata(self, topic: str | None = None) -> ClusterMetadata:
        client = self._client()
        return client.list_topics(topic, timeout=_ASK_LIMIT_S) if topic else client.list_topics(timeout=_ASK_LIMIT_S)

    def _client(self) -> AdminClient:
        if self._admin is None:
            patience = {"socket.timeout.ms": 3000, "reconnect.backoff.max.ms": 500}  # a paused broker is not waited for
            self._admin = AdminClient({"bootstrap.servers": self.direct, "log_level": 0, **patience})
        return self._admin
