"""The two topics that every process of an installation reads: the contract and the workers' status."""

from __future__ import annotations

import asyncio

from controller.config import ControllerConfig
from controller.kafka.topics import ensure_compacted
from knative.contract import kafka_names
from tables.kafka.admin.kafka_admin import KafkaAdmin


async def ensure_internal_topics(config: ControllerConfig) -> None:
    """Create the contract and status topics unless they exist. Raises KafkaFailed (KafkaUnavailable: try again)."""
    await asyncio.to_thread(_make_internal_topics, config)


def _make_internal_topics(config: ControllerConfig) -> None:
    internal = (config.contract_topic, kafka_names.status_topic(config.instance))
    ensure_compacted(KafkaAdmin(config.kafka, config.admin_timeout_s), internal, config.internal_replication)
