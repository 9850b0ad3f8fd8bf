"""What each of Kafka's errors means, and what is said to the person who has to act on it."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from knative.errors import NotReadyError
from tables.kafka.errors import (
    KafkaDenied,
    KafkaExists,
    KafkaFailed,
    KafkaInvalid,
    KafkaNotFound,
    KafkaNotYet,
    KafkaUnavailable,
    failed,
    leave_out,
    unreachable,
)


@pytest.mark.parametrize(
    ("code", "kind", "exit_code", "ends_with"),
    [
        (KafkaError._TRANSPORT, KafkaUnavailable, 3, "creating topic t: Kafka does not answer (why)"),
        (KafkaError._TIMED_OUT, KafkaUnavailable, 3, "Kafka does not answer (why)"),
        (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaNotYet, 3, "creating topic t: why"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaNotFound, 1, "creating topic t: why"),
        (KafkaError._NOENT, KafkaNotFound, 1, "why"),
        (KafkaError.GROUP_ID_NOT_FOUND, KafkaNotFound, 1, "why"),
        (KafkaError.TOPIC_ALREADY_EXISTS, KafkaExists, 1, "why"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaDenied, 1, "why; grant Penstock Create on topic t"),
        (KafkaError.INVALID_REPLICATION_FACTOR, KafkaInvalid, 1, "or add brokers"),
        (KafkaError.TOPIC_EXCEPTION, KafkaInvalid, 1, "choose another name or topic template"),
        (KafkaError.UNKNOWN_MEMBER_ID, KafkaFailed, 1, "creating topic t: why"),
    ],
)
def test_each_error_has_one_meaning(code: int, kind: type[KafkaFailed], exit_code: int, ends_with: str) -> None:
    error = KafkaError(code, "why")
    for given in (error, KafkaException(error)):
        problem = failed("creating topic t", given, "Create on topic t")
        assert type(problem) is kind
        assert (problem.exit_code, problem.why) == (exit_code, "why")
        assert str(problem).endswith(ends_with)


def test_kafka_that_answers_nothing_comes_with_a_hint() -> None:
    problem = unreachable("host:9092", "connection refused")

    assert isinstance(problem, NotReadyError)
    assert problem.what == "Kafka at host:9092 does not answer (connection refused)."
    assert "penstock kafka up" in problem.hint


def test_only_the_named_kinds_are_left_out() -> None:
    check = leave_out(KafkaNotFound)
    check("t", KafkaNotFound("gone"))
    with pytest.raises(KafkaDenied):
        check("t", KafkaDenied("no"))
