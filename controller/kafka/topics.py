"""What the controller asks Kafka about topics, and the topics that Penstock itself needs.

Blocking: call it in a thread. Raises KafkaFailed.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.plan.actions import ObservedTopic
from controller.plan.channels import MANAGED_CONFIGS
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.errors import KafkaNotFound, leave_out

#: Configs of the contract topic, the status topic and the redrive ledger.
INTERNAL = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1", "segment.ms": "3600000"}
#: Small segments, so that compaction soon removes overwritten rows and reading a topic stays fast.
CHANGELOG = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.1",
    "segment.ms": "600000",
    "segment.bytes": "16777216",
    "delete.retention.ms": "600000",
}


def observe_topics(admin: KafkaAdmin, names: Iterable[str]) -> dict[str, ObservedTopic]:
    """The topics of `names` that exist."""
    found = admin.describe_topics(names, leave_out(KafkaNotFound))
    found = {name: about for name, about in found.items() if about.partitions}
    configs = admin.topic_configs(found, MANAGED_CONFIGS)  # of the others, those that the topic has of its own
    return {
        name: ObservedTopic(
            partitions=len(about.partitions),
            replication=min(about.replicas),
            configs=configs.get(name, {}),
            id=about.id,
        )
        for name, about in found.items()
    }


def delete_topic(admin: KafkaAdmin, topic: str) -> None:
    """Delete a topic; it may be gone already."""
    for problem in admin.delete_topics([topic]).values():
        if not isinstance(problem, KafkaNotFound):
            raise problem


def ensure_compacted(admin: KafkaAdmin, names: Iterable[str], replication: int) -> None:
    """Create the internal topics (one partition, compacted) unless they exist."""
    for name in names:
        admin.create_topic(name, 1, replication, INTERNAL)


def traffic_configs(retention_s: float) -> dict[str, str]:
    """Configs of the traffic topic."""
    return {"cleanup.policy": "delete", "retention.ms": str(int(retention_s * 1000))}


def ensure_traffic(
    admin: KafkaAdmin, topic: str, retention_s: float, changelogs: Iterable[str], replication: int
) -> None:
    """Create the traffic topic and the compacted topics made from it (one partition each) unless they exist."""
    admin.create_topic(topic, 1, replication, traffic_configs(retention_s))
    for name in changelogs:
        admin.create_topic(name, 1, replication, CHANGELOG)
