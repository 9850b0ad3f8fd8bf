"""Records of Kafka as the values that pages show."""

from __future__ import annotations

import pytest

from app.operations.console.values import event_of
from tables.kafka.topic_reader import StoredRecord


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("topic", ["t", "t.dlq"])
def test_destination_is_shown_without_its_password(topic: str, whole: bool) -> None:
    headers = (("ce_id", b"1"), ("ce_knativeerrordest", b"http://anna:secret@billing/in?token=secret"))
    event = event_of(StoredRecord(topic, 0, 3, 0, None, headers, b"data"), whole=whole)

    assert event.attributes["id"] == "1"
    assert event.attributes["knativeerrordest"].startswith("http://")
    assert "secret" not in event.attributes["knativeerrordest"]
