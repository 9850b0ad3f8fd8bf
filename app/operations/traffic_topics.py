"""Describes topics for the traffic job: their ids, and the first and last offsets of their partitions.

`analytics/traffic/topic_identity` decides from that whether a topic was deleted and created again.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from knative.errors import NotReadyError
from tables.kafka.admin.answers import TopicInfo
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.errors import KafkaFailed, KafkaNotFound, KafkaNotYet, leave_out
from tables.timing import AGAIN_S, STORED_S

if TYPE_CHECKING:
    from analytics.traffic.topic_identity import TopicNow


class KafkaTopics:
    """Describes topics of one Kafka. `describe` is an `analytics.traffic.topic_identity.TopicProbe`."""

    def __init__(self, client: Mapping[str, Any]) -> None:
        self._admin = KafkaAdmin(client, STORED_S)  # long: without an answer the job computes its batch again

    def describe(self, topics: Collection[str], bounds: bool) -> Mapping[str, TopicNow]:
        """The topics of these that exist; with `bounds` also their offsets. Raises NotReadyError."""
        from analytics.traffic.topic_identity import TopicNow

        try:
            found = self._admin.describe_topics(topics, leave_out(KafkaNotFound))
            answers = {name: self._bounds(one) if bounds else {} for name, one in found.items()}
        except KafkaFailed as problem:
            raise NotReadyError(
                f"Kafka at {self._admin.bootstrap} does not describe its topics ({problem.why}).",
                "Start again when it answers: nothing is lost and nothing counts twice.",
            ) from problem
        return {name: TopicNow(found[name].id, places) for name, places in answers.items() if places is not None}

    def _bounds(self, topic: TopicInfo) -> dict[int, tuple[int, int]] | None:
        """First and last offset of each partition; None: the topic was removed meanwhile. Asks again while a partition
        has no leader, as for a moment after its broker has stopped."""
        places = [(topic.name, number) for number in topic.partitions]
        end = time.monotonic() + STORED_S
        while True:
            try:
                firsts, ends = self._admin.first_offsets(places), self._admin.end_offsets(places)
            except KafkaNotFound:
                return None
            except KafkaNotYet:
                if time.monotonic() > end:
                    raise
                time.sleep(AGAIN_S)
            else:
                return {number: (firsts[topic.name, number], ends[topic.name, number]) for number in topic.partitions}
