"""Creates, lists, deletes and identifies the topics of the demo. Does not change an existing topic.

A topic that was deleted and created again under its name is another topic, with another id. Offsets are stored under
that id, so that they never count for the new topic.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from knative.errors import PenstockError, UsageError
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.errors import KafkaFailed, KafkaInvalid, KafkaNotFound
from tables.kafka.topic_reader import NoSuchTopicError
from tables.timing import ANSWER_S, POLL_S

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
        return hashlib.sha256(self.id.encode()).hexdigest()[:8]


def results_app(instance: str, topic: Topic) -> str:
    """The name of the Faust app for a results topic: its consumer group, and the prefix of its changelog."""
    return f"{instance}-census-results-{topic.short_id}"


def changelogs(instance: str, topics: Sequence[Topic], there: Iterable[str]) -> list[str]:
    """Those of the topics `there` that are changelogs of tables that read `topics`."""
    begun = tuple(results_app(instance, one) + "-" for one in topics)
    return sorted(name for name in there if begun and name.startswith(begun))


@dataclass(frozen=True, slots=True)
class PartitionProgress:
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


TOPICS_EVERY_S = 5.0  #: between two looks whether the topics are still the same ones


class Topics:
    """Topics of one Kafka. Every method raises NotReadyError when it does not answer."""

    def __init__(self, kafka: Mapping[str, str]) -> None:
        """`kafka`: librdkafka client settings."""
        self._admin = KafkaAdmin(kafka, ANSWER_S)

    def names(self) -> list[str]:
        """Names of all topics except Kafka's own."""
        return sorted(name for name in self._admin.probe().topics if not name.startswith("__"))

    def describe(self, names: Sequence[str]) -> list[Topic]:
        """Describe these topics. Raises NoSuchTopicError if one does not exist."""
        self.names()  # raises a clear error when Kafka does not answer
        return [self._described(name) for name in names]

    def all(self) -> list[Topic]:
        """Describe all topics except Kafka's own."""
        found = []
        for name in self.names():
            with suppress(NoSuchTopicError):  # it was deleted meanwhile
                found.append(self._described(name))
        return found

    def _described(self, name: str) -> Topic:
        try:
            found = self._admin.describe_topics([name])[name]
        except KafkaInvalid as problem:
            raise UsageError(
                f"{name!r} is not a valid topic name.", "Use letters, digits, '.', '_' and '-', at most 249."
            ) from problem
        except KafkaNotFound as problem:
            raise NoSuchTopicError(
                f"There is no topic {name}.", "`penstock census read` creates it; `topiclist` lists all topics."
            ) from problem
        return Topic(name, found.id, len(found.partitions), max(found.replicas, default=0))

    def ensure(self, name: str, partitions: int, replicas: int, config: Mapping[str, str]) -> tuple[Topic, bool]:
        """The topic, created if it did not exist, and whether it was created now."""
        try:
            return self.describe([name])[0], False
        except NoSuchTopicError:
            self._create(name, partitions, replicas, config)
        end = time.monotonic() + ANSWER_S
        while True:
            try:
                return self._described(name), True
            except NoSuchTopicError:  # created, but not every broker knows it yet
                if time.monotonic() > end:
                    raise
            time.sleep(POLL_S)

    def _create(self, name: str, partitions: int, replicas: int, config: Mapping[str, str]) -> None:
        try:
            self._admin.create_topic(name, partitions, replicas, config)  # False: another process was faster
        except KafkaFailed as problem:
            raise PenstockError(
                f"Kafka did not create the topic {name} with {partitions} partitions and {replicas} replicas "
                f"({problem.why}).",
                "Choose others with --partitions and --replication-factor.",
            ) from problem

    def remove(self, names: Sequence[str]) -> dict[str, str]:
        """Delete topics. Returns topic -> reason for those that were not deleted."""
        return {name: problem.why for name, problem in self._admin.delete_topics(names).items()}

    def progress(self, topic: str) -> list[PartitionProgress]:
        """Every partition once for each group that has committed there, or once without a group."""
        partitions = range(self.describe([topic])[0].partitions)
        everywhere = [(topic, number) for number in partitions]
        starts, ends = self._admin.first_offsets(everywhere), self._admin.end_offsets(everywhere)
        spans = [(number, starts[topic, number], ends[topic, number]) for number in partitions]
        rows = []
        for group, committed in self._committed(topic).items():
            rows += [PartitionProgress(topic, *span, group, committed.get(span[0])) for span in spans]
        return rows or [PartitionProgress(topic, *span) for span in spans]

    def _committed(self, topic: str) -> dict[str, dict[int, int]]:
        """Group -> partition -> offset, for groups with commits in this topic."""
        found = {}
        for group, offsets in self._admin.groups.committed_by(dict.fromkeys(self._admin.group_ids())).items():
            mine = {number: one.offset for (name, number), one in offsets.items() if name == topic}
            if mine:
                found[group] = mine
        return found
