"""Reads a compacted topic from its beginning, and then every change as it arrives; or any topic from its end.

    thread                                       event loop
    poll -> batch of (key, value) --------------> apply(records), in topic order
    ends of the beginning are reached ----------> caught_up() once
    ends of now <-------------------------------- read_to_end()

The reader joins no consumer group and commits nothing, so it never waits for a rebalance: the contract and the workers'
status must be readable whenever Kafka is. If the topic is deleted and created again, it logs the error and the last
good state stays.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from tables.kafka.loop_thread import LoopThread
from tables.timing import CLOSE_S, POLL_S, SPARING_S

log = structlog.get_logger(__name__)

#: Called on the event loop: whether everything is applied up to the ends that were looked up.
Answer = Callable[[bool], None]


class Record(NamedTuple):
    """A record of a compacted topic, and its place."""

    key: bytes
    value: bytes | None  #: None = tombstone
    partition: int = 0
    offset: int = -1


FAILED_MAX = 3  #: lookups of the ends in a row, after which a new client is tried


class CompactedReader:
    """Reads one topic until it is stopped. Callbacks run on the event loop; `crashed` must end the process."""

    def __init__(
        self,
        topic: str,
        kafka: Mapping[str, Any],
        *,
        apply: Callable[[Sequence[Record]], None],
        caught_up: Callable[[], None],
        crashed: Callable[[BaseException], None],
        from_end: bool = False,
    ) -> None:
        """`kafka`: librdkafka client settings with `bootstrap.servers`. `from_end`: only what arrives from now on."""
        self.topic = topic
        self._kafka = kafka
        self._from_end = from_end
        self._conf = {
            "group.id": f"{topic}.reader",  # required by the client, but never joined or committed to
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "queued.max.messages.kbytes": 1024,
            "topic.metadata.refresh.interval.ms": 30_000,
        }
        self._apply = apply
        self._thread = LoopThread(self._run, f"read-{topic}", partial(self._call, crashed))
        self._reached: dict[int, int] = {}  #: partition -> offset of the next record
        self._asked: deque[Answer] = deque()  #: the event loop appends, the thread pops
        self._failed = 0  #: lookups of the ends that failed in a row
        self._waiting: list[tuple[Answer, dict[int, int]]] = []  #: with the ends to reach

        def first_answer(is_reached: bool) -> None:
            if is_reached:
                caught_up()
            else:
                self._asked.append(first_answer)

        self._asked.append(first_answer)

    def start(self) -> None:
        """Start reading; returns at once."""
        self._thread.start()

    async def stop(self) -> None:
        """Stop reading. Waits for the thread, up to a limit."""
        await self._thread.stop(CLOSE_S)

    async def read_to_end(self, limit_s: float) -> bool:
        """Wait until everything is applied that the topic holds now; False if that takes longer than the limit, or
        Kafka does not say where the topic ends."""
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._asked.append(partial(_settle, answer))
        try:
            async with asyncio.timeout(limit_s):
                return await answer
        except TimeoutError:
            return False

    def _call(self, function: Callable[..., None], *args: object) -> None:
        if not self._thread.stopping.is_set():
            self._thread.call_soon(function, *args)

    def _run(self) -> None:
        while not self._thread.stopping.is_set():
            consumer = Consumer({**self._conf, **self._kafka})
            try:
                if self._assign(consumer):
                    self._read(consumer)
            finally:
                consumer.close()

    def _read(self, consumer: Consumer) -> None:
        """Read until stopped, or until the client should be replaced.

        After Kafka was away, a client has been seen that did not find its way back for minutes, while new ones did. The
        next one continues where this one is.
        """
        self._failed = 0
        while not self._thread.stopping.is_set() and self._failed < FAILED_MAX:
            first = consumer.poll(SPARING_S)
            if first is not None:
                self._take([first, *consumer.consume(500, 0)])
            self._answer(consumer)

    def _assign(self, consumer: Consumer) -> bool:
        """Wait until the topic exists, and assign all its partitions; False if stopped before."""
        while not self._thread.stopping.is_set():
            try:
                topic = consumer.list_topics(self.topic, timeout=CLOSE_S).topics[self.topic]
            except KafkaException as problem:
                log.info("topic cannot be looked up yet", topic=self.topic, reason=problem.args[0].str())
            else:
                if topic.error is None and topic.partitions and self._assign_all(consumer, topic.partitions):
                    return True
            self._thread.stopping.wait(POLL_S)
        return False

    def _assign_all(self, consumer: Consumer, partitions: Iterable[int]) -> bool:
        """Returns False if Kafka does not say where the partitions end."""
        starts = {partition: self._reached.get(partition, OFFSET_BEGINNING) for partition in partitions}
        if self._from_end:
            new = [partition for partition in starts if partition not in self._reached]
            try:
                starts.update(self._ends(consumer, new))
            except KafkaException as problem:
                log.info("the end of a topic cannot be looked up", topic=self.topic, reason=problem.args[0].str())
                return False
        self._reached = {partition: max(start, 0) for partition, start in starts.items()}
        consumer.assign([TopicPartition(self.topic, partition, start) for partition, start in starts.items()])
        return True

    def _take(self, messages: list[Message]) -> None:
        records: list[Record] = []
        for message in messages:
            error = message.error()
            partition, offset = message.partition(), message.offset()
            if error is None:
                key = message.key()
                if key is not None:
                    place = (0 if partition is None else partition, -1 if offset is None else offset)
                    records.append(Record(key, message.value(), *place))
            elif error.code() != KafkaError._PARTITION_EOF:
                log.warning("error while reading a compacted topic", topic=self.topic, reason=error.str())
                continue
            # An end may be behind records that compaction removed.
            if partition is not None and offset is not None:
                self._reached[partition] = offset + 1 if error is None else offset
        if records:
            self._call(self._apply, records)

    def _ends(self, consumer: Consumer, partitions: Iterable[int]) -> dict[int, int]:
        """Returns the present end of each partition. Raises KafkaException."""
        return {
            partition: consumer.get_watermark_offsets(TopicPartition(self.topic, partition), CLOSE_S)[1]
            for partition in partitions
        }

    def _answer(self, consumer: Consumer) -> None:
        """Answer those whose records were all passed on: the first ones, and the calls of `read_to_end`. What was
        passed on is applied first, because the event loop keeps the order of the calls.

        Ends are looked up, because the client says that a partition has ended only after an empty fetch. There is none
        while records come in faster than a fetch waits, as statuses of several workers do."""
        asked = [self._asked.popleft() for _ in range(len(self._asked))]
        if asked:
            try:
                ends = self._ends(consumer, self._reached)
            except KafkaException as problem:
                log.info("the end of a topic cannot be looked up", topic=self.topic, reason=problem.args[0].str())
                self._failed += 1
                for answer in asked:
                    self._call(answer, False)
            else:
                self._failed = 0
                self._waiting += ((answer, ends) for answer in asked)
        waiting, self._waiting = self._waiting, []
        for answer, ends in waiting:
            if all(self._reached[partition] >= end for partition, end in ends.items()):
                self._call(answer, True)
            else:
                self._waiting.append((answer, ends))


def _settle(answer: asyncio.Future[bool], is_reached: bool) -> None:
    if not answer.done():
        answer.set_result(is_reached)
