"""The range of a partition while its leader changes: a real Kafka answers so for milliseconds only."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tables.kafka.topic_reader import TopicReader


class Answers:
    """A consumer whose answers are given."""

    def __init__(self, *answers: int | tuple[int, int]) -> None:
        self._answers = list(answers)

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:
        """The next answer; a number is the code of an error."""
        answer = self._answers.pop(0)
        if isinstance(answer, int):
            raise KafkaException(KafkaError(answer))
        return answer


def range_of(*answers: int | tuple[int, int], limit_s: float = 180.0) -> tuple[int, int]:
    reader = TopicReader.__new__(TopicReader)
    reader._consumer, reader._limit_s = Answers(*answers), limit_s  # type: ignore[assignment]
    return reader._range(TopicPartition("t", 0))


def test_range_is_asked_for_again_while_the_leader_changes() -> None:
    assert range_of(KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, (3, 7)) == (3, 7)


def test_range_is_asked_for_until_the_limit() -> None:
    with pytest.raises(KafkaException):
        range_of(*[KafkaError.NOT_LEADER_FOR_PARTITION] * 2, limit_s=-1.0)


def test_other_errors_are_raised_at_once() -> None:
    with pytest.raises(KafkaException):
        range_of(KafkaError.TOPIC_AUTHORIZATION_FAILED, (3, 7))
