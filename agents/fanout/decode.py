"""Turns what a librdkafka client returns into ranges of the log, for one reader of many members."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, Message

from agents.consumer.memory_budget import record_bytes
from agents.fanout.ranges import Range, Record
from agents.ordering.partition import PartitionState
from knative.cloudevents.record_headers import record_headers


@dataclass(frozen=True, slots=True)
class Decoded:
    """The result of one fetch. A range continues where the one before it ended."""

    ranges: list[Range] = field(default_factory=list)
    out_of_range: list[int] = field(default_factory=list)  #: partitions whose position is not in the log
    errors: list[KafkaError] = field(default_factory=list)


def decode(messages: list[Message], heads: Mapping[int, PartitionState]) -> Decoded:
    """`heads`: the partitions that are read; the tracker of each has the position. Its `fetched` becomes the end of the
    new range. A log may end in offsets without records: then only the end that is reached says so."""
    found = Decoded()
    records: dict[int, list[Record]] = {}
    ends: dict[int, int] = {}
    for message in messages:
        number = message.partition()
        head = heads.get(number) if number is not None else None
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                if head is not None:  # None: revoked meanwhile
                    ends[head.number] = max(ends.get(head.number, 0), message.offset() or 0)
            elif error.code() == KafkaError._AUTO_OFFSET_RESET and head is not None:
                found.out_of_range.append(head.number)
            else:
                found.errors.append(error)
        elif head is not None:
            key, value, headers = message.key(), message.value(), record_headers(message)
            offset: int = message.offset()  # type: ignore[assignment]  # records have one
            size = record_bytes(key, value, headers)
            one = Record(offset, key, value, headers, size, message.timestamp()[1])
            records.setdefault(head.number, []).append(one)
            ends[head.number] = max(ends.get(head.number, 0), offset + 1)
    for number, end in ends.items():
        head = heads[number]
        start = head.tracker.fetched
        # The client may return records below the position after it was assigned again: every member has them.
        if end > start:
            fresh = [record for record in records.get(number, ()) if record.offset >= start]
            found.ranges.append(Range(number, start, end, fresh))
            head.tracker.fetched = end
            head.fetched_count += len(fresh)
    return found
