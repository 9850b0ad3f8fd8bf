"""The configuration of embedded brokers."""

from __future__ import annotations

import re
from pathlib import Path

from app.local.kafka.config import Cluster, Node, java_arguments, new_cluster_id, server_properties


def _settings(cluster: Cluster, node: Node) -> dict[str, str]:
    text = server_properties(cluster, node, Path("/data/storage"))
    return dict(line.split("=", 1) for line in text.splitlines())


def test_one_broker_listens_on_loopback_only() -> None:
    node = Node(1, 9092, 20001)
    settings = _settings(Cluster(new_cluster_id(), (node,)), node)
    assert settings["listeners"] == "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:20001"
    assert settings["controller.quorum.voters"] == "1@127.0.0.1:20001"
    assert settings["auto.create.topics.enable"] == "false"
    assert settings["group.initial.rebalance.delay.ms"] == "0"
    assert {value for name, value in settings.items() if name.endswith("replication.factor")} == {"1"}


def test_single_broker_may_be_busy_for_longer_than_kafka_allows_others() -> None:
    """It would take its partitions from itself, and no other could take them over."""
    node = Node(1, 9092, 20001)
    assert int(_settings(Cluster(new_cluster_id(), (node,)), node)["broker.session.timeout.ms"]) > 9000


def test_three_nodes_keep_two_copies_in_sync() -> None:
    nodes = tuple(Node(n, 9090 + n, 20000 + n) for n in (1, 2, 3))
    cluster = Cluster(new_cluster_id(), nodes)
    settings = _settings(cluster, nodes[1])
    assert cluster.bootstrap == "127.0.0.1:9091,127.0.0.1:9092,127.0.0.1:9093"
    assert settings["node.id"] == "2"
    assert settings["controller.quorum.voters"].count("@") == 3
    assert settings["min.insync.replicas"] == "2"
    assert {value for name, value in settings.items() if name.endswith("replication.factor")} == {"3"}


def test_cluster_ids_look_like_kafkas_own() -> None:
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", new_cluster_id()) for _ in range(200))


def test_java_arguments_end_with_the_class_path() -> None:
    assert java_arguments(Path("/l"), Path("/c"), Path("/b.log"), "1g")[-2:] == ["-cp", "/l/*"]
