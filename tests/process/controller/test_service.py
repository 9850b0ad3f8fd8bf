"""The controller's loop without a Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.worker.producer.config import ProducerConfig
from app.worker.producer.kafka_producer import KafkaProducer
from controller.config import ControllerConfig
from controller.model import Record
from controller.place import directory
from controller.plan.actions import World, WriteStatus
from controller.plan.outage import outage_status
from controller.service import Controller
from controller.source.files import FileSource
from controller.status.state_directory import StateDirectory
from controller.term import Term
from knative.contract import kafka_names
from knative.contract.records import ControllerReport
from knative.resources.conditions import false
from tables.contract_table import ContractTable
from tables.status_table import StatusTable, decode_status
from tests.support.fakes import CountingObserve, MemoryProduce
from tests.support.processes import free_port

LIMIT_S = 180.0


class OneChannel(FileSource):
    """A source that, as a cluster's does, says itself that Kafka is away."""

    def outage_statuses(self, why: str, said: Collection[str]) -> list[WriteStatus]:
        status = outage_status(("KafkaChannel", "ns", "one"), "u", 1, {}, why)
        return [] if status is None or "u" in said else [status]


class Written(StateDirectory):
    """Keeps what is written."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.statuses: asyncio.Queue[WriteStatus] = asyncio.Queue()

    async def write(
        self,
        statuses: Sequence[WriteStatus],
        retained: Sequence[Record],
        now: float,
        only: Collection[str] | None = None,
    ) -> frozenset[str]:
        for status in statuses:
            self.statuses.put_nowait(status)
        return frozenset()


@pytest.mark.asyncio
async def test_kafka_that_is_lost_before_the_tables_are_loaded_is_said_to_be_away(tmp_path: Path) -> None:
    """It has answered at the start, and then the contract cannot be read."""
    client = {"bootstrap.servers": f"127.0.0.1:{free_port()}"}
    resources = tmp_path / "resources"
    resources.mkdir()
    config = ControllerConfig(
        kafka=client, resources_dir=resources, state_dir=tmp_path / "state", admin_timeout_s=1.0, stop_timeout_s=3.0
    )
    crashes: list[BaseException] = []
    contract = ContractTable(config.contract_topic, client, crashes.append)
    status = StatusTable(kafka_names.status_topic(config.instance), client, crashes.append)
    sink = Written(config.state_dir)
    place = replace(directory(config), source=OneChannel(resources), sink=sink, reports_outage=lambda: True)
    producer = KafkaProducer(ProducerConfig(kafka=client, name="p"), CountingObserve())
    controller = Controller(config, contract, status, producer, crashes.append, place)
    await controller.start()
    try:
        written = await asyncio.wait_for(sink.statuses.get(), LIMIT_S)
    finally:
        await controller.stop()
    assert (written.name, {condition.reason for condition in written.conditions}) == ("one", {"KafkaUnavailable"})
    assert crashes == []


@pytest.mark.asyncio
async def test_status_that_is_written_later_is_in_the_report_now(tmp_path: Path) -> None:
    client = {"bootstrap.servers": f"127.0.0.1:{free_port()}"}
    config = ControllerConfig(kafka=client, resources_dir=tmp_path, state_dir=tmp_path / "state")
    crashes: list[BaseException] = []
    contract = ContractTable(config.contract_topic, client, crashes.append)
    table = StatusTable(kafka_names.status_topic(config.instance), client, crashes.append)
    table.loaded = True
    sink, produce = Written(config.state_dir), MemoryProduce()
    leader: Any = SimpleNamespace(held=True, term=1)
    place = replace(directory(config), sink=sink, elect=lambda *_: leader)
    controller = Controller(config, contract, table, produce, crashes.append, place)
    problem = (false("SubscriberResolved", "NotFound", "there is no such Service"),)
    statuses = [WriteStatus("Subscription", "ns", name, f"u-{name}", 1, problem, {}) for name in ("new", "old")]
    assert await controller._write(Term(1), statuses, World(), {"u-new"}) == {"u-new"}
    assert sink.statuses.get_nowait().name == "old"
    assert sink.statuses.empty()
    reports = [decode_status(record.value) for record in produce.records if record.value is not None]
    (report,) = (record for record in reports if isinstance(record, ControllerReport))
    assert [resource_problem.name for resource_problem in report.problems] == ["new", "old"]
