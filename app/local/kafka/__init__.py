"""A real Kafka for a machine that has none: one KRaft broker on loopback, as a child process or in the background.

For trying Penstock out, for the demo and for the tests. It refuses to be a production Kafka: it listens on loopback
only, has no replicas and no security, and nothing in the data plane ever starts one.

    jars -> config -> broker (one process) -> daemon (the same process, outliving the command that started it)
"""

from __future__ import annotations

from app.local.kafka.broker import EmbeddedKafka
from app.local.kafka.config import Cluster, Node

__all__ = ["Cluster", "EmbeddedKafka", "Node"]
