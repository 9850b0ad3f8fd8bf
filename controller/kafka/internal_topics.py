"""The topics that Penstock itself needs. Every role creates those that it uses.

A managed Kafka may refuse configs of topics. The internal topics need their `cleanup.policy`; the other configs make
reading them faster. All functions but `ensure_internal_topics` block: call them in a thread. Raises KafkaFailed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import structlog

from controller.config import ControllerConfig
from knative.contract import kafka_names
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.errors import KafkaInvalid

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


async def ensure_internal_topics(config: ControllerConfig) -> None:
    """Create the contract and status topics unless they exist. Raises KafkaFailed (KafkaUnavailable: try again)."""
    await asyncio.to_thread(_make_internal_topics, config)


def _make_internal_topics(config: ControllerConfig) -> None:
    internal = (config.contract_topic, kafka_names.status_topic(config.instance))
    ensure_compacted(KafkaAdmin(config.kafka, config.admin_timeout_s), internal, config.internal_replication)


def ensure_compacted(admin: KafkaAdmin, names: Iterable[str], replication: int) -> None:
    """Create the internal topics (one partition, compacted) unless they exist."""
    _ensure(admin, dict.fromkeys(names, INTERNAL), replication)


#: Configs of the audit topic: it keeps everything, because what people do is little.
AUDIT = {NEEDED: "delete", "retention.ms": "-1"}


def ensure_audit(admin: KafkaAdmin, name: str, replication: int) -> None:
    """Create the audit topic (one partition) unless it exists."""
    _ensure(admin, {name: AUDIT}, replication)


def traffic_configs(retention_s: float) -> dict[str, str]:
    """Returns configs of the traffic topic."""
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
