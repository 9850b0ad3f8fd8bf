"""A real Kafka for a machine without one: one KRaft broker on loopback, as a child process.

For trying Penstock out, for the demo and for the tests. It is not for production: it listens on loopback only and has
no replicas and no security. The data plane never starts one.

    jars -> config -> storage -> broker (one process, which lives as long as the command that started it)
"""

from __future__ import annotations

from app.local.kafka.broker import EmbeddedKafka
from app.local.kafka.config import Cluster, Node

__all__ = ["Cluster", "EmbeddedKafka", "Node"]
