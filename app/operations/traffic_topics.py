"""Describes topics for the traffic job: their ids, and the first and last offsets of their partitions.

`analytics/traffic/topic_identity` decides from that whether a topic was deleted and created again.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from knative.errors import NotReadyError
from tables.kafka.admin.answers import TopicAndPartition, TopicInfo
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.errors import KafkaFailed, KafkaNotFound, KafkaNotYet, leave_out
from tables.timing import AGAIN_S, STORED_S

if TYPE_CHECKING:
    from analytics.traffic.topic_identity import TopicNow

_SLACK_S = 120.0  #: clocks differ, and a delta comes after the second that it counts: a span is read this much further


class KafkaTopics:
    """Describes topics of one Kafka. `describe` is an `analytics.traffic.topic_identity.TopicProbe`.

    With a time range (Unix seconds) the bounds are those of its records, by their timestamps.
    """

    def __init__(self, client: Mapping[str, Any], since_s: float | None = None, until_s: float | None = None) -> None:
        self._since_s, self._until_s = since_s, until_s
        self._admin = KafkaAdmin(client, STORED_S)  # long: without an answer the job computes its batch again

    def describe(self, topics: Collection[str], bounds: bool) -> Mapping[str, TopicNow]:
        """Returns the topics of these that exist; with `bounds` also their offsets. Raises NotReadyError."""
        from analytics.traffic.topic_identity import TopicNow

        try:
            infos = self._admin.describe_topics(topics, leave_out(KafkaNotFound))
            answers = {name: self._bounds(topic_info) if bounds else {} for name, topic_info in infos.items()}
        except KafkaFailed as problem:
            raise NotReadyError(
                f"Kafka at {self._admin.bootstrap} does not describe its topics ({problem.why}).",
                "Run the job again when Kafka answers. Nothing is lost, and nothing counts twice.",
            ) from problem
        return {name: TopicNow(infos[name].id, places) for name, places in answers.items() if places is not None}

    def _bounds(self, topic: TopicInfo) -> dict[int, tuple[int, int]] | None:
        """Returns first and last offset of each partition; None: the topic was removed meanwhile. Asks again while a
        partition has no leader, as for a moment after its broker has stopped."""
        places = [(topic.name, number) for number in topic.partitions]
        end = time.monotonic() + STORED_S
        while True:
            try:
                firsts, ends = self._admin.first_offsets(places), self._admin.end_offsets(places)
                firsts = firsts if self._since_s is None else self._at(self._since_s, ends)
                ends = ends if self._until_s is None else self._at(self._until_s + _SLACK_S, ends)
            except KafkaNotFound:
                return None
            except KafkaNotYet:
                if time.monotonic() > end:
                    raise
                time.sleep(AGAIN_S)
            else:
                return {number: (firsts[topic.name, number], ends[topic.name, number]) for number in topic.partitions}

    def _at(self, moment_s: float, ends: Mapping[TopicAndPartition, int]) -> dict[TopicAndPartition, int]:
        """Returns, for each partition, the offset of the first record that is not older than this time, or the end."""
        offsets = self._admin.offsets_at(ends, int(moment_s * 1000))
        return {place: offset if offset >= 0 else ends[place] for place, offset in offsets.items()}
