"""Asks Kafka for the facts. Every request has a limit. Blocks.

It writes one thing, which affects nobody: an offset of a group of its own, because only then does a broker say what
time it is. The group is deleted at once.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from app.operations.doctor.kafka import ClockReading, KafkaFacts
from app.operations.doctor.release import release
from app.operations.doctor.topics import IN_SYNC, TopicFacts
from app.settings.load import Settings
from controller.plan.channels import MANAGED_CONFIGS
from knative.contract.kafka_names import contract_topic, controller_group, doctor_group
from tables.kafka.admin.answers import ClusterInfo
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.errors import KafkaFailed, KafkaNotFound, leave_out

#: Brokers write it, with the times of their own clocks, whenever a group commits.
_OFFSETS_TOPIC = "__consumer_offsets"
_CONFIGS = frozenset({*MANAGED_CONFIGS, IN_SYNC})


def ask_kafka(client: Mapping[str, Any], settings: Settings) -> KafkaFacts:
    """Returns what it is; no topics yet. Raises KafkaFailed if it does not answer."""
    bootstrap = str(client["bootstrap.servers"])
    admin, instance = KafkaAdmin(client), settings.instance
    cluster = admin.probe()
    try:
        clock = _clock(admin, cluster, instance)
    except KafkaFailed:  # before Kafka 3.0, or not allowed: then the clock is not measured
        clock = []
    return KafkaFacts(
        bootstrap,
        brokers=cluster.brokers,
        release=release(bootstrap),
        clock=clock,
        creates_topics=_creates_topics(admin),
        group_protocol=settings.group_protocol,
        controllers=_members(admin, controller_group(instance)),
    )


def _creates_topics(admin: KafkaAdmin) -> bool | None:
    """None: it is not allowed to ask."""
    try:
        return admin.broker_setting("auto.create.topics.enable") == "true"
    except KafkaFailed:
        return None


def _members(admin: KafkaAdmin, group: str) -> int | None:
    """None: a new Kafka has no coordinator yet, or does not allow it."""
    try:
        group_info = admin.groups.describe(group)
    except KafkaFailed:
        return None
    return group_info.members if group_info is not None else 0


def _clock(admin: KafkaAdmin, cluster: ClusterInfo, instance: str) -> list[ClockReading]:
    """Returns the newest time that a broker has written, before and after a commit."""
    places = [(_OFFSETS_TOPIC, number) for number in cluster.topics.get(_OFFSETS_TOPIC, ())]
    topic, group = contract_topic(instance), doctor_group(instance)
    if not places or topic not in cluster.topics:
        return []
    before = max(admin.newest_timestamps(places).values())
    before_s = time.time()
    try:
        admin.groups.commit(group, {(topic, 0): 0})
        after_s = time.time()
        after = max(admin.newest_timestamps(places).values())
    finally:
        admin.groups.delete(group)
    return [ClockReading(before / 1000, before_s), ClockReading(after / 1000, after_s)]


def ask_topics(client: Mapping[str, Any], names: Iterable[str]) -> dict[str, TopicFacts]:
    """Returns the topics of these that exist. Raises KafkaFailed."""
    admin = KafkaAdmin(client)
    topics = admin.describe_topics(names, leave_out(KafkaNotFound))
    topics = {name: about for name, about in topics.items() if about.partitions}
    configs = admin.topic_configs(topics, _CONFIGS)
    return {
        name: TopicFacts(
            len(topic_info.partitions), min(topic_info.replicas), min(topic_info.in_sync), configs.get(name, {})
        )
        for name, topic_info in topics.items()
    }
