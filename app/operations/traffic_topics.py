"""Describes topics for the traffic job: their ids, and the first and last offsets of their partitions.

`analytics/traffic/topic_identity` decides from that whether a topic was deleted and created again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from knative.contract.kafka_names import topic_id
from knative.errors import NotReadyError

if TYPE_CHECKING:
    from analytics.traffic.topic_identity import TopicNow

_LIMIT_S = 30.0  #: long, because without an answer the job has to compute its batch again
_LATER_S = 5.0  #: added, so that the client's own time-out error comes first


class KafkaTopics:
    """Describes topics of one Kafka. `describe` is an `analytics.traffic.topic_identity.TopicProbe`."""

    def __init__(self, client: Mapping[str, Any]) -> None:
        self._bootstrap = str(client["bootstrap.servers"])
        self._admin = AdminClient({"log_level": 0, **client})

    def describe(self, topics: Collection[str], bounds: bool) -> Mapping[str, TopicNow]:
        """The topics of these that exist; with `bounds` also their offsets. Raises NotReadyError."""
        from analytics.traffic.topic_identity import TopicNow

        found: dict[str, TopicNow] = {}
        if not topics:
            return found
        asked = self._admin.describe_topics(TopicCollection(list(topics)), request_timeout=_LIMIT_S)
        for topic, answer in asked.items():
            try:
                about = answer.result(_LIMIT_S + _LATER_S)
            except (KafkaException, TimeoutError) as problem:
                if _code(problem) == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    continue
                raise self._away(problem) from problem
            partitions = [TopicPartition(topic, one.id) for one in about.partitions]
            found[topic] = TopicNow(topic_id(about.topic_id), self._bounds(partitions) if bounds else {})
        return found

    def _bounds(self, partitions: Collection[TopicPartition]) -> dict[int, tuple[int, int]]:
        firsts, ends = self._offsets(partitions, OffsetSpec.earliest()), self._offsets(partitions, OffsetSpec.latest())
        return {number: (firsts[number], ends[number]) for number in ends}

    def _offsets(self, partitions: Collection[TopicPartition], spec: OffsetSpec) -> dict[int, int]:
        try:
            asked = self._admin.list_offsets(dict.fromkeys(partitions, spec), request_timeout=_LIMIT_S)
            return {place.partition: answer.result(_LIMIT_S + _LATER_S).offset for place, answer in asked.items()}
        except (KafkaException, TimeoutError) as problem:
            raise self._away(problem) from problem

    def _away(self, problem: Exception) -> NotReadyError:
        why = problem.args[0].str() if isinstance(problem, KafkaException) else "no answer in time"
        return NotReadyError(
            f"Kafka at {self._bootstrap} does not describe its topics ({why}).",
            "Start again when it answers: nothing is lost and nothing counts twice.",
        )


def _code(problem: Exception) -> int | None:
    return problem.args[0].code() if isinstance(problem, KafkaException) else None
