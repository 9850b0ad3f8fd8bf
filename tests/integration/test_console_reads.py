"""The console reads from a real Kafka the same as the commands that it names."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from agents.offsets.offset_tracker import OffsetTracker
from app.local.kafka import EmbeddedKafka
from app.operations.console.reads import ConsoleReads
from app.operations.dead_letters.open_letters import OpenLetters
from knative.contract.kafka_names import contract_topic, status_topic
from tables.contract_table import ContractTable
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.status_table import StatusTable
from tests.integration.cli_fixture import StoredInstallation
from tests.support.processes import free_port, wait_until
from tests.support.subscriber import ScriptedSubscriber
from web.console.state import Known, PartitionLag

pytestmark = pytest.mark.integration

_LIMIT_S = 180.0


def _fail(problem: BaseException) -> None:
    raise AssertionError(problem)


def test_letters_that_are_redriven_are_not_open(kafka: EmbeddedKafka, topic_name: Callable[[], str]) -> None:
    site = StoredInstallation.make(kafka.bootstrap, topic_name())
    with ScriptedSubscriber() as subscriber:
        subscription, two = site.subscribe("one", subscriber.url("/one")), site.subscribe("two")
        letters = OpenLetters({"bootstrap.servers": site.bootstrap}, site.instance)
        topics = [site.dlq_topic]
        site.dead_letters(subscription, ["1", "2", "3"])
        site.dead_letters(two, ["1"])
        wait_until("all are counted", lambda: letters.count(topics) == {"ns/one": 3, "ns/two": 1}, _LIMIT_S)

        redriven = site.json("dlq", "redrive", "--yes", "--subscription", "ns/one", "--limit", "2")

        assert redriven["redriven"] == 2
        assert letters.count(topics) == {"ns/one": 1, "ns/two": 1}
        site.json("dlq", "redrive", "--yes", "--subscription", "ns/one")
        assert letters.count(topics) == {"ns/two": 1}


@pytest.mark.asyncio
async def test_lag_is_that_of_the_command_and_stays_when_kafka_is_gone(
    kafka: EmbeddedKafka, topic_name: Callable[[], str]
) -> None:
    site = StoredInstallation.make(kafka.bootstrap, topic_name())
    subscription, other = site.subscribe("one"), site.subscribe("two")
    site.events(range(10), ago_s=60)
    tracker = OffsetTracker(2)
    site.commit(subscription, 0, tracker)
    client = {"bootstrap.servers": site.bootstrap}
    contract = ContractTable(contract_topic(site.instance), client, _fail)
    status = StatusTable(status_topic(site.instance), client, _fail)
    reads = ConsoleReads(site.instance, contract, status, None, None, client, lambda: True, "worker-1")
    contract.start()
    status.start()
    try:
        async with asyncio.timeout(_LIMIT_S):
            lag: Known[Sequence[PartitionLag]] | None = None
            while lag is None:
                lag = await reads.lag(subscription)
            # The page of the other subscription is opened directly after it, and then both are read together.
            first, second = await reads.lag(subscription), await reads.lag(other)
            while first is None or second is None or first.at_s != second.at_s:
                await asyncio.sleep(0.05)
                first, second = await reads.lag(subscription), await reads.lag(other)
            while not contract.loaded:
                await asyncio.sleep(0.05)
        state = await reads.state()
    finally:
        await asyncio.gather(contract.stop(), status.stop())

    rows = site.json("lag", "ns/one")
    assert sorted((part.partition, part.events, part.committed, part.end) for part in lag.value) == sorted(
        (row["partition"], row["events"], row["committed"], row["end"]) for row in rows
    )
    assert {part.events for part in lag.value} == {3, 5}
    assert {(each.kind, each.label) for each in state.resources} == {
        ("KafkaChannel", "ns/ch"),
        ("Subscription", "ns/one"),
        ("Subscription", "ns/two"),
    }
    assert {part.events for part in second.value} == {5}
    gone = {"bootstrap.servers": f"127.0.0.1:{free_port()}", "log_level": 0}
    reads._lags._kafka, reads._lags._admin = gone, KafkaAdmin(gone, 1.0)
    again = await reads.lag(subscription)
    assert again is not None
    assert again.value == first.value
