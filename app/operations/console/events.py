"""Reads the topics of channels and brokers for pages: as they grow, from a place, by id, and what became of one event.
Blocking calls are in threads, two at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from app.operations.console.passages import is_letter_of, passage
from app.operations.console.reads import Latest
from app.operations.console.tails import Tail
from app.operations.console.values import event_of
from app.operations.dead_letters.ledger import Ledger, read_ledger
from app.operations.dead_letters.letters import DeadLetter, Selection
from app.operations.dead_letters.reader import read_letters
from app.operations.event_filter import EventFilter, read_filters
from app.operations.group_offsets import read_group_offsets
from app.operations.times import read_time
from knative.contract.records import Channel, Subscription
from knative.contract.subscription_stats import FailingDelivery
from knative.errors import NotReadyError
from tables.contract_table import ContractTable
from tables.kafka.loop_thread import call_in_thread, call_soon
from tables.kafka.topic_reader import NoSuchTopicError, StoredRecord, TopicReader
from tables.status_table import StatusTable
from tables.timing import ANSWER_S, SPARING_S
from web.console.acts import Events, Passage, StoredEvent
from web.console.limits import Limits

T = TypeVar("T")


class Bounded:
    """Passes on what readers yield, until enough was read or it took too long."""

    def __init__(self, limits: Limits) -> None:
        self.read, self.is_whole = 0, True
        self._most = limits.read_max
        self._end_s: float | None = None  # not before the first reading: it may wait for its turn, and for a connection

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be read."""
        return self.read >= self._most or (self._end_s is not None and time.monotonic() > self._end_s)

    def newest(self, ranges: Mapping[int, tuple[int, int]], topics: int = 1) -> dict[int, int]:
        """Returns the offset of each partition where the newest records begin, as many as one of `topics` may have."""
        starts = newest_starts(ranges, (self._most - self.read) // topics)
        self.is_whole &= all(starts[number] == low for number, (low, _) in ranges.items())
        return starts

    def of(self, records: Iterable[T]) -> Iterator[T]:
        """Yields the records, or only the first ones: `is_whole` is False then."""
        if self._end_s is None:
            self._end_s = time.monotonic() + ANSWER_S
        for record in records:
            if self.is_over:
                self.is_whole = False
                return
            self.read += 1
            yield record


def newest_starts(ranges: Mapping[int, tuple[int, int]], most: int) -> dict[int, int]:
    """Returns the offset of each partition from which on there are `most` records together, or all. Partitions share
    evenly, and those with few records leave more to the others."""
    starts: dict[int, int] = {}
    by_size = sorted(ranges.items(), key=lambda entry: entry[1][1] - entry[1][0])
    for place, (number, (low, high)) in enumerate(by_size):
        starts[number] = max(low, high - most // (len(by_size) - place))
        most -= high - starts[number]
    return starts


def newest_letters(
    kafka: Mapping[str, Any], topics: Sequence[str], selection: Selection, bounded: Bounded
) -> Iterator[DeadLetter]:
    """Yields the selected ones among the newest letters of all topics."""
    for place, topic in enumerate(topics):
        if bounded.is_over:
            bounded.is_whole = False
            return
        try:
            reader = TopicReader(topic, kafka)
        except NoSuchTopicError:
            continue  # it has no letters
        with reader:
            since_s = selection.since_s
            ranges = reader.ranges if since_s is None else reader.ranges_since(int(since_s * 1000))
            starts = bounded.newest(ranges, len(topics) - place)
            yield from filter(selection.takes, map(DeadLetter, bounded.of(reader.at_or_above(starts))))


class EventReads:
    """The part of `Acts` that reads events. Event loop only."""

    def __init__(
        self, instance: str, contract: ContractTable, status: StatusTable, kafka: Mapping[str, Any], limits: Limits
    ) -> None:
        self._instance, self._contract, self._status = instance, contract, status
        self._kafka, self._limits = kafka, limits
        #: A client would hold 64 MB of records that it reads ahead.
        self._sparing = {**kafka, "queued.max.messages.kbytes": 1024}
        self._readers = asyncio.Semaphore(2)  # each decodes thousands of records, beside what the worker delivers
        self._tails: dict[tuple[str, str], Latest[Events]] = {}

    async def in_thread(self, function: Callable[[], T], limit_s: float = 4 * ANSWER_S) -> T:
        """Raises NotReadyError when it takes too long."""
        loop = asyncio.get_running_loop()

        def run() -> T:
            try:
                return function()
            finally:  # not when nobody waits any more: the thread goes on
                call_soon(loop, self._readers.release)

        try:
            async with asyncio.timeout(limit_s):
                await self._readers.acquire()
            return await call_in_thread(run, limit_s, "console")
        except TimeoutError:
            raise NotReadyError(
                "Kafka did not answer in time, or too many people read at the same time.", "Try again."
            ) from None

    async def tail(self, topic: str, filter_: str) -> Events | None:
        """Returns the last events, and those that have come since; None: Kafka has not answered yet."""
        for key in [key for key, tail in self._tails.items() if tail.idle_s > self._limits.rest_s]:
            del self._tails[key]  # its rows, and what it has skipped, would be those of another viewer
        latest = self._tails.pop((topic, filter_), None)
        if latest is None:
            while len(self._tails) >= self._limits.tails_max:
                del self._tails[next(iter(self._tails))]  # the one that nobody has read for longest
            latest = Latest(Tail(topic, _filter(filter_), self._sparing, self._limits.rows_max).look, "console-tail")
        self._tails[topic, filter_] = latest
        answer = await latest.get(SPARING_S)
        if answer is None:
            return None if latest.problem is None else Events((), 0, problem=latest.problem)
        return replace(answer.value, problem=latest.problem)

    def rest(self) -> None:
        """Forget what was read, because no page is open."""
        self._tails.clear()

    async def stored(self, topic: str, filter_: str, start: str) -> Events:
        """Returns events from a time or from PARTITION/OFFSET on."""
        chosen = _filter(filter_)
        partition, slash, offset = start.partition("/")
        place = None
        if slash and len(start) < 40 and partition.isdecimal() and offset.isdecimal():
            place = {int(partition): int(offset)}
        since_ms = 0 if place is not None else int(read_time(start, "From", time.time()) * 1000)
        bounded = Bounded(self._limits)

        def read() -> Events:
            with TopicReader(topic, self._sparing) as reader:
                records = reader.since(since_ms) if place is None else reader.at_or_above(place)
                return self._listed(records, chosen, bounded)

        return await self.in_thread(read)

    async def with_id(self, topic: str, id_: str) -> Events:
        """Returns the events that have this id."""
        chosen, bounded = EventFilter({"id": id_}), Bounded(self._limits)

        def read() -> Events:
            with TopicReader(topic, self._sparing) as reader:
                return self._listed(reader.at_or_above(bounded.newest(reader.ranges)), chosen, bounded)

        return await self.in_thread(read)

    def _listed(self, records: Iterable[StoredRecord], chosen: EventFilter, bounded: Bounded) -> Events:
        """Returns the first of those that pass, the newest first. Data is dropped as it comes: it may be large."""
        passing = (event_of(record, whole=False) for record in bounded.of(records) if chosen.passes(record))
        events = list(islice(passing, self._limits.rows_max + 1))
        listed = sorted(
            events[: self._limits.rows_max], key=lambda event: (-event.time_s, event.partition, -event.offset)
        )
        return Events(listed, bounded.read, bounded.is_whole and len(listed) == len(events))

    async def event(self, topic: str, partition: int, offset: int) -> StoredEvent | None:
        """Returns one event; None: it is not there (any more)."""
        record = await self.in_thread(partial(self._record, topic, partition, offset))
        return None if record is None else event_of(record)

    def _record(self, topic: str, partition: int, offset: int) -> StoredRecord | None:
        with TopicReader(topic, self._sparing) as reader:
            return reader.at(partition, offset)

    async def passages(self, event: StoredEvent, channel: Channel) -> Sequence[Passage]:
        """Returns what became of an event of the channel, for each of its subscriptions."""
        subscriptions = [
            subscription
            for subscription in self._contract.subscriptions.values()
            if subscription.channel_uid == channel.uid
        ][: self._limits.rows_max]
        heads = {subscription.uid: self._heads(subscription.uid) for subscription in subscriptions}
        return await self.in_thread(partial(self._follow, event, channel, subscriptions, heads))

    def _heads(self, uid: str) -> list[FailingDelivery]:
        stats = [worker.stats[uid] for worker in self._status.workers.values() if uid in worker.stats]
        return [head for of_worker in stats for head in of_worker.heads]

    def _follow(
        self,
        event: StoredEvent,
        channel: Channel,
        subscriptions: Sequence[Subscription],
        heads: Mapping[str, Sequence[FailingDelivery]],
    ) -> list[Passage]:
        record = self._record(event.topic, event.partition, event.offset)
        if record is None:
            return []
        positions = {
            position.group: position
            for position in read_group_offsets(self._kafka, subscriptions)
            if position.partition == event.partition
        }
        letters, is_whole = self._letters_of(record, channel, subscriptions)
        return [
            passage(
                record,
                subscription,
                positions.get(subscription.group),
                heads[subscription.uid],
                letters.get(subscription.uid),
                is_whole=is_whole,
            )
            for subscription in subscriptions
        ]

    def _letters_of(
        self, record: StoredRecord, channel: Channel, subscriptions: Sequence[Subscription]
    ) -> tuple[dict[str, tuple[DeadLetter, str | None]], bool]:
        """Returns an event's dead letters by uid of the subscription, and whether all were read. They come after it."""
        letters: dict[str, tuple[DeadLetter, str | None]] = {}
        ledger: Ledger | None = None
        chosen = Selection(since_s=record.timestamp_ms / 1000 - ANSWER_S)  # clocks of workers and brokers differ
        bounded = Bounded(self._limits)
        for letter in bounded.of(read_letters(self._sparing, [channel.dlq_topic], chosen, nothing)):
            for subscription in subscriptions:
                if is_letter_of(letter, record, subscription):
                    ledger = ledger or read_ledger(self._kafka, self._instance)
                    mark = ledger.get(letter)
                    kept = DeadLetter(replace(letter.record, value=None))
                    letters[subscription.uid] = kept, None if mark is None else mark.redriven_at
        return letters, bounded.is_whole


def _filter(text: str) -> EventFilter:
    return read_filters([text] if text else [], "The filter")


def nothing(_: object) -> None:
    """A topic that does not exist has no letters; the page says what it waits for by itself."""
