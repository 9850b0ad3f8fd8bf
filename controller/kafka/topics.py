"""What the controller asks Kafka about topics, and the topics that Penstock itself needs.

A managed Kafka may refuse configs of topics. The internal topics need their `cleanup.policy`; all else makes reading
them faster. Blocking: call it in a thread. Raises KafkaFailed.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

import structlog

from controller.plan.actions import ObservedTopic
from controller.plan.channels import MANAGED_CONFIGS
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.errors import KafkaInvalid, KafkaNotFound, leave_out

log = structlog.get_logger(__name__)

NEEDED = "cleanup.policy"
#: Configs of the contract topic, the status topic and the redrive ledger.
INTERNAL = {NEEDED: "compact", "min.cleanable.dirty.ratio": "0.1", "segment.ms": "3600000"}
#: Small segments, so that compaction soon removes overwritten rows and reading a topic stays fast.
CHANGELOG = {
    NEEDED: "compact",
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


def create_topic(
    admin: KafkaAdmin, name: str, partitions: int, replication: int, configs: Mapping[str, str], unasked: Container[str]
) -> None:
    """Create the topic of a resource; it may exist already. If this Kafka refuses configs, without those that no user
    has asked for."""
    try:
        admin.create_topic(name, partitions, replication, configs)
    except KafkaInvalid as problem:
        asked = {key: value for key, value in configs.items() if key not in unasked}
        if not problem.may_be_a_config or asked == configs:
            raise
        try:
            admin.create_topic(name, partitions, replication, asked)
        except KafkaInvalid:
            raise problem from None  # it is about something else


def delete_topic(admin: KafkaAdmin, topic: str) -> None:
    """Delete a topic; it may be gone already."""
    for problem in admin.delete_topics([topic]).values():
        if not isinstance(problem, KafkaNotFound):
            raise problem


def ensure_compacted(admin: KafkaAdmin, names: Iterable[str], replication: int) -> None:
    """Create the internal topics (one partition, compacted) unless they exist."""
    _ensure(admin, dict.fromkeys(names, INTERNAL), replication)


#: Configs of the audit topic: it keeps everything, because what people do is little.
AUDIT = {NEEDED: "delete", "retention.ms": "-1"}


def ensure_audit(admin: KafkaAdmin, name: str, replication: int) -> None:
    """Create the audit topic (one partition) unless it exists."""
    _ensure(admin, {name: AUDIT}, replication)


def traffic_configs(retention_s: float) -> dict[str, str]:
    """Configs of the traffic topic."""
    return {NEEDED: "delete", "retention.ms": str(int(retention_s * 1000))}


def ensure_traffic(
    admin: KafkaAdmin, topic: str, retention_s: float, changelogs: Iterable[str], replication: int
) -> None:
    """Create the traffic topic and the compacted topics made from it (one partition each) unless they exist."""
    _ensure(admin, {topic: traffic_configs(retention_s), **dict.fromkeys(changelogs, CHANGELOG)}, replication)


def _ensure(admin: KafkaAdmin, topics: Mapping[str, Mapping[str, str]], replication: int) -> None:
    refused: dict[str, str] = {}
    for name, configs in topics.items():
        try:
            admin.create_topic(name, 1, replication, configs)
        except KafkaInvalid as problem:
            if not problem.may_be_a_config:
                raise
            admin.create_topic(name, 1, replication, {NEEDED: configs[NEEDED]})
            refused[name] = problem.why
    if refused:
        log.warning(
            "this Kafka refuses configs of internal topics; they were created with cleanup.policy alone",
            topics=", ".join(refused),
            reason="; ".join(dict.fromkeys(refused.values())),
        )
