"""The controller on a real Kafka keeps what was perhaps not meant to go: over restarts, and beside strangers."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest

from app.local.kafka import EmbeddedKafka
from tests.integration.cli_fixture import Looked
from tests.integration.controller_fixture import ControllerFixture

pytestmark = pytest.mark.integration


@pytest.mark.asyncio
async def test_a_typing_error_in_a_kind_removes_nothing_now_nor_after_a_restart(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    instance = f"i{uuid.uuid4().hex[:8]}"
    first = ControllerFixture(kafka.bootstrap, tmp_path, instance)
    first.channel("orders")
    first.channel("stock")
    async with first:
        await first.until(lambda: bool(first.published("orders") and first.published("stock")), "the contract")
        file = first.folder / "orders.yaml"
        file.write_text(file.read_text("utf-8").replace("KafkaChannel", "KafkaChanel"), "utf-8")
        await first.until(lambda: "did you mean" in _problems(first), "the problem")
        assert "KafkaChannel default/orders" in _problems(first)
        await asyncio.sleep(1.5)
        orders = first.published("orders")
        assert orders is not None
    second = ControllerFixture(kafka.bootstrap, tmp_path, instance)
    async with second:
        await second.until(lambda: second.controller.leading, "a leader")
        await asyncio.sleep(2.0)
        assert second.published("orders") == orders
        assert second.said("KafkaChannel", "orders"), "its status stays as well"
        second.channel("orders", 2)
        await second.until(lambda: bool(second.published("orders").generation == 2), "the mended file")
        assert second.published("orders").uid == orders.uid


@pytest.mark.asyncio
async def test_an_emptied_file_removes_nothing_now_nor_after_a_restart_until_it_is_deleted(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    instance = f"i{uuid.uuid4().hex[:8]}"
    first = ControllerFixture(kafka.bootstrap, tmp_path, instance)
    first.channel("orders")
    first.channel("stock")
    async with first:
        await first.until(lambda: bool(first.published("orders") and first.published("stock")), "the contract")
        orders = first.published("orders")
        (first.folder / "orders.yaml").write_text("# KafkaChannel\n", "utf-8")
        await first.until(lambda: "delete the file" in _problems(first), "the problem")
        await asyncio.sleep(1.5)
        assert first.published("orders") == orders
    second = ControllerFixture(kafka.bootstrap, tmp_path, instance)
    async with second:
        await second.until(lambda: second.controller.leading, "a leader")
        await asyncio.sleep(2.0)
        assert second.published("orders") == orders
        assert "orders.yaml" in _problems(second)
        (second.folder / "orders.yaml").unlink()
        await second.until(lambda: second.published("orders") is None, "its removal")
        assert second.published("stock") is not None


@pytest.mark.asyncio
async def test_another_directory_on_the_same_kafka_removes_nothing(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    instance = f"i{uuid.uuid4().hex[:8]}"
    first = ControllerFixture(kafka.bootstrap, tmp_path / "first", instance)
    first.channel("orders")
    first.subscription("billing", "orders")
    async with first:
        await first.until(lambda: first.published("billing") is not None, "the contract")
        served = [first.published("orders"), first.published("billing")]
    await _publish_mine_and_leave_the_rest(ControllerFixture(kafka.bootstrap, tmp_path / "second", instance), served)
    # By now something of its own is in the contract.
    await _publish_mine_and_leave_the_rest(ControllerFixture(kafka.bootstrap, tmp_path / "second", instance), served)
    third = ControllerFixture(kafka.bootstrap, tmp_path / "second", instance)
    async with third:
        third.channel("orders")
        await third.until(lambda: "Subscription default/billing)" in _problems(third), "the channel's recognition")
        third.remove("orders")
        await third.until(lambda: third.published("orders") is None, "its removal")
        assert third.published("billing") == served[1]


@pytest.mark.asyncio
async def test_what_no_file_names_goes_when_it_is_asked_for(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """By the command, with its group and topics; and not while a file names it, or a file cannot be read."""
    instance = f"i{uuid.uuid4().hex[:8]}"
    first = ControllerFixture(kafka.bootstrap, tmp_path / "first", instance)
    first.channel("orders")
    first.subscription("billing", "orders")
    async with first:
        await first.until(lambda: first.published("billing") is not None, "the contract")
    looked = Looked(kafka.bootstrap, instance, first.topic("orders"))
    both = ("remove", "KafkaChannel/default/orders", "subscription/default/billing")
    second = ControllerFixture(kafka.bootstrap, tmp_path / "second", instance)
    second.channel("mine")
    async with second:
        await second.until(lambda: bool(second.status.report and second.status.report.foreign), "what is foreign")
        status = await asyncio.to_thread(looked.penstock, "status")
        assert "`penstock remove KafkaChannel/default/orders --yes`" in status.stdout
        for arguments, code, says in (
            (both, 2, "Say --yes."),
            (("remove", "KafkaChannel/default/mine", "--yes"), 1, "A file still contains KafkaChannel/default/mine"),
            (("remove", "KafkaChannel/default/none", "--yes"), 1, "There is no KafkaChannel/default/none"),
            (("remove", "KafkaChannel/default/orders", "--yes"), 1, "add Subscription/default/billing"),
            (("remove", "orders", "--yes"), 2, "KIND/NAMESPACE/NAME"),
        ):
            done = await asyncio.to_thread(looked.penstock, *arguments)
            assert (done.returncode, says in done.stderr) == (code, True), done.stderr
        (second.folder / "bad.yaml").write_text("kind: [", "utf-8")
        await second.until(lambda: "bad.yaml" in _problems(second), "the problem")
        await second.until(lambda: "bad.yaml" in str(second.status.report), "its report")
        done = await asyncio.to_thread(looked.penstock, *both, "--yes")
        assert (done.returncode, "while bad.yaml" in done.stderr) == (3, True), done.stderr
        assert second.published("orders") is not None
        second.remove("bad")
        await second.until(lambda: "bad.yaml" not in str(second.status.report), "the end of the problem")
        done = await asyncio.to_thread(looked.penstock, *both, "--yes")
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == [
            "Removed KafkaChannel/default/orders.",
            "Removed Subscription/default/billing.",
        ]
        assert second.published("orders") is None
        assert second.published("billing") is None
        assert await second.look(first.topic("orders")) is None
        await second.until(lambda: second.status.requests == {}, "the requests are taken back")
        await second.until(
            lambda: bool(second.status.report and not second.status.report.foreign), "nothing is foreign"
        )
    late = await asyncio.to_thread(looked.penstock, "remove", "KafkaChannel/default/mine", "--yes")
    assert late.returncode == 1


async def _publish_mine_and_leave_the_rest(plant: ControllerFixture, served: list[Any]) -> None:
    plant.channel("mine")
    async with plant:
        await plant.until(lambda: "PENSTOCK_INSTANCE" in _problems(plant), "the warning")
        await plant.until(lambda: plant.published("mine") is not None, "its own channel")
        await asyncio.sleep(2.0)
        assert [plant.published(record.name) for record in served] == served


def _problems(plant: ControllerFixture) -> str:
    path = plant.state / "problems.json"
    return path.read_text("utf-8") if path.exists() else ""
