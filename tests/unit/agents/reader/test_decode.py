"""What becomes of the records and the ends of partitions that one fetch returns."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, Message

from agents.offsets.offset_tracker import OffsetTracker
from agents.offsets.partition import PartitionState
from agents.reader.decode import decode
from agents.reader.memory_budget import record_bytes

AT = 100  #: where partitions 0 and 1 are read


def _record(partition: int, offset: int, value: bytes = b"x") -> Message:
    return Message(topic="t", partition=partition, offset=offset, value=value, timestamp=(1, 5))


def _end(partition: int, offset: int) -> Message:
    return Message(topic="t", partition=partition, offset=offset, error=KafkaError(KafkaError._PARTITION_EOF))


@pytest.mark.parametrize(
    ("messages", "ranges"),
    [
        ([_record(0, 100), _record(0, 101)], [(0, 100, 102, [100, 101])]),
        ([_record(0, 103)], [(0, 100, 104, [103])]),  # a compacted log
        ([_end(1, 100), _record(0, 100)], [(0, 100, 101, [100])]),  # the end behind the record before
        ([_end(1, 102)], [(1, 100, 102, [])]),  # markers of a transaction
        ([_record(0, 100), _end(0, 102)], [(0, 100, 102, [100])]),
        ([_record(0, 99)], []),
        ([_record(7, 5), _end(7, 6)], []),  # revoked meanwhile
    ],
)
def test_ranges_reach_to_the_last_record_or_the_end(
    messages: list[Message], ranges: list[tuple[int, int, int, list[int]]]
) -> None:
    heads = {number: PartitionState("t", number, OffsetTracker(AT)) for number in range(2)}
    decoded = decode(messages, heads)
    assert [(r.number, r.start, r.end, [record.offset for record in r.records]) for r in decoded.ranges] == ranges
    ends = {number: end for number, _, end, _ in ranges}
    assert {number: head.tracker.fetched for number, head in heads.items()} == {0: AT, 1: AT} | ends


def test_size_is_that_of_all_records() -> None:
    heads = {number: PartitionState("t", number, OffsetTracker(AT)) for number in range(2)}
    decoded = decode([_record(0, 100, b"four"), _record(1, 100, b"seventy")], heads)
    assert decoded.size == record_bytes(None, b"four", []) + record_bytes(None, b"seventy", [])


def test_nobody_is_asked_about_an_end_that_is_known() -> None:
    """There is one behind each record that comes alone."""
    heads = {0: PartitionState("t", 0, OffsetTracker(AT))}
    asked: list[int] = []
    assert not decode([_end(0, AT)], heads, asked.append).ranges
    assert not asked
