"""Counts the dead letters of each subscription that are not redriven. Reads each letter once.

The subscriptions of a channel share its DLQ topic, so its length is not enough. Each letter takes twelve bytes of
memory: its offset and its subscription.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from app.operations.dead_letters.ledger import Ledger, read_ledger
from tables.kafka.admin.answers import TopicAndPartition
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.topic_reader import NoSuchTopicError, StoredRecord, TopicReader
from tables.timing import ANSWER_S

ROUND_MAX = 20_000  #: letters read by one call: limits the CPU time that the event loop has to share
LETTERS_MAX = 1_000_000  #: in memory; further ones are not counted
_OWNER = "penstock-subscription"


class Letters:
    """Offsets and subscriptions of dead letters, by partition. Pure."""

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        self._by_number: list[str] = []  # the same names
        self._held: dict[TopicAndPartition, tuple[array[int], array[int]]] = {}  # offsets, owners
        self._next: dict[TopicAndPartition, int] = {}

    def __len__(self) -> int:
        return sum(len(offsets) for offsets, _ in self._held.values())

    def bounds(self, bounds: Mapping[TopicAndPartition, tuple[int, int]]) -> dict[TopicAndPartition, int]:
        """Take the first offset and the log end offset of each partition. Returns where to continue, for partitions
        that have more.

        Forgets partitions that no longer exist, and reads a partition again whose offsets begin again.
        """
        for partition in self._held.keys() - bounds.keys():
            del self._held[partition], self._next[partition]
        more = {}
        for partition, (start, end) in bounds.items():
            # The log ends before what was read: the topic was deleted and created again under its name.
            if end < self._next.get(partition, 0):
                self._held.pop(partition, None)
                self._next[partition] = start
            offsets, owners = self._held.setdefault(partition, (array("q"), array("I")))
            gone = bisect_left(offsets, start)
            del offsets[:gone], owners[:gone]
            self._next[partition] = max(start, self._next.get(partition, 0))
            if self._next[partition] < end:
                more[partition] = self._next[partition]
        return more

    def add(self, partition: TopicAndPartition, offset: int, owner: str) -> None:
        """Add one dead letter; those of a partition come in offset order."""
        offsets, owners = self._held[partition]
        offsets.append(offset)
        number = self._names.get(owner)
        if number is None:
            number = self._names[owner] = len(self._by_number)
            self._by_number.append(owner)
        owners.append(number)
        self._next[partition] = offset + 1

    def reached(self, partition: TopicAndPartition, offset: int) -> None:
        """There are no more records before this offset."""
        self._next[partition] = max(self._next[partition], offset)

    def owner(self, partition: TopicAndPartition, offset: int) -> str | None:
        """Returns the subscription of a letter; None = it is not held."""
        offsets, owners = self._held.get(partition, ((), ()))
        place = bisect_left(offsets, offset)
        if place == len(offsets) or offsets[place] != offset:
            return None
        return self._by_number[owners[place]]

    def sizes(self) -> dict[str, int]:
        """Returns letters by subscription."""
        counts: Counter[int] = Counter()
        for _, owners in self._held.values():
            counts.update(owners)
        return {name: counts[number] for name, number in self._names.items() if counts[number]}


class OpenLetters:
    """Blocks, so use it in a thread, one call at a time."""

    def __init__(self, kafka: Mapping[str, Any], instance: str) -> None:
        self._kafka, self._instance = kafka, instance
        self._letters, self._is_whole = Letters(), False
        self._admin = KafkaAdmin(kafka, ANSWER_S)

    def count(self, topics: list[str]) -> dict[str, int] | None:
        """Returns the number of open letters by label of the subscription; None: not all letters are read yet. Raises
        PenstockError if Kafka does not answer, and for a ledger of a newer version."""
        more = self._letters.bounds(self._admin.ranges(topics))
        room = min(ROUND_MAX, LETTERS_MAX - len(self._letters))
        for topic in sorted({name for name, _ in more}):
            with suppress(NoSuchTopicError):  # it is gone since
                starts = {number: offset for (name, number), offset in more.items() if name == topic}
                room -= self._read(topic, starts, room)
        self._is_whole |= room > 0
        if not self._is_whole:
            return None
        sizes = self._letters.sizes()
        ledger = read_ledger(self._kafka, self._instance) if sizes else Ledger({})
        redriven = Counter(self._letters.owner((topic, number), offset) for topic, number, offset in ledger.places)
        return {label: count - redriven[label] for label, count in sizes.items() if count > redriven[label]}

    def _read(self, topic: str, starts: Mapping[int, int], room: int) -> int:
        """Read at most `room` letters from these offsets on. Returns how many."""
        with TopicReader(topic, self._kafka) as reader:
            read = 0
            for record in islice(reader.at_or_above(starts), room):
                self._letters.add((topic, record.partition), record.offset, _owner(record))
                read += 1
            if read < room:  # markers of transactions take offsets too
                for number in starts.keys() & reader.ranges.keys():
                    self._letters.reached((topic, number), reader.ranges[number][1])
            return read


def _owner(record: StoredRecord) -> str:
    for name, value in record.headers:
        if name.lower() == _OWNER and value is not None:
            return value.decode("utf-8", "replace")
    return ""
