"""What is read from the objects of the Kafka client."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import TopicPartition

from tables.kafka.admin.answers import metadata_of


class _Unreadable:
    @property
    def metadata(self) -> str:
        return b"p2:\xff".decode()


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (TopicPartition("t", 0, 1, "p2:x"), "p2:x"),
        (TopicPartition("t", 0, 1), None),
        (_Unreadable(), None),
    ],
    ids=["text", "none", "what is not text"],
)
def test_metadata(one: Any, expected: str | None) -> None:
    assert metadata_of(one) == expected
