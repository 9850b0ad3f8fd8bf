"""Creates, lists, deletes and identifies the topics of the demo. Does not change an existing topic.

A topic that was deleted and created again under its name is another topic, with another id. Offsets are stored under
that id, so that they never count for the new topic.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import NewTopic

from app.operations.topic_reader import NoSuchTopicError
from app.worker.kafka_probe import refusal
from knative.errors import NotReadyError, PenstockError, UsageError

_LIMIT_S = 15.0
_ANSWER_S = 8.0  #: time after which Kafka counts as unreachable
_POLL_S = 0.1
_NAME_CHARS = 8

#: Without a limit, because totals are computed from the records again after a restart.
KEPT = {"retention.ms": "-1"}


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic. It gets another `id` when it is created again."""

    name: str
    id: str
    partitions: int
    replicas: int

    @property
    def short_id(self) -> str:
        """For names of groups and folders."""
        return hashlib.sha256(self.id.encode()).hexdigest()[:_NAME_CHARS]


def results_app(instance: str, topic: Topic) -> str:
    """The name of the Faust app for a results topic: its consumer group, and the prefix of its changelog."""
    return f"{instance}-census-results-{topic.short_id}"


def changelogs(instance: str, topics: Sequence[Topic], there: Iterable[str]) -> list[str]:
    """Those of the topics `there` that are changelogs of tables that read `topics`."""
    begun = tuple(results_app(instance, one) + "-" for one in topics)
    return sorted(name for name in there if begun and name.startswith(begun))


@dataclass(frozen=True, slots=True)
class Place:
    """One partition, and the progress of one consumer group. `committed` None: no group has committed there."""

    topic: str
    partition: int
    start: int
    end: int
    reader: str = ""
    committed: int | None = None

    @property
    def lag(self) -> int:
        """Records from the committed offset, or the start, to the end."""
        return self.end - max(self.start, self.committed or 0)


def _no_name(name: str) -> UsageError:
    return UsageError(f"{name!r} is not a valid topic name.", "Use letters, digits, '.', '_' and '-', at most 249.")


class Topics:
    """Topics of one Kafka. Every method raises NotReadyError when it does not answer."""

    def __init__(self, kafka: Mapping[str, str]) -> None:
        """`kafka`: librdkafka client settings."""
        self._bootstrap = kafka["bootstrap.servers"]
        self._admin = AdminClient({"log_level": 0, **kafka})

    def names(self) -> list[str]:
        """Names of all topics except Kafka's own."""
        if refused := refusal(self._bootstrap):
            raise self._away(refused)
        try:
            found = self._admin.list_topics(timeout=_ANSWER_S).topics
        except KafkaException as problem:
            raise self._away(problem.args[0].str()) from problem
        return sorted(name for name in found if not name.startswith("__"))

    def describe(self, names: Sequence[str]) -> list[Topic]:
        """Describe these topics. Raises NoSuchTopicError if one does not exist."""
        self.names()  # raises a clear error when Kafka does not answer
        return [self._described(name) for name in names]

    def _described(self, name: str) -> Topic:
        try:
            asked = self._admin.describe_topics(TopicCollection([name]), request_timeout=_LIMIT_S)
            found = asked[name].result(_LIMIT_S)
        except KafkaException as problem:
            if problem.args[0].code() == KafkaError.TOPIC_EXCEPTION:
                raise _no_name(name) from problem
            if problem.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise NoSuchTopicError(
                    f"There is no topic {name}.", "`penstock census read` creates it; `topiclist` lists all topics."
                ) from problem
            raise self._away(problem.args[0].str()) from problem
        except ValueError as problem:
            raise _no_name(name) from problem
        replicas = max((len(partition.replicas) for partition in found.partitions), default=0)
        return Topic(name, str(found.topic_id), len(found.partitions), replicas)

    def ensure(self, name: str, partitions: int, replicas: int, config: Mapping[str, str]) -> tuple[Topic, bool]:
        """The topic, created if it did not exist, and whether it was created now."""
        try:
            return self.describe([name])[0], False
        except NoSuchTopicError:
            self._create(name, partitions, replicas, config)
        end = time.monotonic() + _LIMIT_S
        while True:
            try:
                return self._described(name), True
            except NoSuchTopicError:  # created, but not every broker knows it yet
                if time.monotonic() > end:
                    raise
            time.sleep(_POLL_S)

    def _create(self, name: str, partitions: int, replicas: int, config: Mapping[str, str]) -> None:
        wanted = NewTopic(name, partitions, replicas, config=dict(config))
        try:
            self._admin.create_topics([wanted], operation_timeout=_LIMIT_S)[name].result(2 * _LIMIT_S)
        except KafkaException as problem:
            if problem.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:  # another process was faster
                return
            raise PenstockError(
                f"Kafka did not create the topic {name} with {partitions} partitions and {replicas} replicas "
                f"({problem.args[0].str()}).",
                "Choose others with --partitions and --replication-factor.",
            ) from problem

    def remove(self, names: Sequence[str]) -> dict[str, str]:
        """Delete topics. Returns topic -> reason for those that were not deleted."""
        problems = {}
        for name, done in self._admin.delete_topics(list(names), operation_timeout=_LIMIT_S).items():
            try:
                done.result(2 * _LIMIT_S)
            except KafkaException as problem:
                problems[name] = problem.args[0].str()
        return problems

    def places(self, topic: str) -> list[Place]:
        """Every partition once for each group that has committed there, or once without a group."""
        partitions = range(self.describe([topic])[0].partitions)
        starts = self._offsets(topic, partitions, OffsetSpec.earliest())
        ends = self._offsets(topic, partitions, OffsetSpec.latest())
        rows = []
        for group, committed in self._committed(topic).items():
            rows += [Place(topic, p, starts[p], ends[p], group, committed.get(p)) for p in partitions]
        return rows or [Place(topic, p, starts[p], ends[p]) for p in partitions]

    def _offsets(self, topic: str, partitions: range, spec: OffsetSpec) -> dict[int, int]:
        asked = {TopicPartition(topic, number): spec for number in partitions}
        try:
            found = self._admin.list_offsets(asked, request_timeout=_LIMIT_S)
            return {place.partition: done.result(_LIMIT_S).offset for place, done in found.items()}
        except KafkaException as problem:
            raise self._away(problem.args[0].str()) from problem

    def _committed(self, topic: str) -> dict[str, dict[int, int]]:
        """Group -> partition -> offset, for groups with commits in this topic."""
        found: dict[str, dict[int, int]] = {}
        try:
            groups = self._admin.list_consumer_groups(request_timeout=_LIMIT_S).result(_LIMIT_S).valid
            for group in sorted(one.group_id for one in groups):
                asked = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
                places = asked[group].result(_LIMIT_S).topic_partitions or []
                mine = {p.partition: p.offset for p in places if p.topic == topic and p.offset >= 0}
                if mine:
                    found[group] = mine
        except KafkaException as problem:
            raise self._away(problem.args[0].str()) from problem
        return found

    def _away(self, why: str) -> NotReadyError:
        return NotReadyError(
            f"Kafka at {self._bootstrap} does not answer ({why}).",
            "Start one with `penstock kafka up`, or name yours: --kafka HOST:PORT.",
        )
