"""Administration of Kafka: every request about topics, their offsets and groups that is not about reading records.

All methods block, so call them in a thread; each has a time limit, and raises what `tables/kafka/errors` makes of
Kafka's error. One object has one client, and another one for groups, each made at the first request that needs it:
making one takes up to 55 ms and opens connections. What is already as requested is a success where the method says so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ListOffsetsResultInfo,
    OffsetSpec,
    ResourceType,
)
from confluent_kafka.cimpl import NewPartitions, NewTopic

from knative.contract.kafka_names import topic_id
from knative.urls import host_in_url
from tables.kafka.admin.answers import ClusterInfo, TopicAndPartition, TopicInfo
from tables.kafka.admin.group_admin import GroupAdmin, OnPartition
from tables.kafka.connection import CREATES_NO_TOPICS
from tables.kafka.connection.probe import refusal
from tables.kafka.connection.refusals import Refusals
from tables.kafka.errors import (
    KafkaExists,
    KafkaFailed,
    KafkaInvalid,
    KafkaNotFound,
    KafkaUnavailable,
    failed,
    leave_out,
    unanswered,
    unreachable,
)
from tables.timing import ANSWER_S, LATER_S

K = TypeVar("K")

_RAISE = leave_out()


class KafkaAdmin:
    """Requests to one Kafka. Thread-safe. `on_error` of a method gets each part of the answer that is an error, and
    decides by raising or returning whether the rest counts; by default the first one is raised."""

    def __init__(self, kafka: Mapping[str, Any], limit_s: float = ANSWER_S) -> None:
        """`kafka`: librdkafka client settings. The client does not log: callers report an unavailable Kafka once."""
        self.bootstrap = str(kafka.get("bootstrap.servers", ""))
        self._refusals = Refusals(kafka)
        self._limit_s = limit_s
        self._settings = {**CREATES_NO_TOPICS, "log_level": 2, **kafka, "error_cb": self._refusals.callback}
        self._made: AdminClient | None = None  # None: the next request makes one
        self._making = threading.Lock()
        self.groups = GroupAdmin(kafka, limit_s)

    def close(self) -> None:
        """Drop the clients. A request under way may end without an answer."""
        self._made = None
        self.groups.close()

    @property
    def _client(self) -> AdminClient:
        with self._making:
            if self._made is None:
                self._made = AdminClient(self._settings)
            return self._made

    # -- the cluster

    def probe(self, limit_s: float | None = None) -> ClusterInfo:
        """Does the same as `cluster`, but notices a Kafka that refuses connections at once: the client would try until
        its time limit. Only for a Kafka that may not run, because brokers may move away from their first addresses."""
        if refused := refusal(self.bootstrap):
            raise unreachable(self.bootstrap, refused)
        return self.cluster(limit_s)

    def cluster(self, limit_s: float | None = None) -> ClusterInfo:
        """Returns the cluster and all its topics. `limit_s`: of this request alone. Raises KafkaUnavailable."""
        try:
            metadata = self._client.list_topics(timeout=self._limit_s if limit_s is None else limit_s)
        except KafkaException as problem:
            raise self._refusals.unreachable(self._client, problem) from problem
        topics = {name: tuple(sorted(about.partitions)) for name, about in metadata.topics.items()}
        addresses = tuple(f"{host_in_url(str(broker.host))}:{broker.port}" for broker in metadata.brokers.values())
        replicas = {
            name: min(len(part.replicas) for part in about.partitions.values())
            for name, about in metadata.topics.items()
            if about.partitions
        }
        return ClusterInfo(metadata.cluster_id or "", len(addresses), topics, addresses, replicas)

    def broker_setting(self, name: str) -> str | None:
        """Returns the value of a setting of a broker; None if it has no such setting."""
        try:
            brokers = self._client.list_topics(timeout=self._limit_s).brokers
        except KafkaException as problem:
            raise self._refusals.unreachable(self._client, problem) from problem
        resource = ConfigResource(ResourceType.BROKER, str(min(brokers)))
        asked = self._client.describe_configs([resource], request_timeout=self._limit_s)[resource]
        settings = self._answer(asked, "reading the settings of a broker", "DescribeConfigs on the cluster")
        return settings[name].value if name in settings else None

    # -- topics

    def describe_topics(
        self, names: Iterable[str], on_error: Callable[[str, KafkaFailed], None] = _RAISE, *, operations: bool = False
    ) -> dict[str, TopicInfo]:
        """Returns topic -> what Kafka says about it, and on request which `operations` are allowed. A topic that does
        not exist is an error: KafkaNotFound."""
        topics = sorted(set(names))
        if not topics:
            return {}
        try:
            asked = self._client.describe_topics(
                TopicCollection(topics), request_timeout=self._limit_s, include_authorized_operations=operations
            )
        except ValueError as problem:  # the client itself refuses some names, such as ""
            raise KafkaInvalid(f"describing {', '.join(topics)}: {problem}", str(problem)) from problem
        answers = self._answers(asked, lambda name: (f"describing topic {name}", f"Describe on topic {name}"), on_error)
        return {name: _topic_info(name, about) for name, about in answers.items()}

    def topic_configs(self, names: Iterable[str], always: Container[str] = ()) -> dict[str, dict[str, str]]:
        """Returns topic -> the configs of its own, and those in `always`, without topics that do not exist."""
        asked = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        if not asked:
            return {}
        answers = self._client.describe_configs(asked, request_timeout=self._limit_s)
        configs = self._answers(
            {resource.name: answer for resource, answer in answers.items()},
            lambda name: (f"reading the configs of topic {name}", f"DescribeConfigs on topic {name}"),
            leave_out(KafkaNotFound),
        )
        own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        return {
            name: {entry: config.value for entry, config in entries.items() if entry in always or config.source == own}
            for name, entries in configs.items()
        }

    def create_topic(self, name: str, partitions: int, replication: int, configs: Mapping[str, str]) -> bool:
        """Create a topic. False: there is one of this name already, which stays as it is."""
        new = NewTopic(name, num_partitions=partitions, replication_factor=replication, config=dict(configs))
        asked = self._client.create_topics([new], operation_timeout=self._limit_s, request_timeout=self._limit_s)
        try:
            self._answer(asked[name], f"creating topic {name}", f"Create on topic {name}, or on the cluster")
        except KafkaExists:
            return False
        return True

    def set_configs(self, topic: str, configs: Mapping[str, str], reset: Iterable[str] = ()) -> None:
        """Set some configs of a topic, and give others their default again; all others stay."""
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in configs.items()
        ]
        entries += [ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE) for name in reset]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        asked = self._client.incremental_alter_configs([resource], request_timeout=self._limit_s)
        self._answer(asked[resource], f"setting the configs of topic {topic}", f"AlterConfigs on topic {topic}")

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Raise a topic to `partitions` in total. It may have as many or more already."""
        asked = self._client.create_partitions(
            [NewPartitions(topic, partitions)], operation_timeout=self._limit_s, request_timeout=self._limit_s
        )
        try:
            self._answer(asked[topic], f"adding partitions to topic {topic}", f"Alter on topic {topic}")
        except KafkaFailed as problem:
            if problem.code != KafkaError.INVALID_PARTITIONS:  # it has as many or more by now
                raise

    def delete_topics(self, names: Iterable[str]) -> dict[str, KafkaFailed]:
        """Delete topics. Returns the error of each that was not deleted; KafkaNotFound: it was gone already."""
        topics, problems = sorted(set(names)), dict[str, KafkaFailed]()
        if topics:
            asked = self._client.delete_topics(topics, operation_timeout=self._limit_s, request_timeout=self._limit_s)
            self._answers(
                asked, lambda name: (f"deleting topic {name}", f"Delete on topic {name}"), problems.__setitem__
            )
        return problems

    # -- offsets of partitions

    def first_offsets(
        self,
        partitions: Iterable[TopicAndPartition],
        on_error: OnPartition = _RAISE,
    ) -> dict[TopicAndPartition, int]:
        """Returns the offset of the first record of each partition, or of the next one where there are none."""
        return self._offsets(partitions, OffsetSpec.earliest(), on_error)

    def end_offsets(
        self,
        partitions: Iterable[TopicAndPartition],
        on_error: OnPartition = _RAISE,
    ) -> dict[TopicAndPartition, int]:
        """Returns the offset after the last record of each partition."""
        return self._offsets(partitions, OffsetSpec.latest(), on_error)

    def ranges(self, topics: Collection[str]) -> dict[TopicAndPartition, tuple[int, int]]:
        """Returns the first offset and the end offset of each partition of those topics that exist."""
        existing, gone = self.cluster().topics, leave_out(KafkaNotFound)
        partitions = [(name, number) for name in topics if name in existing for number in existing[name]]
        starts, ends = self.first_offsets(partitions, gone), self.end_offsets(partitions, gone)
        return {partition: (starts[partition], end) for partition, end in ends.items() if partition in starts}

    def offsets_at(self, partitions: Iterable[TopicAndPartition], timestamp_ms: int) -> dict[TopicAndPartition, int]:
        """Returns the offset of the first record from this time on; -1 where there is none."""
        return self._offsets(partitions, OffsetSpec.for_timestamp(timestamp_ms), _RAISE)

    def newest_timestamps(self, partitions: Iterable[TopicAndPartition]) -> dict[TopicAndPartition, int]:
        """Returns the newest timestamp of the records of each partition, in milliseconds; -1 where there are none."""
        return {
            partition: info.timestamp
            for partition, info in self._listed(partitions, OffsetSpec.max_timestamp(), _RAISE)
        }

    def _offsets(
        self,
        partitions: Iterable[TopicAndPartition],
        spec: OffsetSpec,
        on_error: OnPartition,
    ) -> dict[TopicAndPartition, int]:
        return {partition: info.offset for partition, info in self._listed(partitions, spec, on_error)}

    def _listed(
        self,
        partitions: Iterable[TopicAndPartition],
        spec: OffsetSpec,
        on_error: OnPartition,
    ) -> list[tuple[TopicAndPartition, ListOffsetsResultInfo]]:
        specs = {TopicPartition(*partition): spec for partition in partitions}
        if not specs:
            return []
        asked = self._client.list_offsets(specs, request_timeout=self._limit_s)
        infos = self._answers(
            {(topic_partition.topic, topic_partition.partition): answer for topic_partition, answer in asked.items()},
            lambda partition: (f"looking up offsets of {partition[0]}", f"Describe on topic {partition[0]}"),
            on_error,
        )
        return list(infos.items())

    def group_ids(self) -> list[str]:
        """Returns the ids of all consumer groups."""
        asked = self._client.list_consumer_groups(request_timeout=self._limit_s)
        groups = self._answer(asked, "listing the consumer groups", "Describe on its groups")
        return sorted(group.group_id for group in groups.valid)

    # -- answers

    def _answers(
        self,
        asked: Mapping[K, Future[Any]],
        words: Callable[[K], tuple[str, str]],
        on_error: Callable[[K, KafkaFailed], None],
    ) -> dict[K, Any]:
        """Returns the answers by part of the request. `words`: for a part, what is done and the permission that it
        needs."""
        answers = {}
        for key, future in asked.items():
            try:
                answers[key] = self._answer(future, *words(key))
            except KafkaFailed as problem:
                on_error(key, problem)
        return answers

    def _answer(self, future: Future[Any], doing: str, acl: str) -> Any:
        try:
            answer = future.result(self._limit_s + LATER_S)
        except KafkaException as problem:
            failure = failed(doing, problem, acl)
            refused = self._refusals.reported(self._client) if isinstance(failure, KafkaUnavailable) else None
            raise (unanswered(doing, refused) if refused else failure) from problem
        except TimeoutError as problem:
            raise unanswered(doing, f"time limit of {self._limit_s:g} s") from problem
        if (client := self._made) is not None:
            self._refusals.reported(client)  # what was refused before does not matter any more
        return answer


def _topic_info(name: str, about: Any) -> TopicInfo:
    partitions = sorted(about.partitions, key=lambda partition: partition.id)
    return TopicInfo(
        name,
        topic_id(about.topic_id),
        tuple(partition.id for partition in partitions),
        tuple(len(partition.replicas) for partition in partitions),
        tuple(len(partition.isr) for partition in partitions),
        frozenset(authorized_operation.name for authorized_operation in about.authorized_operations or ()),
        tuple(_address(partition.leader) for partition in partitions),
    )


def _address(leader: Any) -> str | None:
    return None if leader is None else f"{leader.host}:{leader.port}"
