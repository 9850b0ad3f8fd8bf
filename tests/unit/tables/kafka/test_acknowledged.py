"""What counts as stored."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, Message

from tables.kafka.acknowledged import not_stored

_REFUSED = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)


@pytest.mark.parametrize(
    ("error", "offset", "code"),
    [
        (None, 0, None),
        (None, 7, None),
        (None, -1001, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER),  # librdkafka: no offset
        (None, -1, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (_REFUSED, 7, _REFUSED.code()),
        (_REFUSED, -1001, _REFUSED.code()),
    ],
)
def test_only_what_has_an_offset_and_no_error(error: KafkaError | None, offset: int, code: int | None) -> None:
    problem = not_stored(error, Message(topic="t", partition=0, offset=offset))
    assert (None if problem is None else problem.code()) == code
    assert problem is None or not problem.fatal()
