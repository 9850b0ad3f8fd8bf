"""Counts dead letters by subscription for the metrics: the leading controller reads each dead letter once.

    every 30 s:  first and last offsets  -->  read new ones: which subscription?     subtract what retention removed

The subscriptions of a channel share its DLQ topic, so its length is not enough. Each dead letter takes twelve bytes of
memory: its offset and its subscription. Redriven ones count too, because they stay in the topic.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from app.timing import LOOK_S
from knative.cloudevents.record_headers import record_headers
from tables.kafka.admin.answers import TopicAndPartition
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.kafka.errors import KafkaFailed
from tables.kafka.loop_thread import call_in_thread
from tables.kafka.topic_reader import BATCH
from tables.timing import ANSWER_S, POLL_S

log = structlog.get_logger(__name__)

EVERY_S = 30.0
ROUND_MAX = 20_000  #: letters read in one round: limits the CPU time that the event loop has to share
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

    def bounds(self, found: Mapping[TopicAndPartition, tuple[int, int]]) -> dict[TopicAndPartition, int]:
        """Take the first offset and the log end offset of each partition. Returns where to continue, for partitions
        that have more.

        Forgets partitions that no longer exist, and reads a partition again whose offsets begin again.
        """
        for partition in self._held.keys() - found.keys():
            del self._held[partition], self._next[partition]
        more = {}
        for partition, (start, end) in found.items():
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
        """The subscription of a letter; None = it is not held."""
        offsets, owners = self._held.get(partition, ((), ()))
        place = bisect_left(offsets, offset)
        if place == len(offsets) or offsets[place] != offset:
            return None
        return self._by_number[owners[place]]

    def sizes(self) -> dict[str, int]:
        """Letters by subscription."""
        counts: Counter[int] = Counter()
        for _, owners in self._held.values():
            counts.update(owners)
        return {name: counts[number] for name, number in self._names.items() if counts[number]}


class DlqSizes:
    """Runs from `start` to `stop`. Everything that asks Kafka is in a thread."""

    def __init__(
        self, kafka: Mapping[str, Any], topics: Callable[[], Iterable[str]], leads: Callable[[], bool]
    ) -> None:
        """`topics`: returns the present DLQ topics; `leads`: whether this process is the leading controller."""
        self._kafka = kafka
        self._topics, self._leads = topics, leads
        self.letters = Letters()
        self._sizes: dict[str, int] | None = None
        self._admin = KafkaAdmin(kafka, ANSWER_S)
        self._task: asyncio.Task[None] | None = None

    @property
    def sizes(self) -> dict[str, int] | None:
        """Letters by subscription; None = another process counts, or the first round is not complete."""
        return self._sizes if self._leads() else None

    def start(self) -> None:
        """Start the task. Returns at once."""
        self._task = asyncio.create_task(self._run(), name="dlq-sizes")
        self._task.add_done_callback(_ended)

    async def stop(self) -> None:
        """Stop. A round that runs in its thread ends by itself, within its limits."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        await asyncio.to_thread(self._admin.close)

    async def _run(self) -> None:
        while True:
            leads = self._leads()
            if leads:
                refresh = partial(self.refresh, sorted(set(self._topics())))
                try:
                    # More than all of its waits together: the thread goes on after this, and two at once would count
                    # letters twice.
                    await call_in_thread(refresh, 6 * ANSWER_S, "dlq-sizes")
                except TimeoutError:
                    log.debug("DLQ topics cannot be counted now", reason="Kafka does not answer")
            elif self._sizes is not None:
                self.letters, self._sizes = Letters(), None
            await asyncio.sleep(EVERY_S if leads else LOOK_S)  # who leads by now counts at once

    def refresh(self, topics: list[str]) -> None:
        """One round of counting. Blocks."""
        try:
            done = self._read(self.letters.bounds(self._bounds(topics)))
        except (KafkaFailed, KafkaException) as problem:
            log.debug("DLQ topics cannot be counted now", reason=str(problem))
            return
        if done or self._sizes is not None:
            self._sizes = self.letters.sizes()

    def _bounds(self, topics: list[str]) -> dict[TopicAndPartition, tuple[int, int]]:
        there = self._admin.cluster().topics
        partitions = [(name, number) for name in topics if name in there for number in there[name]]
        starts, ends = self._admin.first_offsets(partitions), self._admin.end_offsets(partitions)
        return {partition: (starts[partition], ends[partition]) for partition in partitions}

    def _read(self, starts: dict[TopicAndPartition, int]) -> bool:
        """Read new letters, within the limits of a round; True when none are left."""
        room = min(ROUND_MAX, LETTERS_MAX - len(self.letters))
        if not starts or room <= 0:
            return not starts
        consumer = Consumer(
            {
                "group.id": "penstock-reader",  # required by the client; joins no group, commits nothing
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",  # when retention removes the offset before it is read
                "queued.max.messages.kbytes": 1024,
                **self._kafka,
            }
        )
        try:
            consumer.assign([TopicPartition(*partition, offset) for partition, offset in starts.items()])
            open_, end_s = set(starts), time.monotonic() + ANSWER_S
            while open_ and room > 0 and time.monotonic() < end_s:
                for message in consumer.consume(min(BATCH, room), POLL_S):
                    partition = (message.topic() or "", message.partition() or 0)
                    error = message.error()
                    if error is not None and error.code() != KafkaError._PARTITION_EOF:
                        raise KafkaException(error)
                    if error is not None:  # end of partition; transaction markers take offsets too
                        self.letters.reached(partition, message.offset() or 0)
                        open_.discard(partition)
                        continue
                    self.letters.add(partition, message.offset() or 0, _owner(record_headers(message)))
                    room -= 1
            return not open_
        finally:
            consumer.close()


def _ended(task: asyncio.Task[None]) -> None:
    problem = None if task.cancelled() else task.exception()
    if problem is not None:
        log.error("DLQ topics are no longer counted", exc_info=problem)


def _owner(headers: Iterable[tuple[str, bytes | str | None]]) -> str:
    for name, value in headers:
        if name.lower() == _OWNER and value is not None:
            return value if isinstance(value, str) else value.decode("utf-8", "replace")
    return ""
