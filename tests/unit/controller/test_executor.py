"""Which actions go side by side, in which order the others come, and what a failure of one does to the rest."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest

from controller.executor import Executor, runs
from controller.model import PART_MAX
from controller.plan.actions import (
    Action,
    CommitStart,
    DeleteGroup,
    DeleteTopic,
    Forget,
    GroupState,
    Remember,
    Retract,
    Scope,
)
from knative.contract.leader_state import LeaderState, Removal
from knative.resources.values import Start
from tables.kafka.admin.answers import GroupInfo
from tables.kafka.errors import KafkaFailed, KafkaUnavailable
from tests.unit.controller.worlds import CONFIG


def _start(group: str) -> CommitStart:
    return CommitStart(group, "t", (0,), Start.LATEST)


def _removal(uid: str) -> Removal:
    return Removal(uid, "Trigger", f"default/{uid}", "t", group=uid)


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        ([], []),
        ([_start("a"), _start("b"), _start("c")], [2, 1]),
        ([_start("a"), _start("a")], [1, 1]),
        ([Retract("a"), DeleteGroup("a"), DeleteGroup("b")], [1, 2]),
        ([DeleteTopic("a"), DeleteTopic("b")], [1, 1]),
        ([Remember(_removal("a")), Remember(_removal("b")), Forget("c")], [2, 1]),
    ],
)
def test_neighbours_of_one_kind_about_different_objects_are_a_run(actions: list[Action], expected: list[int]) -> None:
    grouped = list(runs(actions, 2))
    assert [len(run) for run in grouped] == expected
    assert [action for run in grouped for action in run] == actions


class _Kafka:
    """Admin, publisher, recorded state and election of an Executor: remembers what it was asked, in its order."""

    def __init__(self, failing: dict[str, KafkaFailed] | None = None) -> None:
        self.log: list[str] = []
        self.failing = failing or {}
        self.under_way = self.most_under_way = 0
        self.held, self.term, self.holds = True, 1, True
        self.state = LeaderState()
        self.writes = 0

    async def confirm(self) -> bool:
        return True

    async def retract(self, uid: str) -> None:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        self.log.append(uid)
        if uid in self.failing:
            raise self.failing[uid]

    async def write(self, state: LeaderState) -> None:
        await asyncio.sleep(0)
        self.writes += 1
        self.state = state


def _executor(kafka: _Kafka) -> Executor:
    return Executor(CONFIG, kafka, kafka, kafka, kafka)  # type: ignore[arg-type]  # each is a part of it


def _retractions(count: int) -> Sequence[Action]:
    return [Retract(f"u{number}") for number in range(count)]


@pytest.mark.asyncio
async def test_actions_of_a_run_go_side_by_side_but_for_a_limit() -> None:
    kafka = _Kafka()
    await _executor(kafka).carry_out(_retractions(60))
    assert kafka.log == [f"u{number}" for number in range(60)]
    assert kafka.most_under_way == PART_MAX


@pytest.mark.asyncio
async def test_one_that_fails_stops_no_other() -> None:
    kafka = _Kafka({"u3": KafkaFailed("no")})
    executor = _executor(kafka)
    await executor.carry_out(_retractions(60))
    assert len(kafka.log) == 60
    assert executor.failures == {"contract u3": "no"}
    kafka.failing = {}
    await executor.carry_out(_retractions(60))
    assert executor.failures == {}


@pytest.mark.asyncio
async def test_kafka_that_is_away_ends_the_rest_after_its_run() -> None:
    kafka = _Kafka({"u3": KafkaUnavailable("away")})
    executor = _executor(kafka)
    with pytest.raises(KafkaUnavailable, match="away"):
        await executor.carry_out(_retractions(60))
    assert kafka.log == [f"u{number}" for number in range(PART_MAX)]
    assert executor.failures == {"contract u3": "away"}


@pytest.mark.asyncio
async def test_removals_are_recorded_together() -> None:
    kafka = _Kafka()
    executor = _executor(kafka)
    uids = [f"u{number}" for number in range(16)]
    await executor.carry_out([Remember(_removal(uid)) for uid in uids])
    assert (sorted(executor.removals), kafka.writes) == (sorted(uids), 1)
    await executor.carry_out([Forget(uid) for uid in uids])
    assert (executor.removals, kafka.writes) == ({}, 2)


@pytest.mark.parametrize(("count", "is_long_enough"), [(1, False), (10_000, True)])
@pytest.mark.asyncio
async def test_time_limit_of_an_observation_grows_with_its_groups(count: int, is_long_enough: bool) -> None:
    """A broker answers about a few hundred at a time: for a Broker with thousands of Triggers that takes a while."""
    may_answer = threading.Event()

    def describe_all(*_: object, limit_s: float) -> dict[str, GroupInfo]:
        assert may_answer.wait(60)
        return {}

    admin = SimpleNamespace(
        describe_topics=lambda *_: {},
        topic_configs=lambda *_: {},
        groups=SimpleNamespace(describe_all=describe_all, committed_or_why=lambda _: {}),
    )
    config, kafka = replace(CONFIG, admin_timeout_s=0.0), _Kafka()
    executor = Executor(config, admin, kafka, kafka, kafka)  # type: ignore[arg-type]
    groups = frozenset(f"g{number}" for number in range(count))
    asyncio.get_running_loop().call_later(executor._limit_s + 0.2, may_answer.set)
    observing = executor.observe(Scope(frozenset(), (), groups))
    if is_long_enough:
        assert (await observing).groups == dict.fromkeys(groups, GroupState.ABSENT)
    else:
        with pytest.raises(KafkaUnavailable, match="did not answer within 1 s"):
            await observing
        may_answer.set()
