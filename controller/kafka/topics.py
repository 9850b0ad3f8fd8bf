"""What the controller asks Kafka about topics. Blocking: call it in a thread. Raises KafkaFailed."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from controller.plan.actions import ObservedTopic
from controller.plan.channels import MANAGED_CONFIGS
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.errors import KafkaInvalid, KafkaNotFound, leave_out


def observe_topics(admin: KafkaAdmin, names: Iterable[str]) -> dict[str, ObservedTopic]:
    """Returns the topics of `names` that exist."""
    topics = admin.describe_topics(names, leave_out(KafkaNotFound))
    topics = {name: about for name, about in topics.items() if about.partitions}
    configs = admin.topic_configs(topics, MANAGED_CONFIGS)  # of the others, those that the topic has of its own
    return {
        name: ObservedTopic(
            partitions=len(about.partitions),
            replication=min(about.replicas),
            configs=configs.get(name, {}),
            id=about.id,
        )
        for name, about in topics.items()
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
