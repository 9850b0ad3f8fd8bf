"""The audit topic: what is written is what is read, and what others write there does no harm."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.operations.audit import AuditRecord, decode, encode
from knative.cloudevents.kafka_binding import to_request
from tables.kafka.topic_reader import StoredRecord


def _stored(value: bytes | None, time_ms: int = 1_500) -> StoredRecord:
    return StoredRecord("penstock.audit", 0, 0, time_ms, None, (), value)


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"])))
def test_record_is_an_event_and_is_read_again(who: str, what: str) -> None:
    headers, value = encode("penstock", AuditRecord(1.5, who, "redrive", what))
    assert to_request(b"POST / HTTP/1.1", headers, value)  # raises if it is not a CloudEvent
    assert decode(_stored(value)) == AuditRecord(1.5, who, "redrive", what)


@pytest.mark.parametrize("value", [None, b"", b"{", b"[]", b"7", b'{"who": 7}', b"\xff"])
def test_what_others_write_there_is_shown_as_far_as_it_can_be(value: bytes | None) -> None:
    record = decode(_stored(value))
    assert (record.time_s, record.act, record.what) == (1.5, "?", "?")
