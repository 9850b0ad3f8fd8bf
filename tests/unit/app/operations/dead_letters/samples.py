"""A dead letter for tests."""

from __future__ import annotations

import base64

from app.operations.dead_letters.letters import DeadLetter
from tables.kafka.topic_reader import StoredRecord

ORIGINAL = (("ce_id", b"1"), ("ce_type", b"t"), ("content-type", b"text/plain"), ("traceparent", b"00-1-2-01"))


def dead_letter(
    subscription: str = "ns/a",
    reason: str = "the answer was 503",
    time_ms: int = 5_000,
    offset: int = 0,
    uid: str = "u",
    topic: str = "t.dlq",
    data: bytes = b"busy",
) -> DeadLetter:
    added: tuple[tuple[str, bytes | None], ...] = (
        ("ce_knativeerrordest", b"http://x/"), ("CE_KnativeErrorData", base64.b64encode(data)),
        ("penstock-subscription", subscription.encode()), ("penstock-subscription-uid", uid.encode()),
        ("Penstock-Reason", reason.encode()), ("penstock-attempts", b"3"),
    )  # fmt: skip
    return DeadLetter(StoredRecord(topic, 2, offset, time_ms, b"k", (*ORIGINAL, *added), b"data"))
