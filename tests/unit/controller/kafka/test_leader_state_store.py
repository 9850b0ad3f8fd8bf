"""What a leader records, in which order, and what it does about records that Kafka may or may not have."""

from __future__ import annotations

import asyncio

import pytest

from controller.kafka.leader_state_store import LeaderStateStore, UnreadableRecords
from knative.contract.leader_state import Identity, LeaderState, Removal
from knative.ports import Headers, ProduceProblem, Stored
from tables.kafka.compacted_topic import Record
from tables.kafka.errors import KafkaFailed
from tables.status_table import StatusTable
from tests.support.fakes import MemoryProduce

REMOVAL = Removal("u", "KafkaChannel", "default/orders", "t", topics=("t", "t.dlq"))
ONE = LeaderState({"u": REMOVAL})
TWO = LeaderState(identities={("KafkaChannel", "default", "a"): Identity("i", 1, "h")})


class _Table(StatusTable):
    """A table that has read whatever the topic has."""

    async def read_to_end(self, limit_s: float) -> bool:
        return True


class _Topic(MemoryProduce):
    """A status topic that each of its tables reads at once."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[StatusTable] = []
        self.unread = False

    def table(self) -> StatusTable:
        table = _Table("t", {}, crashed=lambda _: None)
        table.loaded = True
        self.tables.append(table)
        table.apply([Record(record.key or b"", record.value) for record in self.records])
        return table

    def leader(self, token: str) -> LeaderStateStore:
        return LeaderStateStore(self, self.table(), "t", 0.2, lambda: token)

    def send(
        self, topic: str, value: bytes | None, key: bytes | None, headers: Headers, done: Stored, partition: int = -1
    ) -> None:
        assert partition == 0
        if self.failing is None and not self.unread:
            for table in self.tables:
                table.apply([Record(key or b"", value)])
        super().send(topic, value, key, headers, done, partition)

    def keys(self) -> list[str]:
        written, self.records = self.records, []
        return [(record.key or b"").decode() for record in written]


@pytest.mark.asyncio
async def test_new_leader_copies_and_then_claims_and_then_removes_the_old_records() -> None:
    topic = _Topic()
    first = topic.leader("a")
    assert not first.holds
    assert await first.begin()
    await first.write(ONE)
    assert topic.keys() == ["/leader/1-a", "/leader/1-a/removal/u"]
    second = topic.leader("b")
    topic.tables[1].apply([Record(b"/leader/1-a", b'{"schema":1,"leader":{"claim":"a"}}')])
    topic.tables[1].leaders.apply("/leader/1-a/removal/u", {"removal": {**_row(REMOVAL)}})
    assert await second.begin()
    assert (second.holds, first.holds) == (True, False)
    assert second.state == ONE
    assert topic.keys() == ["/leader/2-b/removal/u", "/leader/2-b"]
    first.sweep()
    assert topic.keys() == [], "a deposed leader removes nothing"
    second.sweep()
    assert topic.keys() == ["/leader/1-a", "/leader/1-a/removal/u"]
    second.sweep()
    assert topic.keys() == []


def _row(removal: Removal) -> dict[str, object]:
    row = {name: getattr(removal, name) for name in ("uid", "kind", "label", "topic")}
    return {**row, "topics": list(removal.topics)}


@pytest.mark.asyncio
async def test_only_changes_are_written() -> None:
    topic = _Topic()
    store = topic.leader("a")
    await store.begin()
    topic.keys()
    for state, keys in ((ONE, 1), (ONE, 0), (TWO, 2), (TWO, 0), (LeaderState(), 1)):
        await store.write(state)
        assert len(topic.keys()) == keys
        assert topic.tables[0].leaders.state() == store.state == state


@pytest.mark.asyncio
async def test_what_kafka_may_not_have_is_written_again() -> None:
    topic = _Topic()
    store = topic.leader("a")
    await store.begin()
    topic.holding = True  # it is stored, but the acknowledgement does not come in time
    with pytest.raises(KafkaFailed, match="did not acknowledge"):
        await store.write(ONE)
    assert store.state == LeaderState()
    topic.release()
    assert topic.tables[0].leaders.state() == ONE, "the topic and the leader differ"
    topic.failing = ProduceProblem.UNAVAILABLE
    with pytest.raises(KafkaFailed, match="told to fail"):
        await store.write(LeaderState())
    topic.failing = None
    await store.write(LeaderState())
    assert topic.tables[0].leaders.state() == LeaderState()


@pytest.mark.asyncio
async def test_of_two_that_begin_at_once_the_second_one_notices() -> None:
    topic = _Topic()
    first, second = topic.leader("a"), topic.leader("b")
    begun = await asyncio.gather(first.begin(), second.begin())
    assert sorted(topic.keys()) in (["/leader/1-a", "/leader/1-b"], ["/leader/1-a", "/leader/2-b"])
    assert sorted((first.holds, second.holds)) == [False, True]
    assert begun[0] or begun[1]
    late = topic.leader("c")
    topic.tables[2].leaders.apply("/leader/2-x", {"claim": ""})
    assert await late.begin()
    assert late.holds, "and whoever claims next is ahead of both"


@pytest.mark.asyncio
async def test_without_all_that_the_last_leader_recorded_nothing_begins() -> None:
    topic = _Topic()
    store = topic.leader("a")
    topic.tables[0].apply([Record(b"/leader/4-z/removal/u", b'{"schema":2,"leader":{}}')])
    with pytest.raises(UnreadableRecords, match="use the version that"):
        await store.begin()
    assert (store.holds, topic.keys()) == (False, [])


@pytest.mark.asyncio
async def test_claim_that_is_not_read_back_is_none() -> None:
    topic = _Topic()
    store = topic.leader("a")
    topic.unread = True
    with pytest.raises(KafkaFailed, match="not read back"):
        await store.begin()
    assert not store.holds
