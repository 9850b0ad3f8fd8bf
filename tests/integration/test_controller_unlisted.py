"""The controller on a real Kafka: what no file has is not served, and is deleted only on request."""

from __future__ import annotations

import asyncio
import json
import uuid
from pathlib import Path

import pytest

from app.local.kafka import EmbeddedKafka
from controller.plan.actions import GroupState
from tests.integration.cli_fixture import StoredInstallation
from tests.integration.controller_fixture import ControllerFixture
from tests.support.groups import group_states

pytestmark = pytest.mark.integration


@pytest.mark.asyncio
async def test_typing_error_in_a_kind_removes_nothing_now_nor_after_a_restart(
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
async def test_what_no_file_has_is_not_served_and_continues_when_its_file_is_back(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    """Also over a restart, and while another directory is served on the same Kafka."""
    instance = f"i{uuid.uuid4().hex[:8]}"
    first = ControllerFixture(kafka.bootstrap, tmp_path / "first", instance)
    first.channel("orders")
    first.subscription("billing", "orders")
    async with first:
        await first.until(lambda: first.published("billing") is not None, "the contract")
        served = [first.published("orders"), first.published("billing")]
        topic, group = served[0].topic, served[1].group
        first.remove("billing")
        first.remove("orders")
        await first.until(lambda: all(first.unlisted(record.name) for record in served), "they are unlisted")
        await first.until(lambda: first.condition("KafkaChannel", "orders") == ("False", "NotInFiles"), "the reason")
        id_ = (await first.look(topic)).id
    second = ControllerFixture(kafka.bootstrap, tmp_path / "second", instance)
    second.channel("mine")
    async with second:
        await second.until(lambda: second.published("mine") is not None, "its own channel")
        await second.until(lambda: second.controller.settled.is_set(), "all is done")
        assert [second.published(record.name).unlisted for record in served] == [True, True]
    third = ControllerFixture(kafka.bootstrap, tmp_path / "first", instance)
    third.channel("orders")
    third.subscription("billing", "orders")
    async with third:
        await third.until(
            lambda: [third.published(record.name) for record in served] == served, "they are served again"
        )
        await third.until(lambda: third.unlisted("mine"), "the other directory's")
        assert (await third.look(topic)).id == id_
        state = await asyncio.to_thread(group_states, third.admin, [group])
        assert state == {group: GroupState.EMPTY}


@pytest.mark.asyncio
async def test_what_no_file_names_goes_when_it_is_asked_for(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """By the command, with its group and topics; and not while a file names it, or a file cannot be read."""
    instance = f"i{uuid.uuid4().hex[:8]}"
    first = ControllerFixture(kafka.bootstrap, tmp_path / "first", instance)
    first.channel("orders")
    first.subscription("billing", "orders")
    async with first:
        await first.until(lambda: first.published("billing") is not None, "the contract")
    site = StoredInstallation(kafka.bootstrap, instance, first.topic("orders"))
    both = ("remove", "KafkaChannel/default/orders", "subscription/default/billing")
    second = ControllerFixture(kafka.bootstrap, tmp_path / "second", instance)
    second.channel("mine")
    async with second:
        await second.until(lambda: second.unlisted("billing"), "what no file has")
        await second.until(lambda: "NotInFiles" in str(second.status.report), "its report")
        status = await asyncio.to_thread(site.penstock, "status")
        assert "`penstock remove KafkaChannel/default/orders`" in status.stdout
        would = await asyncio.to_thread(site.penstock, "remove", "--unlisted", "--dry-run", "-o", "json")
        assert [row["resource"] for row in json.loads(would.stdout)["would_remove"]] == [
            "KafkaChannel/default/orders",
            "Subscription/default/billing",
        ]
        for arguments, code, says in (
            (both, 2, "Add --yes."),
            (("remove", "KafkaChannel/default/mine", "--yes"), 1, "KafkaChannel/default/mine is still in a file"),
            (("remove", "KafkaChannel/default/none", "--yes"), 1, "There is no KafkaChannel/default/none"),
            (("remove", "KafkaChannel/default/orders", "--yes"), 1, "add Subscription/default/billing"),
            (("remove", "orders", "--yes"), 2, "KIND/NAMESPACE/NAME"),
            (("remove", "--yes"), 2, "--unlisted"),
        ):
            done = await asyncio.to_thread(site.penstock, *arguments)
            assert (done.returncode, says in done.stderr) == (code, True), done.stderr
        (second.folder / "bad.yaml").write_text("kind: [", "utf-8")
        await second.until(lambda: "bad.yaml" in _problems(second), "the problem")
        await second.until(lambda: "bad.yaml" in str(second.status.report), "its report")
        done = await asyncio.to_thread(site.penstock, *both, "--yes")
        assert (done.returncode, "because bad.yaml" in done.stderr) == (3, True), done.stderr
        assert second.published("orders") is not None
        second.remove("bad")
        await second.until(lambda: "bad.yaml" not in str(second.status.report), "the end of the problem")
        done = await asyncio.to_thread(site.penstock, "remove", "--unlisted", "--yes")
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == [
            "Removed KafkaChannel/default/orders.",
            "Removed Subscription/default/billing.",
        ]
        assert second.published("orders") is None
        assert second.published("billing") is None
        assert await second.look(first.topic("orders")) is None
        await second.until(lambda: second.status.requests == {}, "the requests are taken back")
    late = await asyncio.to_thread(site.penstock, "remove", "KafkaChannel/default/mine", "--yes")
    assert late.returncode == 1


def _problems(plant: ControllerFixture) -> str:
    path = plant.state / "problems.json"
    return path.read_text("utf-8") if path.exists() else ""
