"""Once a second: deltas of the right second, none lost to an outage that is short, and none kept for ever."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from app.worker.traffic import publisher
from app.worker.traffic.publisher import TrafficFlush
from knative.ports import ProduceProblem
from knative.traffic.counters import TrafficCounters
from knative.traffic.delta import Delta, decode
from tables.kafka.errors import KafkaFailed
from tests.support.fakes import MemoryProduce

HEADERS = [("ce_type", b"t"), ("ce_source", b"/s")]
AT = 1_700_000_000


class Hands:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = AT + 0.25

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now


class Flushed:
    """A flush on twins."""

    def __init__(self) -> None:
        self.clock, self.produce, self.counters, self.reported = (
            Hands(),
            MemoryProduce(),
            TrafficCounters("w"),
            Counter[str](),
        )
        self.counter = self.counters.channel("ns", "ch")
        self.flush = TrafficFlush("i.traffic", self.counters, self.produce, self.clock, self._count)
        self.flush._there = True

    def _count(self, result: str) -> None:
        self.reported[result] += 1

    def second(self, events: int = 1) -> None:
        """So many events, and the second is over."""
        for _ in range(events):
            self.counter.accepted(HEADERS, 1)
        self.clock.now += 1
        self.flush.flush()

    @property
    def stored(self) -> list[Delta]:
        return [decode(record.value) for record in self.produce.records]


def test_second_is_one_record_with_the_key_of_its_channel() -> None:
    flushed = Flushed()
    flushed.second(3)
    flushed.second(0)
    flushed.second(2)

    assert [(d.number, d.at, d.counts.events) for d in flushed.stored] == [(1, AT, 3), (2, AT + 2, 2)]
    assert {(r.topic, r.key) for r in flushed.produce.records} == {("i.traffic", b"ns/ch")}
    assert flushed.reported == {"stored": 2}


def test_without_kafka_deltas_wait_with_their_seconds() -> None:
    flushed = Flushed()
    flushed.produce.connected = False
    flushed.second()
    flushed.second()
    assert flushed.stored == []

    flushed.produce.connected = True
    flushed.second()
    assert [(d.number, d.at) for d in flushed.stored] == [(1, AT), (2, AT + 1), (3, AT + 2)]


@pytest.mark.parametrize("problem", [ProduceProblem.FULL, ProduceProblem.UNAVAILABLE])
def test_what_was_not_stored_for_sure_is_sent_again_under_its_number(problem: ProduceProblem) -> None:
    flushed = Flushed()
    flushed.produce.failing = problem
    flushed.second()
    flushed.produce.failing = None
    flushed.second()

    assert sorted(d.number for d in flushed.stored) == [1, 2]
    assert flushed.reported == {"stored": 2}


def test_what_kafka_refuses_is_given_up_and_counted() -> None:
    flushed = Flushed()
    flushed.produce.failing = ProduceProblem.REFUSED
    flushed.second()
    flushed.produce.failing = None
    flushed.second(0)

    assert (flushed.stored, flushed.reported) == ([], {"lost": 1})


def test_long_outage_costs_the_oldest_and_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher, "WAITING_MAX", 50)
    flushed = Flushed()
    flushed.produce.connected = False
    for _ in range(55):
        flushed.second()
    assert flushed.reported == {"lost": 5}

    flushed.produce.connected = True
    flushed.second(0)
    assert [d.number for d in flushed.stored][:1] == [6]
    assert len(flushed.stored) == 50


@pytest.mark.asyncio
async def test_publisher_makes_its_topic_first_and_sends_the_rest_at_the_end() -> None:
    produce, counters, tries = MemoryProduce(), TrafficCounters("w"), Counter[str]()

    def make_topic() -> None:
        tries["made"] += 1
        if tries["made"] == 1:
            raise KafkaFailed("not yet")

    class Wall(Hands):
        def time(self) -> float:
            return asyncio.get_running_loop().time()

    flush = TrafficFlush("i.traffic", counters, produce, Wall(), lambda _: None, make_topic)
    counter = counters.channel("ns", "ch")
    flush.start()
    counter.accepted(HEADERS, 1)
    async with asyncio.timeout(10):
        while not produce.records:
            assert tries["made"] <= 2
            await asyncio.sleep(0.02)
    counter.accepted(HEADERS, 1)
    flush.stop()

    assert tries["made"] == 2
    assert [decode(record.value).counts.events for record in produce.records] == [1, 1]


@pytest.mark.asyncio
async def test_error_in_it_is_logged_and_stops_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    flushed = Flushed()
    flushed.produce.send = None  # type: ignore[method-assign,assignment]
    flushed.counter.accepted(HEADERS, 1)

    flushed.flush.stop()

    assert "traffic could not be published" in "".join(capsys.readouterr())
