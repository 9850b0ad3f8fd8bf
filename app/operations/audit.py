"""The audit topic `<instance>.audit`: what people did in the console, as CloudEvents, for `penstock tail --topic`.

    who, when, what --stored--> the act begins --> how it ended, in a record of its own

An act whose record cannot be stored is not carried out.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from controller.kafka.internal_topics import ensure_audit
from knative import timefmt
from knative.contract.kafka_names import audit_topic
from knative.errors import NotReadyError
from knative.ports import Headers, Produce
from knative.produce import send
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.errors import KafkaFailed
from tables.kafka.loop_thread import call_in_thread
from tables.kafka.topic_reader import NoSuchTopicError, StoredRecord, TopicReader
from tables.timing import ANSWER_S, LATER_S

_TYPE = "dev.penstock.console."


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One act of a person, or how it ended."""

    time_s: float
    who: str
    act: str  #: redrive, seek, send ...
    what: str  #: the object of the act, or its result


def encode(instance: str, record: AuditRecord) -> tuple[Headers, bytes]:
    """Returns headers and value of a record."""
    headers = [
        ("ce_specversion", b"1.0"),
        ("ce_id", str(uuid.uuid4()).encode()),
        ("ce_source", f"/penstock/console/{instance}".encode()),
        ("ce_type", f"{_TYPE}{record.act}".encode()),
        ("ce_time", timefmt.in_milliseconds(record.time_s).encode()),
        ("content-type", b"application/json"),
    ]
    return headers, orjson.dumps({"who": record.who, "act": record.act, "what": record.what})


def decode(record: StoredRecord) -> AuditRecord:
    """Returns what a record says. Others may have written it: what it does not say is "?"."""
    try:
        fields = orjson.loads(record.value or b"{}")
    except orjson.JSONDecodeError:
        fields = {}
    if not isinstance(fields, dict):
        fields = {}
    who, act, what = (str(fields.get(name, "?")) for name in ("who", "act", "what"))
    return AuditRecord(record.timestamp_ms / 1000, who, act, what)


class Audit:
    """The audit topic of an installation. `record` is for the event loop, `newest` for a thread."""

    def __init__(self, produce: Produce, kafka: Mapping[str, Any], instance: str, replication: int) -> None:
        """`kafka`: librdkafka client settings; `replication`: of the topic, when it is created."""
        self.topic = audit_topic(instance)
        self._produce, self._kafka, self._instance, self._replication = produce, kafka, instance, replication
        self._exists = False

    async def record(self, who: str, act: str, what: str) -> None:
        """Store that this person does this now. Raises NotReadyError if it is not stored."""
        problem = await self._store(AuditRecord(time.time(), who, act, what))
        if problem is not None:
            raise NotReadyError(
                f"The audit record could not be stored ({problem}).", "The command was not carried out. Try again."
            )

    async def _store(self, record: AuditRecord) -> str | None:
        if not self._exists:
            try:
                await call_in_thread(self._ensure, ANSWER_S + LATER_S, "audit-topic")
            except (KafkaFailed, TimeoutError) as problem:
                return str(problem) or "Kafka does not answer"
            self._exists = True
        headers, value = encode(self._instance, record)
        failure = await send(self._produce, self.topic, value, None, headers)
        return None if failure is None else failure.message

    def _ensure(self) -> None:
        admin = KafkaAdmin(self._kafka, ANSWER_S)
        try:
            ensure_audit(admin, self.topic, self._replication)
        finally:
            admin.close()

    def newest(self, count: int) -> list[AuditRecord]:
        """Returns the last records, the newest first. Blocks. Raises NotReadyError, PenstockError."""
        try:
            with TopicReader(self.topic, self._kafka) as reader:
                return [decode(record) for record in reader.stored(count)][::-1]
        except NoSuchTopicError:
            return []
