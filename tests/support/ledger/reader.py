"""Reads facts out of Kafka from outside: what topics hold, what is dead-lettered, and every commit of a group.

Commits come from Kafka's own log of them (`__consumer_offsets`), so each one counts, not only those that a poll
happens to see. Reads only, as a consumer without a group; refuses to share code with the worker, or a fault of the
worker's mapping could hide here too.
"""

from __future__ import annotations

import base64
import struct
import time
import zlib
from collections.abc import Collection, Iterator
from operator import methodcaller

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tests.support.ledger.facts import Committed, Dead, Stored, body_hash

_headers = methodcaller("headers")
_OFFSETS_TOPIC = "__consumer_offsets"
_GROUP = "ledger-reader"
_LIMIT_S = 60.0
_OFFSET_COMMIT_KEYS = (0, 1)
_OFFSET_COMMIT_VALUES = (0, 1, 2, 3, 4)


def stored(bootstrap: str, topic: str) -> list[Stored]:
    """All records of a topic, as facts."""
    facts = []
    for message in records(bootstrap, topic):
        place, key = (_number(message.partition()), _number(message.offset())), _text(message.key())
        facts.append(Stored(topic, *place, header(message, "ce_id"), key, body_hash(_bytes(message.value()))))
    return facts


def dead(bootstrap: str, dlq_topic: str) -> list[Dead]:
    """All records of a DLQ topic, as facts."""
    facts = []
    for message in records(bootstrap, dlq_topic):
        event, reason = header(message, "ce_id"), header(message, "penstock-reason")
        place, time_s = header(message, "penstock-subscription"), message.timestamp()[1] / 1000
        facts.append(Dead(place, event, reason, time_s, body_hash(_bytes(message.value()))))
    return facts


def committed(bootstrap: str, groups: Collection[str]) -> list[Committed]:
    """Every commit of these groups that Kafka still holds, oldest first for each partition."""
    facts = []
    for message in records(bootstrap, _OFFSETS_TOPIC):
        key, value = _bytes(message.key()), _bytes(message.value())
        if key is not None and value is not None and (fact := decode_commit(key, value, groups)) is not None:
            facts.append(fact)
    return facts


def decode_commit(key: bytes, value: bytes, groups: Collection[str]) -> Committed | None:
    """One record of Kafka's offsets topic; None when it is not about an offset of one of these groups, whose metadata
    may be anybody's. Raises ValueError on a new schema."""
    if struct.unpack_from(">h", key)[0] not in _OFFSET_COMMIT_KEYS:
        return None
    group, position = _string(key, 2)
    if group not in groups:
        return None
    topic, position = _string(key, position)
    (partition,) = struct.unpack_from(">i", key, position)
    version, offset = struct.unpack_from(">hq", value)
    if version not in _OFFSET_COMMIT_VALUES:
        raise ValueError(f"offset commit value of version {version}: the reader knows {_OFFSET_COMMIT_VALUES}")
    metadata, position = (_compact_string if version >= 4 else _string)(value, 14 if version >= 3 else 10)
    (time_ms,) = struct.unpack_from(">q", value, position)
    return Committed(group, topic, partition, offset, time_ms / 1000, _settled(offset, metadata))


def _settled(base: int, metadata: str) -> list[int]:
    """The offsets that the metadata of a commit names as settled: a bit for each after `base`, behind their length."""
    if not metadata.startswith("p2:"):
        return []
    body = base64.b85decode(metadata[3:].rstrip("\0"))[2:]  # the worker ends it as librdkafka does
    raw = zlib.decompress(body[1:]) if body[:1] == b"z" else body[1:]
    length, at = _varint(raw, 0)
    return [base + 8 * n + b for n, byte in enumerate(raw[at : at + length]) for b in range(8) if byte >> b & 1]


def records(bootstrap: str, topic: str) -> Iterator[Message]:
    """All records from the start of a topic to the ends it has now. Raises TimeoutError."""
    end_s = time.monotonic() + _LIMIT_S
    whole = {"enable.partition.eof": True, "auto.offset.reset": "earliest", "fetch.message.max.bytes": 8 << 20}
    # The client requires a group; it is never joined.
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": _GROUP, "enable.auto.commit": False, **whole})
    try:
        description = consumer.list_topics(topic, timeout=_LIMIT_S).topics[topic]
        if description.error is not None:
            raise KafkaException(description.error)
        left = set(description.partitions)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in left])
        while left:
            message = consumer.poll(0.5)
            if message is None:
                if time.monotonic() > end_s:
                    raise TimeoutError(f"{topic}: partitions {sorted(left)} not read to their ends in {_LIMIT_S} s")
                continue
            error = message.error()
            if error is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(_number(message.partition()))
            elif error.code() != KafkaError._TRANSPORT:
                raise KafkaException(error)
    finally:
        consumer.close()


def header(message: Message, name: str) -> str:
    """The last header of this name as text; "" when there is none, or none can be read."""
    try:
        value = dict(_headers(message) or []).get(name)
    except (UnicodeDecodeError, SystemError):  # see knative/record_headers: a plain call would end the process
        return ""
    return value.decode() if isinstance(value, bytes) else value or ""


def ends(bootstrap: str, topic: str) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": _GROUP})
    try:
        partitions = consumer.list_topics(topic, timeout=_LIMIT_S).topics[topic].partitions
        return {p: consumer.get_watermark_offsets(TopicPartition(topic, p), _LIMIT_S)[1] for p in partitions}
    finally:
        consumer.close()


def position(bootstrap: str, group: str, topic: str, partitions: int) -> dict[int, int]:
    """The offset a group has committed now, by partition; partitions without one are left out."""
    consumer, end_s = Consumer({"bootstrap.servers": bootstrap, "group.id": group}), time.monotonic() + _LIMIT_S
    asked = [TopicPartition(topic, partition) for partition in range(partitions)]
    try:
        while True:
            try:
                places = consumer.committed(asked, _LIMIT_S)
                return {place.partition: place.offset for place in places if place.offset >= 0}
            except KafkaException as problem:  # the client asks again only when it has heard of a new coordinator
                if problem.args[0].code() != KafkaError.NOT_COORDINATOR or time.monotonic() > end_s:
                    raise
                time.sleep(0.1)
    finally:
        consumer.close()


def _string(data: bytes, position: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", data, position)
    start = position + 2
    return data[start : start + max(length, 0)].decode(), start + max(length, 0)


def _compact_string(data: bytes, position: int) -> tuple[str, int]:
    """Kafka's newer strings: behind their length plus one."""
    length, position = _varint(data, position)
    end = position + max(length - 1, 0)
    return data[position:end].decode(), end


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """A number, seven bits a byte, lowest first; and where it ends."""
    number = shift = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, position


def _number(value: int | None) -> int:
    assert value is not None, "a record without an error has its place"
    return value


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _text(value: str | bytes | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else value
