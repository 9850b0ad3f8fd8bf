"""Describes, creates, changes and deletes topics and groups in Kafka. Blocking: call it in a thread.

Every call has a time limit. A topic or group that is already as requested is a success.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from confluent_kafka.cimpl import NewPartitions, NewTopic

from controller.plan.actions import Configs, GroupState, ObservedTopic
from knative.contract.kafka_names import topic_id

T = TypeVar("T")

#: The topic configs that the controller manages, and therefore observes.
KEPT_CONFIGS = frozenset({"cleanup.policy", "max.message.bytes", "retention.ms"})

_HINTS: Mapping[int, str] = {
    KafkaError.INVALID_REPLICATION_FACTOR: "lower spec.replicationFactor to the number of brokers, or add brokers",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "grant the controller Create, Describe, Alter and Delete on its topics",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "grant the controller Create on the cluster",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "grant the controller Describe, Read and Delete on groups kafka.*",
    KafkaError.POLICY_VIOLATION: "ask the administrator of this Kafka which topics its policy allows",
    KafkaError.TOPIC_EXCEPTION: "choose another name or topic template",
    KafkaError.TOPIC_DELETION_DISABLED: "set delete.topic.enable=true on the brokers, or delete it by hand",
}


class ActionFailed(Exception):
    """An action failed and will be tried again. The message says what failed, why and, if known, a hint."""


class KafkaUnavailable(ActionFailed):
    """No broker answered within the limit."""


def explain(what: str, error: KafkaError) -> ActionFailed:
    """The exception for the error of one Kafka call."""
    if error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT):
        return KafkaUnavailable(f"{what}: Kafka does not answer ({error.str()})")
    hint = _HINTS.get(error.code(), "")
    return ActionFailed(f"{what}: {error.str()}" + (f"; {hint}" if hint else ""))


def outcome(future: Future[T], what: str, limit_s: float, fine: frozenset[int] = frozenset()) -> T | None:
    """A call's result; None if it failed with one of the codes `fine`. Raises ActionFailed."""
    try:
        return future.result(limit_s)
    except KafkaException as problem:
        error: KafkaError = problem.args[0]
        if error.code() in fine:
            return None
        raise explain(what, error) from problem
    except TimeoutError as problem:
        raise KafkaUnavailable(f"{what}: Kafka did not answer within {limit_s:g} s") from problem


def admin_client(kafka: Mapping[str, Any]) -> AdminClient:
    """A client with these librdkafka settings that does not log: the caller reports an unavailable Kafka once."""
    return AdminClient({"log_level": 2, **kafka})


class Topics:
    """Administration of topics and groups over one AdminClient."""

    def __init__(self, admin: AdminClient, limit_s: float) -> None:
        self._admin = admin
        self._limit_s = limit_s

    def observe(self, names: Iterable[str]) -> dict[str, ObservedTopic]:
        """The topics of `names` that exist. Raises ActionFailed."""
        wanted = sorted(names)
        if not wanted:
            return {}
        asked = self._admin.describe_topics(TopicCollection(wanted), request_timeout=self._limit_s)
        unknown = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART})
        found: dict[str, Any] = {}
        for name, future in asked.items():
            described = outcome(future, f"describing topic {name}", self._limit_s, unknown)
            if described is not None and described.partitions:
                found[name] = described
        configs = self._configs(found)
        return {
            name: ObservedTopic(
                partitions=len(described.partitions),
                replication=min(len(partition.replicas) for partition in described.partitions),
                configs=configs.get(name, {}),
                id=topic_id(described.topic_id),
            )
            for name, described in found.items()
        }

    def _configs(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        asked = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        if not asked:
            return {}
        unknown = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART})
        result: dict[str, dict[str, str]] = {}
        for resource, future in self._admin.describe_configs(asked, request_timeout=self._limit_s).items():
            entries = outcome(future, f"reading the configs of topic {resource.name}", self._limit_s, unknown)
            result[resource.name] = {
                name: entry.value for name, entry in (entries or {}).items() if name in KEPT_CONFIGS
            }
        return result

    def create(self, topic: str, partitions: int, replication: int, configs: Configs) -> None:
        """Create a topic; it may exist already. Raises ActionFailed."""
        new = NewTopic(topic, num_partitions=partitions, replication_factor=replication, config=dict(configs))
        asked = self._admin.create_topics([new], operation_timeout=self._limit_s, request_timeout=self._limit_s)
        outcome(asked[topic], f"creating topic {topic}", self._limit_s, frozenset({KafkaError.TOPIC_ALREADY_EXISTS}))

    def alter(self, topic: str, configs: Configs) -> None:
        """Set some configs of a topic. Raises ActionFailed."""
        entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in configs]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        asked = self._admin.incremental_alter_configs([resource], request_timeout=self._limit_s)
        outcome(asked[resource], f"setting the configs of topic {topic}", self._limit_s)

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Raise a topic to `partitions` in total; it may have them already. Raises ActionFailed."""
        asked = self._admin.create_partitions(
            [NewPartitions(topic, partitions)], operation_timeout=self._limit_s, request_timeout=self._limit_s
        )
        fine = frozenset({KafkaError.INVALID_PARTITIONS})  # it has as many or more by now; observed next time
        outcome(asked[topic], f"adding partitions to topic {topic}", self._limit_s, fine)

    def delete(self, topic: str) -> None:
        """Delete a topic; it may be gone already. Raises ActionFailed."""
        asked = self._admin.delete_topics([topic], operation_timeout=self._limit_s, request_timeout=self._limit_s)
        fine = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART})
        outcome(asked[topic], f"deleting topic {topic}", self._limit_s, fine)

    def group_states(self, groups: Iterable[str]) -> dict[str, GroupState]:
        """The state of each group. Raises ActionFailed."""
        states: dict[str, GroupState] = {}
        gone = frozenset({KafkaError.GROUP_ID_NOT_FOUND})
        for group in sorted(groups):
            asked = self._admin.describe_consumer_groups([group], request_timeout=self._limit_s)
            states[group] = _group_state(outcome(asked[group], f"describing group {group}", self._limit_s, gone))
        return states

    def delete_group(self, group: str) -> None:
        """Delete a group without members; it may be gone already. Raises ActionFailed."""
        asked = self._admin.delete_consumer_groups([group], request_timeout=self._limit_s)
        fine = frozenset({KafkaError.GROUP_ID_NOT_FOUND})
        outcome(asked[group], f"deleting group {group}", self._limit_s, fine)

    def ensure_compacted(self, names: Iterable[str], replication: int) -> None:
        """Create the internal topics (one partition, compacted) unless they exist. Raises ActionFailed."""
        configs = (("cleanup.policy", "compact"), ("min.cleanable.dirty.ratio", "0.1"), ("segment.ms", "3600000"))
        for name in names:
            self.create(name, 1, replication, configs)

    def ensure_traffic(self, topic: str, retention_s: float, changelogs: Iterable[str], replication: int) -> None:
        """Create the traffic topic and the compacted topics made from it (one partition each) unless they exist.

        Segments are small, so that compaction soon removes overwritten rows and reading a topic stays fast. Raises
        ActionFailed.
        """
        kept = (("cleanup.policy", "delete"), ("retention.ms", str(int(retention_s * 1000))))
        self.create(topic, 1, replication, kept)
        configs = (
            ("cleanup.policy", "compact"),
            ("min.cleanable.dirty.ratio", "0.1"),
            ("segment.ms", "600000"),
            ("segment.bytes", "16777216"),
            ("delete.retention.ms", "600000"),
        )
        for name in changelogs:
            self.create(name, 1, replication, configs)


def _group_state(described: Any) -> GroupState:
    if described is None or described.state.name in ("DEAD", "UNKNOWN"):
        return GroupState.ABSENT
    return GroupState.LIVE if described.members or described.state.name != "EMPTY" else GroupState.EMPTY
