"""The ends of a topic while its leader changes: a real Kafka answers so for milliseconds only."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from confluent_kafka import KafkaError

from app.operations import traffic_topics
from app.operations.traffic_topics import KafkaTopics
from knative.errors import NotReadyError
from tables.kafka.admin.answers import TopicAndPartition, TopicInfo
from tables.kafka.errors import failed


class Answers:
    """An administration client whose answers are given: the code of an error, or 0."""

    bootstrap = "k:9092"

    def __init__(self, *codes: int) -> None:
        self._codes = list(codes)

    def describe_topics(self, names: Iterable[str], _on_error: object) -> dict[str, TopicInfo]:
        """One partition each."""
        return {name: TopicInfo(name, "id", (0,), (1,), (1,)) for name in names}

    def first_offsets(self, places: Iterable[TopicAndPartition]) -> dict[TopicAndPartition, int]:
        """3, unless an error is next."""
        code = self._codes.pop(0)
        if code:
            raise failed("looking up offsets of t", KafkaError(code))
        return dict.fromkeys(places, 3)

    def end_offsets(self, places: Iterable[TopicAndPartition]) -> dict[TopicAndPartition, int]:
        """7."""
        return dict.fromkeys(places, 7)

    def offsets_at(self, places: Iterable[TopicAndPartition], timestamp_ms: int) -> dict[TopicAndPartition, int]:
        """One record in each second."""
        return dict.fromkeys(places, timestamp_ms // 1000 if timestamp_ms < 7000 else -1)


def bounds_of(*codes: int) -> object:
    topics = KafkaTopics({})
    topics._admin = Answers(*codes)  # type: ignore[assignment]
    return topics.describe(["t"], True)["t"].bounds


def test_bounds_are_asked_for_again_while_the_leader_changes() -> None:
    codes = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, 0)
    assert bounds_of(*codes) == {0: (3, 7)}


def test_bounds_are_asked_for_until_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic_topics, "STORED_S", -1.0)
    with pytest.raises(NotReadyError):
        bounds_of(KafkaError.NOT_LEADER_FOR_PARTITION)


def test_other_errors_are_raised_at_once() -> None:
    with pytest.raises(NotReadyError):
        bounds_of(KafkaError.TOPIC_AUTHORIZATION_FAILED, 0)


def test_bounds_of_a_time_range() -> None:
    "From the first record of then or later; where there is none, the end."
    topics = KafkaTopics({}, 5.0, 880.0)
    topics._admin = Answers(0)  # type: ignore[assignment]

    assert topics.describe(["t"], True)["t"].bounds == {0: (5, 7)}
