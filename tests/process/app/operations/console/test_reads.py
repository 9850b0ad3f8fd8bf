"""The state that the console shows, from tables that are filled by hand. Kafka does not answer."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from app.operations.console.events import EventReads
from app.operations.console.reads import ConsoleReads, Latest
from knative.contract.records import WorkerStatus
from knative.errors import PenstockError
from tables.contract_table import ContractTable, encode_entry
from tables.kafka.compacted_topic import Record
from tables.status_parts import encode_status
from tables.status_table import StatusTable
from tables.traffic_windows.view import HeldRows
from tables.traffic_windows.windows import LONG_S, SHORT_S
from tests.support.console import CHANNEL, SUBSCRIPTION, worker
from tests.support.processes import free_port
from web.console import traffic
from web.console.acts import Events
from web.console.limits import Limits
from web.console.state import State


def _fail(problem: BaseException) -> None:
    raise AssertionError(problem)


def _reads(*workers: WorkerStatus, connected: bool = True) -> ConsoleReads:
    client = {"bootstrap.servers": f"127.0.0.1:{free_port()}", "log_level": 0}
    contract, status = ContractTable("c", client, _fail), StatusTable("s", client, _fail)
    contract.apply([Record(entry.uid.encode(), encode_entry(entry)) for entry in (CHANNEL, SUBSCRIPTION)])
    status.apply([Record(each.worker.encode(), encode_status(each)) for each in workers])
    return ConsoleReads("penstock", contract, status, None, None, client, lambda: connected, "worker-1")


def _words(state: State) -> list[tuple[str, str]]:
    return [(status.label, status.ready.status.value) for status in state.resources]


_READY = [("demo/billing", "True"), ("demo/orders", "True")]
_UNKNOWN = [("demo/billing", "Unknown"), ("demo/orders", "Unknown")]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("own", "age_s", "connected", "away", "expected"),
    [
        (True, 1, True, False, _READY),
        (True, 60, False, True, _READY),  # the last state
        (True, 60, True, True, _READY),  # the producer has not noticed yet, but our own reports do not come back
        (False, 60, False, True, _READY),
        (False, 60, True, False, _UNKNOWN),  # Kafka answers: that worker is gone
    ],
)
async def test_state_is_the_last_one_while_kafka_is_away(
    own: bool, age_s: float, connected: bool, away: bool, expected: list[tuple[str, str]]
) -> None:
    report = replace(worker(), worker="worker-1" if own else "worker-2", time=time.time() - age_s)
    state = await _reads(report, connected=connected).state()

    assert (state.kafka_away, _words(state)) == (away, expected)
    assert (state.at_s == report.time) is away
    assert state.letters is None


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (PenstockError("The topic t cannot be read.", "Look."), "The topic t cannot be read. Look."),
        (TimeoutError(), "Kafka did not answer in time."),
        (KeyError("x"), "The console could not read this from Kafka. The log of the worker has the reason."),
    ],
)
async def test_what_could_not_be_read_says_why_until_it_is_read(problem: Exception, said: str) -> None:
    results: list[Exception | int] = [problem, 7]

    def read() -> int:
        result = results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    latest = Latest(read, "test")
    assert (await latest.get(60), latest.problem) == (None, said)
    reading = await latest.get(60)
    assert reading is not None
    assert (reading.value, latest.problem) == (7, None)


@pytest.mark.asyncio
async def test_tail_without_kafka_says_so() -> None:
    address = f"127.0.0.1:{free_port()}"
    client = {"bootstrap.servers": address, "log_level": 0}
    contract, status = ContractTable("c", client, _fail), StatusTable("s", client, _fail)
    reads = EventReads("penstock", contract, status, client, Limits())
    events: Events | None = None
    async with asyncio.timeout(60):
        while events is None:
            events = await reads.tail("t", "")
    assert events.events == ()
    assert events.problem is not None
    assert address in events.problem


@pytest.mark.asyncio
async def test_at_rest_no_rows_of_traffic_are_held() -> None:
    now_s = time.time()
    rows = {(SHORT_S, int(now_s) // SHORT_S * SHORT_S - SHORT_S): {("demo", "orders", ""): b'{"accepted": 3}'}}
    assert traffic.rates(HeldRows(rows, now_s)) == {("demo", "orders", ""): 3 / LONG_S}
    assert traffic._events_of.cache_info().currsize
    reads, rests = _reads(), []
    reads.at_rest = lambda: rests.append(1)
    reads.rest()
    assert rests == [1]
    assert traffic._events_of.cache_info().currsize == 0


@pytest.mark.asyncio
async def test_what_costs_much_is_read_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    reads, now_s = [0], [1_800_000_000.0]
    monkeypatch.setattr(time, "time", lambda: now_s[0])

    def read() -> int:
        reads[0] += 1
        began_s = time.thread_time()
        while time.thread_time() - began_s < 0.01:
            pass
        return reads[0]

    latest = Latest(read, "costly", share=0.0001)  # so it rests for at least 100 s
    for passed_s, count in ((0, 1), (60, 1), (86_400, 2)):
        now_s[0] += passed_s
        reading = await latest.get(60)
        assert reading is not None
        assert reading.value == count
