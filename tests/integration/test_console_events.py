"""What the console reads of a real topic: never more than a few records, and it says what it left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from app.local.kafka import EmbeddedKafka
from app.operations.console.events import Bounded, EventReads, newest_letters
from app.operations.console.tails import Tail
from app.operations.dead_letters.letters import Selection
from app.operations.event_filter import read_filters
from knative.contract.records import Channel, Subscription
from knative.delivery.policy import Addressable
from knative.errors import UsageError
from tables.contract_table import ContractTable, encode_entry
from tables.kafka.compacted_topic import Record
from tables.status_table import StatusTable
from tests.support.processes import wait_until
from web.console.acts import Events, Verdict
from web.console.limits import Limits

pytestmark = pytest.mark.integration

LIMIT_S = 180.0


class _Topic:
    """A topic of one partition, and the events in it."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.kafka: dict[str, Any] = {"bootstrap.servers": bootstrap}
        self.name = name
        self._admin = AdminClient(self.kafka)
        self.create()

    def create(self) -> None:
        for created in self._admin.create_topics([NewTopic(self.name, 1, 1)]).values():
            created.result(LIMIT_S)

    def create_again(self) -> None:
        for deleted in self._admin.delete_topics([self.name]).values():
            deleted.result(LIMIT_S)
        wait_until("it is gone", lambda: self.name not in self._admin.list_topics(timeout=LIMIT_S).topics, LIMIT_S)
        self.create()

    def put(self, *ids: int) -> None:
        producer = Producer(self.kafka)
        for id_ in ids:
            headers = [("ce_id", f"{id_}"), ("ce_source", "/s"), ("ce_type", ["even", "odd"][id_ % 2])]
            producer.produce(self.name, b"data", headers=[*headers, ("ce_specversion", "1.0")])
        assert producer.flush(LIMIT_S) == 0

    def reads(self, *entries: Channel | Subscription, **limits: int) -> EventReads:
        def crashed(problem: BaseException) -> None:
            raise problem

        contract = ContractTable(f"{self.name}.c", self.kafka, crashed)
        contract.apply([Record(entry.uid.encode(), encode_entry(entry)) for entry in entries])
        status = StatusTable(f"{self.name}.s", self.kafka, crashed)
        return EventReads("i", contract, status, self.kafka, Limits(**limits))


def _ids(events: Events | None) -> Sequence[int]:
    assert events is not None
    return [int(event.attributes["id"]) for event in events.events]


def test_tail_reads_what_came_and_skips_what_came_too_fast(kafka: EmbeddedKafka, topic_name: Callable[[], str]) -> None:
    topic = _Topic(kafka.bootstrap, topic_name())
    tail = Tail(topic.name, read_filters([]), topic.kafka, 3)
    odd = Tail(topic.name, read_filters(["type=odd"]), topic.kafka, 3)
    assert _ids(tail.look()) == []

    topic.put(1, 2)
    assert _ids(tail.look()) == [2, 1]
    assert _ids(odd.look()) == [1]
    topic.put(3, 4)
    seen = tail.look()
    assert (_ids(seen), seen.read, seen.is_whole) == ([4, 3, 2], 4, True)
    assert [(event.data, event.size) for event in seen.events] == [(None, 4)] * 3
    assert _ids(odd.look()) == [3, 1]

    topic.put(*range(5, 10))
    seen = tail.look()
    assert (_ids(seen), seen.read, seen.is_whole) == ([9, 8, 7], 7, False)
    topic.create_again()
    topic.put(11)
    wait_until("the new topic is read", lambda: _ids(tail.look())[:1] == [11], LIMIT_S)


@pytest.mark.asyncio
async def test_look_ends_at_its_limits_and_says_so(kafka: EmbeddedKafka, topic_name: Callable[[], str]) -> None:
    topic = _Topic(kafka.bootstrap, topic_name())
    topic.put(*range(10))
    reads = topic.reads()
    every = await reads.stored(topic.name, "", "1h")
    assert (_ids(every), every.read, every.is_whole) == (list(range(9, -1, -1)), 10, True)
    placed = await reads.stored(topic.name, "type=even", "0/5")
    assert (_ids(placed), placed.read, placed.is_whole) == ([8, 6], 5, True)
    assert _ids(await reads.with_id(topic.name, "7")) == [7]
    assert _ids(await reads.with_id(topic.name, "nobody")) == []
    with pytest.raises(UsageError, match="From 'yesterday' is not a valid time"):
        await reads.stored(topic.name, "", "yesterday")
    assert await reads.event(topic.name, 0, 10) is None
    assert await reads.event(topic.name, 1, 0) is None
    event = await reads.event(topic.name, 0, 3)
    assert event is not None
    assert (event.attributes["id"], event.data) == ("3", b"data")

    few = await topic.reads(rows_max=4).stored(topic.name, "", "1h")
    assert (_ids(few), few.is_whole) == ([3, 2, 1, 0], False)
    short = topic.reads(read_max=6)
    cut = await short.stored(topic.name, "type=odd", "1h")
    assert (_ids(cut), cut.read, cut.is_whole) == ([5, 3, 1], 6, False)
    assert _ids(await short.with_id(topic.name, "9")) == [9]  # the newest are looked at
    early = await short.with_id(topic.name, "1")
    assert (_ids(early), early.is_whole) == ([], False)


def test_newest_letters_of_all_topics_are_read(kafka: EmbeddedKafka, topic_name: Callable[[], str]) -> None:
    topics = [_Topic(kafka.bootstrap, topic_name()) for _ in range(2)]
    topics[0].put(*range(10))
    topics[1].put(*range(20, 22))
    names = [topics[1].name, f"{topics[0].name}.missing", topics[0].name]
    for selection, read_max, ids, read, is_whole in (
        (Selection(), 6, [20, 21, 6, 7, 8, 9], 6, False),
        (Selection(), 99, [20, 21, *range(10)], 12, True),
        (Selection(since_s=0.0), 6, [20, 21, 6, 7, 8, 9], 6, False),
        (Selection(since_s=4e9), 6, [], 0, True),
        (Selection(reason="no letter has this"), 6, [], 6, False),
    ):
        bounded = Bounded(Limits(read_max=read_max))
        letters = newest_letters(topics[0].kafka, names, selection, bounded)
        assert [int(letter.event_id) for letter in letters] == ids
        assert (bounded.read, bounded.is_whole) == (read, is_whole)


@pytest.mark.asyncio
async def test_event_is_delivered_when_all_dead_letters_were_read(
    kafka: EmbeddedKafka, topic_name: Callable[[], str]
) -> None:
    topic, letters = _Topic(kafka.bootstrap, topic_name()), _Topic(kafka.bootstrap, topic_name())
    topic.put(1)
    letters.put(*range(10))
    channel = Channel("c", 1, "ns", "ch", topic.name, letters.name, 1)
    group = f"kafka.{topic.name}"
    subscription = Subscription(
        "u", 1, "ns", "a", "c", "ch", topic.name, letters.name, 1, group, Addressable("http://x/")
    )
    consumer = Consumer({**topic.kafka, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic.name, 0, 1)], asynchronous=False)
    consumer.close()
    for read_max, verdict in ((6, Verdict.UNKNOWN), (10, Verdict.DELIVERED)):
        reads = topic.reads(channel, subscription, read_max=read_max)
        event = await reads.event(topic.name, 0, 0)
        assert event is not None
        (passage,) = await reads.passages(event, channel)
        assert passage.verdict is verdict
