"""The controller on a real Kafka: files in, topics, start offsets, contract records and status files out."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from app.local.kafka import EmbeddedKafka
from controller.plan.actions import GroupState
from knative.contract import kafka_names
from knative.contract.records import WorkerState, WorkerStatus, WorkerSubscription
from knative.resources.values import Start
from tables.status_parts import encode_status
from tests.integration.controller_fixture import CHANNEL, ControllerFixture
from tests.support.groups import group_states
from tests.support.processes import free_port

pytestmark = pytest.mark.integration


@pytest.fixture
def plant(kafka: EmbeddedKafka, tmp_path: Path) -> ControllerFixture:
    return ControllerFixture(kafka.bootstrap, tmp_path, f"i{uuid.uuid4().hex[:8]}")


@pytest.mark.asyncio
async def test_channel_and_its_subscription_from_file_to_ready(plant: ControllerFixture) -> None:
    plant.channel("orders", 3)
    plant.subscription("billing", "orders")
    async with plant:
        await plant.until(lambda: plant.published("billing") is not None, "the contract")
        channel, billing = plant.published("orders"), plant.published("billing")
        assert (channel.partitions, channel.topic) == (3, plant.topic("orders"))
        assert channel.hosts[0] == "orders-kn-channel.default.svc.cluster.local"
        assert (billing.group, billing.channel_uid) == (f"kafka.{billing.uid}", channel.uid)
        assert billing.delivery.retry == 10
        topic, dlq = await plant.look(channel.topic), await plant.look(channel.dlq_topic)
        assert (topic.partitions, dlq.partitions) == (3, 3)
        assert topic.configs["max.message.bytes"] == str((1024 + 256) * 1024)
        assert topic.configs["retention.ms"] == str(168 * 3_600_000)
        assert dlq.configs["max.message.bytes"] == str((1024 + 512) * 1024)
        assert dlq.configs["retention.ms"] == str(30 * 86_400_000)
        await plant.until(lambda: plant.condition("Subscription", "billing")[0] == "Unknown", "a status")
        served = WorkerSubscription(1, (0, 1, 2), WorkerState.RUNNING)
        word = encode_status(WorkerStatus("w", time.time(), "all", {billing.uid: served}))
        plant.producer.send(kafka_names.status_topic(plant.config.instance), word, b"w", [], lambda _: None)
        await plant.until(lambda: plant.condition("Subscription", "billing") == ("True", ""), "ready")
        await plant.until(lambda: plant.condition("KafkaChannel", "orders") == ("True", ""), "ready")
        status = plant.said("KafkaChannel", "orders")["status"]
        assert status["subscribers"] == [{"uid": billing.uid, "observedGeneration": 1, "ready": "True"}]


@pytest.mark.asyncio
async def test_start_offsets_are_there_for_every_partition_before_the_contract(plant: ControllerFixture) -> None:
    plant.channel("orders", 2)
    async with plant:
        await plant.until(lambda: plant.published("orders") is not None, "the channel")
        topic = plant.topic("orders")
        producer = Producer(dict(plant.config.kafka))
        for _ in range(3):
            producer.produce(topic, b"x", partition=1)
        assert await asyncio.to_thread(producer.flush, 10) == 0
        plant.subscription("late", "orders", "latest")
        plant.subscription("early", "orders", "earliest")
        await plant.until(lambda: bool(plant.published("late") and plant.published("early")), "both")
        for name, expected in (("late", {0: 0, 1: 3}), ("early", {0: 0, 1: 0})):
            group = plant.published(name).group
            assert await asyncio.to_thread(plant.offsets.committed, group, topic, range(2)) == expected


@pytest.mark.asyncio
async def test_partitions_are_raised_and_never_lowered(plant: ControllerFixture) -> None:
    plant.channel("orders", 2)
    plant.subscription("billing", "orders")
    async with plant:
        await plant.until(lambda: plant.published("billing") is not None, "the contract")
        plant.channel("orders", 4)
        await plant.until(lambda: bool(plant.published("billing").partitions == 4), "four partitions")
        channel = plant.published("orders")
        assert (channel.partitions, channel.generation) == (4, 2)
        assert (await plant.look(channel.dlq_topic)).partitions == 4
        plant.channel("orders", 1)
        await plant.until(
            lambda: plant.condition("KafkaChannel", "orders", "TopicReady") == ("True", "TopicDiffers"), "the reason"
        )
        assert plant.published("orders").partitions == 4


@pytest.mark.asyncio
async def test_removal_takes_record_group_and_topics_along(plant: ControllerFixture) -> None:
    plant.channel("orders", 1)
    plant.channel("kept", 1, ', annotations: {penstock.dev/keep-topic: "true"}')
    plant.subscription("billing", "orders")
    async with plant:
        await plant.until(lambda: bool(plant.published("billing") and plant.published("kept")), "the contract")
        group, uid = plant.published("billing").group, plant.published("billing").uid
        member = Consumer({**plant.config.kafka, "group.id": group, "session.timeout.ms": 6000})
        member.subscribe([plant.topic("orders")])
        await asyncio.to_thread(member.poll, 5.0)
        plant.remove("billing")
        plant.remove("kept")
        await plant.ask("billing", "kept")
        await plant.until(lambda: plant.published("billing") is None, "the tombstone")
        await asyncio.sleep(1.5)
        state = await asyncio.to_thread(group_states, plant.admin, [group])
        assert state == {group: GroupState.LIVE}, "a group with members is left alone"
        await asyncio.to_thread(member.close)
        await plant.until(lambda: "billing" not in _notes(plant), "the group's end")
        assert await asyncio.to_thread(group_states, plant.admin, [group]) == {group: GroupState.ABSENT}
        plant.remove("orders")
        await plant.ask("orders")
        await plant.until(lambda: plant.published("orders") is None and not _notes(plant), "the channel's end")
        assert await plant.look(plant.topic("orders")) is None
        assert await plant.look(plant.topic("orders") + ".dlq") is None
        assert await plant.look(plant.topic("kept")) is not None
        assert not plant.said("KafkaChannel", "orders")
        plant.channel("orders")
        plant.subscription("billing", "orders")
        await plant.until(lambda: plant.published("billing") is not None, "new ones")
        assert plant.published("billing").uid != uid


def _notes(plant: ControllerFixture) -> str:
    return " ".join(removal.label for removal in plant.status.leaders.state().removals.values())


@pytest.mark.asyncio
async def test_invalid_file_changes_nothing_and_is_reported(plant: ControllerFixture) -> None:
    plant.channel("orders")
    async with plant:
        await plant.until(lambda: plant.published("orders") is not None, "the contract")
        (plant.folder / "orders.yaml").write_text("apiVersion: messaging.knative.dev/v1beta1\nkind: [", "utf-8")
        problems = plant.state / "problems.json"

        def reported() -> list[dict[str, Any]]:
            entries: list[dict[str, Any]] = json.loads(problems.read_text("utf-8"))["problems"]
            return entries

        await plant.until(lambda: problems.exists() and bool(reported()), "the problem")
        assert (reported()[0]["file"], reported()[0]["line"]) == ("orders.yaml", 2)
        await asyncio.sleep(1.5)
        assert plant.published("orders") is not None
        plant.channel("orders", 2)
        await plant.until(lambda: not reported() and plant.published("orders").partitions == 2, "the mended file")


@pytest.mark.asyncio
async def test_identity_survives_a_restart_and_a_file_that_is_bad_by_then(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    instance = f"i{uuid.uuid4().hex[:8]}"
    first = ControllerFixture(kafka.bootstrap, tmp_path, instance)
    first.channel("orders")
    first.channel("stock")
    async with first:
        await first.until(lambda: bool(first.published("orders") and first.published("stock")), "the contract")
        orders, stock = first.published("orders"), first.published("stock")
    second = ControllerFixture(kafka.bootstrap, tmp_path, instance)
    second.channel("orders", 2)
    (second.folder / "stock.yaml").write_text("kind: {", "utf-8")
    async with second:
        await second.until(lambda: second.published("orders") is not None, "the contract")
        await second.until(lambda: bool(second.published("orders").generation == 2), "the change")
        await asyncio.sleep(1.5)
        assert second.published("orders").uid == orders.uid
        assert second.published("stock") == stock
        second.remove("stock")
        await second.until(lambda: second.unlisted("stock"), "the end of the file")


@pytest.mark.asyncio
async def test_one_leads_and_the_other_takes_over(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    instance = f"i{uuid.uuid4().hex[:8]}"
    first, second = (
        ControllerFixture(kafka.bootstrap, tmp_path, instance),
        ControllerFixture(kafka.bootstrap, tmp_path, instance),
    )
    async with second:
        async with first:
            await first.until(lambda: first.controller.leading or second.controller.leading, "a leader")
            await asyncio.sleep(1.0)
            assert first.controller.leading != second.controller.leading
            first.channel("orders")
            await first.until(lambda: first.published("orders") is not None, "the contract")
        await second.until(lambda: second.controller.leading, "the other")
        second.channel("orders", 3)
        await second.until(lambda: bool(second.published("orders").partitions == 3), "the change")
        assert second.published("orders").generation == 2


@pytest.mark.asyncio
async def test_topic_that_is_there_is_taken_as_it_is(plant: ControllerFixture) -> None:
    await asyncio.to_thread(plant.admin.create_topic, plant.topic("orders"), 5, 1, {})
    plant.channel("orders", 2)
    async with plant:
        await plant.until(lambda: plant.published("orders") is not None, "the contract")
        assert plant.published("orders").partitions == 5
        await plant.until(
            lambda: plant.condition("KafkaChannel", "orders", "TopicReady") == ("True", "TopicDiffers"), "the reason"
        )


@pytest.mark.asyncio
async def test_rejection_by_kafka_is_a_condition_and_delays_no_other_resource(plant: ControllerFixture) -> None:
    text = CHANNEL.format(name="wide", partitions=1, more="").replace("numPartitions: 1", "replicationFactor: 3")
    (plant.folder / "wide.yaml").write_text(text, "utf-8")
    async with plant:
        await plant.until(
            lambda: plant.condition("KafkaChannel", "wide", "TopicReady") == ("False", "KafkaRefused"), "the reason"
        )
        message = plant.said("KafkaChannel", "wide")["status"]["conditions"][0]["message"]
        assert "lower spec.replicationFactor" in message
        plant.channel("orders")
        await plant.until(lambda: plant.published("orders") is not None, "the other channel")
        assert plant.published("wide") is None


@pytest.mark.asyncio
async def test_offsets_are_rejected_while_the_group_has_members(
    plant: ControllerFixture, make_topic: Callable[..., str]
) -> None:
    topic, group = make_topic(1), f"kafka.{uuid.uuid4()}"
    member = Consumer({**plant.config.kafka, "group.id": group})
    member.subscribe([topic])
    while not member.assignment():  # a busy machine takes longer than one poll
        await asyncio.to_thread(member.poll, 0.5)
    with pytest.raises(Exception, match="committing offsets of group"):
        await asyncio.to_thread(plant.offsets.commit_start, group, topic, [0], Start.EARLIEST)
    await asyncio.to_thread(member.close)
    await asyncio.to_thread(plant.offsets.commit_start, group, topic, [0], Start.EARLIEST)
    assert await asyncio.to_thread(plant.offsets.committed, group, topic, [0]) == {0: 0}


@pytest.mark.asyncio
async def test_while_kafka_is_away_everything_stays_and_afterwards_goes_on(tmp_path: Path) -> None:
    jars = Path(__file__).parents[2] / ".penstock" / "kafka"
    broker = EmbeddedKafka(tmp_path / "kafka", port=free_port(), heap="384m", jars_root=jars)
    with broker:
        plant = ControllerFixture(broker.bootstrap, tmp_path, "penstock")
        plant.channel("orders")
        async with plant:
            status = plant.state / "KafkaChannel" / "default.orders.json"
            await plant.until(lambda: plant.published("orders") is not None and status.exists(), "contract and status")
            await asyncio.to_thread(broker.stop)
            plant.channel("orders", 2)
            await asyncio.sleep(3.0)
            assert plant.published("orders").partitions == 1
            assert status.exists()
            await asyncio.to_thread(broker.start)
            await plant.until(lambda: bool(plant.published("orders").partitions == 2), "the change")
