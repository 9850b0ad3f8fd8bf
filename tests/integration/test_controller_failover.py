"""Controllers that share nothing but Kafka: each has a directory and a state directory of its own."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from app.local.kafka import EmbeddedKafka
from controller.plan.actions import GroupState
from knative.contract.leader_state import LeaderState, Removal
from tests.integration.controller_fixture import ControllerFixture
from tests.integration.controller_process import ControllerProcess
from tests.support.groups import group_states

pytestmark = pytest.mark.integration


class Pair:
    """A leader in a process of its own, and a standby in this one. `first.folder` and `second.folder` are equal."""

    def __init__(self, kafka: EmbeddedKafka, root: Path, fault: str = "none", step: str = "") -> None:
        self.bootstrap, self.root, self.fault, self.step = kafka.bootstrap, root, fault, step
        self.instance = f"i{uuid.uuid4().hex[:8]}"
        self.running = AsyncExitStack()
        self.first = ControllerFixture(kafka.bootstrap, root / "first", self.instance)  # for its files; never started
        self.second = ControllerFixture(kafka.bootstrap, root / "second", self.instance)
        for each in (self.first, self.second):
            each.channel("kept")
            each.channel("orders")
            each.subscription("billing", "orders")

    async def __aenter__(self) -> Pair:
        self.leader = ControllerProcess(self.bootstrap, self.root / "first", self.instance, self.fault, self.step)
        await self.second.until(lambda: "leads" in self.leader.output(), "the first leader")
        await self.running.enter_async_context(self.second)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.leader.kill()
        await self.running.aclose()

    async def served(self) -> list[Any]:
        """The records of orders, billing and kept."""
        names = ("orders", "billing", "kept")
        await self.second.until(lambda: all(map(self.second.published, names)), "the contract")
        assert not self.second.controller.leading
        self.first_term = self.second.status.leaders.current
        return self.served_now()

    def served_now(self) -> list[Any]:
        return [self.second.published(name) for name in ("orders", "billing", "kept")]

    async def killed(self) -> None:
        """The first leader has ended, and the second one leads and has begun."""
        await self.second.until(lambda: not self.leader.running, f"{self.fault} {self.step}")
        await self.begun()

    async def begun(self) -> None:
        await self.second.until(lambda: self.second.controller.leading, "the second leader")
        await self.second.until(lambda: self.second.status.leaders.current != self.first_term, "its claim")

    async def topic_ids(self) -> list[str]:
        names = [self.first.topic("orders"), f"{self.first.topic('orders')}.dlq"]
        return [info.id if (info := await self.second.look(name)) else "" for name in names]


STEPS = [
    ("kill-before", "Remember"),
    ("kill-after", "Remember"),
    ("kill-after", "Retract"),
    ("kill-before", "DeleteGroup"),
    ("kill-after", "DeleteGroup"),
    ("kill-after", "DeleteTopic"),
    ("kill-before", "Forget"),
    ("kill-after", "Forget"),
]


@pytest.mark.asyncio
async def test_next_leader_finishes_a_removal_at_whatever_step_the_last_one_was_killed(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    slots = asyncio.Semaphore(4)  # each waits for a session to end, most of the time

    async def finish(fault: str, step: str) -> None:
        async with slots, Pair(kafka, tmp_path / f"{fault}-{step}", fault, step) as pair:
            orders, billing, kept = await pair.served()
            for each in (pair.first, pair.second):
                each.remove("billing")
                each.remove("orders")
            second = pair.second
            await second.ask("billing", "orders")
            await pair.killed()
            await second.until(lambda: second.published("orders") is None, f"{step}: the channel's end")
            await second.until(lambda: second.published("billing") is None, f"{step}: the subscription's end")
            await second.until(lambda: second.status.leaders.state() == LeaderState(), f"{step}: all is done")
            assert await pair.topic_ids() == ["", ""], step
            assert await second.look(orders.dlq_topic) is None
            state = await asyncio.to_thread(group_states, second.admin, [billing.group])
            assert state == {billing.group: GroupState.ABSENT}, step
            assert second.published("kept") == kept, step

    await asyncio.gather(*(finish(fault, step) for fault, step in STEPS))


@pytest.mark.asyncio
@pytest.mark.parametrize(("step", "gone"), [("CreateTopic", "kept"), ("CommitStart", "billing")])
async def test_topics_of_a_channel_that_was_never_published_stay_when_its_file_is_gone(
    step: str, gone: str, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    """The last leader is killed in between, and the file is gone when the next one begins: nobody asked for removal."""
    pair = Pair(kafka, tmp_path, "kill-after", step)
    pair.second.remove(gone)
    async with pair:
        second = pair.second
        await second.until(lambda: not pair.leader.running, "its end")
        label = f"default/{gone}"

        def recorded() -> list[Removal]:
            return [
                creation for creation in second.status.leaders.state().creations.values() if creation.label == label
            ]

        await second.until(lambda: bool(recorded()), "what was created is recorded")
        (created,) = recorded()
        await second.until(lambda: second.published("orders") is not None, "the others are served")
        await second.until(second.controller.settled.is_set, "all is done")
        assert second.published(gone) is None
        if created.topics:
            assert recorded() == [created], "the log names it after an hour"
            assert await second.look(created.topics[0]) is not None
        else:
            await second.until(lambda: second.status.leaders.state() == LeaderState(), "a group alone goes")
            state = await asyncio.to_thread(group_states, second.admin, [created.group])
            assert state == {created.group: GroupState.ABSENT}


@pytest.mark.asyncio
async def test_what_is_in_the_next_leaders_files_is_not_removed_although_the_last_one_had_begun_to(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    async with Pair(kafka, tmp_path, "kill-after", "Remember") as pair:
        served = await pair.served()
        topics = await pair.topic_ids()
        pair.first.remove("billing")
        pair.first.remove("orders")
        second = pair.second
        await second.ask("billing", "orders")
        await pair.killed()
        await second.until(lambda: not second.status.leaders.state().removals, "it is cancelled")
        await second.until(lambda: pair.served_now() == served, "all is served again")
        await asyncio.sleep(3.0)
        assert pair.served_now() == served
        assert await pair.topic_ids() == topics


@pytest.mark.asyncio
@pytest.mark.parametrize("step", ["Remember", "Retract"])
async def test_leader_that_was_stopped_past_its_session_undoes_nothing(
    step: str, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    """It is stopped between the last check and the record, so the record of its step arrives when another leads."""
    async with Pair(kafka, tmp_path, "stop-before", step) as pair:
        served = await pair.served()
        topics = await pair.topic_ids()
        pair.first.remove("orders")
        pair.first.remove("billing")
        second = pair.second
        await second.ask("billing", "orders")
        await pair.begun()
        await second.until(lambda: not second.status.leaders.state().removals, "nothing is being removed")
        term = second.status.leaders.current
        pair.leader.resume()
        await second.until(lambda: "deposed" in pair.leader.output(), "the first one notices")
        await asyncio.sleep(2.0)
        await second.until(lambda: pair.served_now() == served, "all is served again")
        assert await pair.topic_ids() == topics
        assert second.status.leaders.current == term
        assert second.status.leaders.state() == LeaderState()
    third = ControllerFixture(kafka.bootstrap, tmp_path / "second", pair.instance)
    async with third:
        await third.until(lambda: third.status.leaders.current not in (None, term), "the third leader")
        await asyncio.sleep(2.0)
        assert [third.published(record.name) for record in served] == served
        assert third.status.leaders.state() == LeaderState()


@pytest.mark.asyncio
async def test_next_leader_gives_a_resource_the_uid_that_the_last_one_gave_it(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    """The last one had committed its start offsets, and had not published it yet."""
    async with Pair(kafka, tmp_path, "kill-before", "PublishSubscription") as pair:
        second = pair.second
        await second.until(lambda: not pair.leader.running, "its end")
        key = ("Subscription", "default", "billing")
        await second.until(lambda: key in second.status.leaders.state().identities, "its identity")
        given = second.status.leaders.state().identities[key]
        await second.until(lambda: second.published("billing") is not None, "the contract")
        billing = second.published("billing")
        assert (billing.uid, billing.generation, billing.spec_hash) == (given.uid, given.generation, given.spec_hash)
        await second.until(lambda: second.status.leaders.state() == LeaderState(), "the contract has it by now")


@pytest.mark.asyncio
async def test_two_controllers_with_equal_files_agree_on_uids_and_generations(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    async with Pair(kafka, tmp_path) as pair:
        await pair.served()
        second = pair.second
        for each in (pair.first, second):
            each.channel("orders", 2)
        await second.until(lambda: bool(second.published("orders").generation == 2), "the change")
        await second.until(lambda: bool(second.published("billing").partitions == 2), "what follows from it")
        served = await pair.served()
        pair.leader.kill()
        await pair.begun()
        await asyncio.sleep(2.0)
        assert pair.served_now() == served, "nothing is published again"
        second.channel("orders", 3)
        await second.until(lambda: bool(second.published("orders").generation == 3), "the next change")
        assert second.published("orders").uid == served[0].uid
