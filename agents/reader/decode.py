"""Turns what a librdkafka client returns into ranges of the log, for one reader of many members."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, Message

from agents.offsets.partition import Delivery, PartitionState
from agents.reader.memory_budget import record_bytes
from agents.reader.ranges import Range, Record
from knative.cloudevents.record_headers import record_headers

_END, _NO_POSITION = KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET
#: Errors of a partition that mean nothing once it is not owned any more.
_OF_PARTITION = (_END, _NO_POSITION)


@dataclass(slots=True)
class Decoded:
    """The result of one fetch. A range continues where the one before it ended."""

    ranges: list[Range] = field(default_factory=list)
    out_of_range: list[int] = field(default_factory=list)  #: partitions whose position is not in the log
    errors: list[KafkaError] = field(default_factory=list)
    size: int = 0  #: of all records, in bytes


class _Log:
    """What one fetch has of one partition."""

    __slots__ = ("end", "head", "owner", "records", "size", "start")

    def __init__(self, head: PartitionState, owner: PartitionState | None) -> None:
        self.head = head
        self.owner = owner
        self.start = self.end = head.tracker.fetched
        self.records: list[Any] = []  # of one kind: see `Range`
        self.size = 0


def decode(
    messages: list[Message],
    heads: Mapping[int, PartitionState],
    lone: Callable[[int], PartitionState | None] = lambda _: None,
) -> Decoded:
    """`heads`: the partitions that are read; the tracker of each has the position. Its `fetched` becomes the end of the
    new range. A log may end in offsets without records: then only the end that is reached says so. `lone(number)`: for
    whom alone the partition is read, if that wants all events; the records are then its deliveries."""
    decoded = Decoded()
    logs: dict[int, _Log] = {}
    # The hot path of the thread: one loop, and no call per record that can be avoided.
    for message in messages:
        number = message.partition()
        log = logs.get(number)  # type: ignore[arg-type]  # None is no key
        error = message.error()
        if log is None:
            head = heads.get(number) if number is not None else None
            if head is None:  # an error of the client, or revoked meanwhile
                if error is not None and error.code() not in _OF_PARTITION:
                    decoded.errors.append(error)
                continue
            if error is not None and error.code() == _END and (message.offset() or 0) <= head.tracker.fetched:
                continue  # it ends at its last record, as after each record that comes alone
            logs[head.number] = log = _Log(head, lone(head.number))
        if error is not None:
            if error.code() == _END:
                log.end = max(log.end, message.offset() or 0)
            elif error.code() == _NO_POSITION:
                decoded.out_of_range.append(log.head.number)
            else:
                decoded.errors.append(error)
            continue
        offset: int = message.offset()  # type: ignore[assignment]  # records have one
        if offset < log.end:  # after it was assigned again, the client may return records from before
            continue
        key, value, headers = message.key(), message.value(), record_headers(message)
        size = record_bytes(key, value, headers)
        log.size += size
        log.end = offset + 1
        if log.owner is None:
            log.records.append(Record(offset, key, value, headers, size, message.timestamp()[1]))
        else:
            log.records.append(Delivery(log.owner, offset, key, value, headers, size, message.timestamp()[1]))
    for log in logs.values():
        if log.end > log.start:
            decoded.ranges.append(Range(log.head.number, log.start, log.end, log.records, log.size, log.owner))
            decoded.size += log.size
            log.head.tracker.fetched = log.end
            log.head.fetched_count += len(log.records)
    return decoded
